-- Temporary runs, whose thread is discarded when they end, and runs with a webhook. The log of a discarded thread stays
-- readable until the thread is swept.

ALTER TABLE runs ADD COLUMN temporary INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN webhook TEXT;
ALTER TABLE runs ADD COLUMN started_at INTEGER;      -- start of its latest attempt

CREATE TABLE discarded_threads (
  thread BLOB NOT NULL PRIMARY KEY,
  at     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX discarded_threads_at ON discarded_threads (at);

-- Recurring runs.
CREATE TABLE crons (
  cron         BLOB NOT NULL PRIMARY KEY,
  assistant    BLOB NOT NULL,
  thread       BLOB,                            -- null: each run gets its own thread
  keep_threads INTEGER NOT NULL,                -- whether those threads are retained after the run
  schedule     TEXT NOT NULL,
  timezone     TEXT,
  end_time     INTEGER,
  next_run_at  INTEGER,                         -- the next slot
  last_run_at  INTEGER,                         -- the last slot that was taken
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

-- The outbox of webhooks. Ids are never reused.
CREATE TABLE deliveries (
  delivery INTEGER PRIMARY KEY AUTOINCREMENT,
  run      TEXT NOT NULL,                       -- the run when it ended
  vals     TEXT,                                -- the values of its thread at that time
  due_at   INTEGER NOT NULL,
  tries    INTEGER NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (due_at);
