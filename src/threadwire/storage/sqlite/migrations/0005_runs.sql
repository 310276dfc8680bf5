-- Runs whose thread goes when they end, runs that tell somebody; threads that are gone, but whose log can still be read until they are swept.

ALTER TABLE runs ADD COLUMN temporary INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN webhook TEXT;
ALTER TABLE runs ADD COLUMN started_at INTEGER;      -- when its latest attempt began

CREATE TABLE discarded_threads (
  thread BLOB NOT NULL PRIMARY KEY,
  at     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX discarded_threads_at ON discarded_threads (at);

-- Runs that are started again and again.
CREATE TABLE crons (
  cron         BLOB NOT NULL PRIMARY KEY,
  assistant    BLOB NOT NULL,
  thread       BLOB,                            -- null: each run gets a thread of its own
  keep_threads INTEGER NOT NULL,                -- whether those stay
  schedule     TEXT NOT NULL,
  timezone     TEXT,
  end_time     INTEGER,
  next_run_at  INTEGER,                         -- the slot that comes next
  last_run_at  INTEGER,                         -- the slot that was taken last
  enabled      INTEGER NOT NULL,
  multitask    TEXT NOT NULL,
  metadata     TEXT NOT NULL,
  payload      TEXT NOT NULL,
  kwargs       TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  owner        TEXT
) WITHOUT ROWID;
CREATE INDEX crons_due ON crons (next_run_at) WHERE enabled = 1;
CREATE INDEX crons_of_thread ON crons (thread) WHERE thread IS NOT NULL;
CREATE INDEX crons_of_assistant ON crons (assistant);

-- The outbox: what webhooks are to be told. Numbers are never used twice.
CREATE TABLE deliveries (
  delivery INTEGER PRIMARY KEY AUTOINCREMENT,
  run      TEXT NOT NULL,                       -- the run as it was when it had ended
  vals     TEXT,                                -- what its thread held then
  due_at   INTEGER NOT NULL,
  tries    INTEGER NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (due_at);
