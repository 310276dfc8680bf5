-- Runs whose thread goes when they end; threads that are gone, but whose log can still be read until they are swept.

ALTER TABLE runs ADD COLUMN temporary INTEGER NOT NULL DEFAULT 0;

CREATE TABLE discarded_threads (
  thread BLOB NOT NULL PRIMARY KEY,
  at     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX discarded_threads_at ON discarded_threads (at);
