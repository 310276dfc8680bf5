-- The threads that were deleted last, so that a client can learn that a thread it knows was deleted.

CREATE TABLE deleted_threads (
  number  INTEGER PRIMARY KEY,                       -- in the order of deletion
  thread  BLOB    NOT NULL UNIQUE
);
