-- Ids are the 16 bytes of a UUID, or text if they are not a UUID. Times are milliseconds since the epoch.
-- JSON columns are text, so that the file can be read with any SQLite shell.

CREATE TABLE assistants (
  assistant   BLOB NOT NULL PRIMARY KEY,
  graph_id    TEXT NOT NULL,
  name        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  version     INTEGER NOT NULL,
  description TEXT,
  config      TEXT NOT NULL,
  context     TEXT NOT NULL,
  metadata    TEXT NOT NULL,
  owner       TEXT
) WITHOUT ROWID;

CREATE TABLE threads (
  thread           BLOB NOT NULL PRIMARY KEY,
  created_at       INTEGER NOT NULL,
  updated_at       INTEGER NOT NULL,
  status           TEXT NOT NULL,               -- the last outcome; the thread is busy while active > 0
  active           INTEGER NOT NULL DEFAULT 0,  -- number of its runs that are pending or running
  state_updated_at INTEGER,
  metadata         TEXT NOT NULL,
  config           TEXT NOT NULL,
  error            TEXT,
  owner            TEXT
) WITHOUT ROWID;
CREATE INDEX threads_created ON threads (created_at);
CREATE INDEX threads_updated ON threads (updated_at);

-- In a table of its own, because values can be large and most queries on threads do not need them.
CREATE TABLE thread_state (
  thread     BLOB NOT NULL PRIMARY KEY,
  vals       TEXT,
  interrupts TEXT NOT NULL
);

CREATE TABLE runs (
  position        INTEGER PRIMARY KEY,          -- the order of acceptance
  run             BLOB NOT NULL UNIQUE,
  thread          BLOB NOT NULL,
  assistant       BLOB NOT NULL,
  graph_id        TEXT NOT NULL,
  status          TEXT NOT NULL,
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  due_at          INTEGER NOT NULL,
  queued_seq      INTEGER NOT NULL,
  multitask       TEXT NOT NULL,
  attempt         INTEGER NOT NULL DEFAULT 0,
  crashes         INTEGER NOT NULL DEFAULT 0,
  cancel          TEXT,
  metadata        TEXT NOT NULL,
  kwargs          TEXT NOT NULL,
  error           TEXT,
  ended_seq       INTEGER,
  idempotency_key TEXT,
  owner           TEXT,
  first           INTEGER NOT NULL DEFAULT 0    -- 1: pending, next of its thread, and no run of the thread is running
);
CREATE INDEX runs_of_thread ON runs (thread);
CREATE UNIQUE INDEX runs_running ON runs (thread) WHERE status = 'running';
CREATE INDEX runs_pending ON runs (thread, due_at) WHERE status = 'pending';
CREATE INDEX runs_claimable ON runs (due_at) WHERE status = 'pending' AND first = 1;
-- Runs without an owner share x'', which no owner can be equal to because it is not text.
CREATE UNIQUE INDEX runs_idempotent ON runs (ifnull(owner, x''), idempotency_key) WHERE idempotency_key IS NOT NULL;

-- The thread log. The last seq of a thread is the end of its last segment; there is no separate counter.
CREATE TABLE segments (
  thread    BLOB NOT NULL,
  first_seq INTEGER NOT NULL,
  n         INTEGER NOT NULL,
  run       BLOB,                               -- null: a change outside a run
  attempt   INTEGER NOT NULL,
  at        INTEGER NOT NULL,
  packed    INTEGER NOT NULL,
  data      BLOB NOT NULL,
  PRIMARY KEY (thread, first_seq)
) WITHOUT ROWID;

CREATE TABLE checkpoints (
  thread     BLOB NOT NULL,
  ns         TEXT NOT NULL,
  checkpoint TEXT NOT NULL,
  parent     TEXT,
  run        BLOB,                              -- the run that created it, from its metadata
  type       TEXT NOT NULL,
  data       BLOB NOT NULL,
  metadata   TEXT NOT NULL,
  PRIMARY KEY (thread, ns, checkpoint)
);

-- One row for every version of a channel, so that a step writes only the channels that it changed.
CREATE TABLE checkpoint_blobs (
  thread  BLOB NOT NULL,
  ns      TEXT NOT NULL,
  channel TEXT NOT NULL,
  version TEXT NOT NULL,
  type    TEXT NOT NULL,
  data    BLOB NOT NULL,
  PRIMARY KEY (thread, ns, channel, version)
);

CREATE TABLE checkpoint_writes (
  thread     BLOB NOT NULL,
  ns         TEXT NOT NULL,
  checkpoint TEXT NOT NULL,
  task       TEXT NOT NULL,
  idx        INTEGER NOT NULL,
  path       TEXT NOT NULL,
  channel    TEXT NOT NULL,
  type       TEXT NOT NULL,
  data       BLOB NOT NULL,
  run        BLOB, -- the run that wrote it: an answer to an interrupt is attached to a checkpoint of another run
  PRIMARY KEY (thread, ns, checkpoint, task, idx)
) WITHOUT ROWID;
