-- Snapshots of folds, such as timelines, beside the log that they were computed from. Any of them may be deleted.

CREATE TABLE fold_snapshots (
  thread  BLOB    NOT NULL,
  name    TEXT    NOT NULL,
  seq     INTEGER NOT NULL,
  packed  INTEGER NOT NULL,                          -- 1: zstd
  data    BLOB    NOT NULL,
  PRIMARY KEY (thread, name)
);
