-- Ids are the 16 bytes of a UUID, or a zero byte and text if they are not a UUID. Times are milliseconds since the epoch,
-- except for leases, which are timestamps of the database's clock. JSON columns are text.

-- One row. Its id identifies this database wherever several databases share something, such as a Redis server.
CREATE TABLE deployment (
  id uuid NOT NULL DEFAULT gen_random_uuid()
);
INSERT INTO deployment DEFAULT VALUES;

-- One narrow row for every log. It numbers the entries, names the attempt that may write, and is locked first by every
-- transaction that changes the thread. Free space in each page lets an update stay there, without touching the index.
CREATE TABLE thread_heads (
  thread   bytea   NOT NULL PRIMARY KEY,
  last_seq bigint  NOT NULL DEFAULT 0,
  live     boolean NOT NULL,                    -- false: the thread was discarded, only its log is left
  run      bytea,                               -- the attempt that holds the thread
  attempt  integer,
  since    date    NOT NULL DEFAULT CURRENT_DATE,  -- the days of its first and last segments, so that a read visits only
  until    date    NOT NULL DEFAULT CURRENT_DATE   -- the partitions between them
) WITH (fillfactor = 50);

-- The thread log. Partitioned by the time of writing, one partition per week, so that a partition can be dropped once
-- all its threads have expired.
CREATE TABLE segments (
  thread    bytea    NOT NULL,
  first_seq bigint   NOT NULL,
  n         integer  NOT NULL,
  run       bytea,                              -- null: a change outside a run
  attempt   integer  NOT NULL,
  at        bigint   NOT NULL,
  packed    smallint NOT NULL,
  data      bytea    NOT NULL,
  day       date     NOT NULL DEFAULT CURRENT_DATE,
  PRIMARY KEY (thread, first_seq, day)
) PARTITION BY RANGE (day);
ALTER TABLE segments ALTER COLUMN data SET STORAGE EXTERNAL;  -- large segments are compressed already
CREATE TABLE segments_default PARTITION OF segments DEFAULT;

CREATE TABLE runs (
  position        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- the order of acceptance
  run             bytea   NOT NULL UNIQUE,
  thread          bytea   NOT NULL,
  assistant       bytea   NOT NULL,
  graph_id        text    NOT NULL,
  status          text    NOT NULL,
  created_at      bigint  NOT NULL,
  updated_at      bigint  NOT NULL,
  due_at          bigint  NOT NULL,
  queued_seq      bigint  NOT NULL,
  multitask       text    NOT NULL,
  attempt         integer NOT NULL DEFAULT 0,
  crashes         integer NOT NULL DEFAULT 0,
  cancel          text,
  metadata        text    NOT NULL,
  kwargs          text    NOT NULL,
  error           text,
  ended_seq       bigint,
  idempotency_key text,
  idempotency_digest bytea,                     -- of the owner and the key, which may be too long for an index
  request_digest  text,
  temporary       boolean NOT NULL DEFAULT false,
  webhook         text,
  started_at      bigint,
  owner           text,
  via             text,
  first           boolean NOT NULL DEFAULT false,  -- pending, next of its thread, and no run of the thread is running
  thread_was      text,  -- `graph_id` and `assistant_id` of the thread before the run, if the run changed them
  worker          text,                         -- who executes it, and until when its lease is valid
  leased_until    timestamptz
) WITH (fillfactor = 80);
CREATE INDEX runs_of_thread ON runs (thread, position);
CREATE UNIQUE INDEX runs_running ON runs (thread) WHERE status = 'running';
CREATE INDEX runs_leased ON runs (worker) WHERE status = 'running';
CREATE INDEX runs_pending ON runs (thread, position) WHERE status = 'pending';
CREATE INDEX runs_claimable ON runs (due_at, position) WHERE status = 'pending' AND first AND due_at <= created_at;
CREATE INDEX runs_claimable_later ON runs (due_at, position) WHERE status = 'pending' AND first AND due_at > created_at;
CREATE UNIQUE INDEX runs_idempotent ON runs (idempotency_digest) WHERE idempotency_digest IS NOT NULL;

CREATE TABLE thread_holds (
  thread bytea       NOT NULL,
  worker text        NOT NULL,
  until  timestamptz NOT NULL,
  PRIMARY KEY (thread, worker)
);

CREATE TABLE checkpoints (
  thread     bytea NOT NULL,
  ns         text COLLATE "C" NOT NULL,
  checkpoint text COLLATE "C" NOT NULL,
  parent     text COLLATE "C",
  run        bytea,                             -- the run that created it, from its metadata
  type       text  NOT NULL,
  data       bytea NOT NULL,
  metadata   text  NOT NULL,
  PRIMARY KEY (thread, ns, checkpoint)
);
CREATE INDEX checkpoints_of_run ON checkpoints (run) WHERE run IS NOT NULL;

-- One row for every version of a channel, so that a step writes only the channels that it changed.
CREATE TABLE checkpoint_blobs (
  thread  bytea NOT NULL,
  ns      text COLLATE "C" NOT NULL,
  channel text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL,
  type    text  NOT NULL,
  data    bytea NOT NULL,
  PRIMARY KEY (thread, ns, channel, version)
);

CREATE TABLE checkpoint_writes (
  thread     bytea   NOT NULL,
  ns         text COLLATE "C" NOT NULL,
  checkpoint text COLLATE "C" NOT NULL,
  task       text COLLATE "C" NOT NULL,
  idx        integer NOT NULL,
  path       text COLLATE "C" NOT NULL,
  channel    text COLLATE "C" NOT NULL,
  type       text    NOT NULL,
  data       bytea   NOT NULL,
  run        bytea,  -- the run that wrote it: an answer to an interrupt is attached to a checkpoint of another run
  PRIMARY KEY (thread, ns, checkpoint, task, idx)
);

-- Snapshots of folds, such as timelines, beside the log that they were computed from. Any of them may be deleted.
CREATE TABLE fold_snapshots (
  thread  bytea    NOT NULL,
  name    text     NOT NULL,
  seq     bigint   NOT NULL,
  packed  smallint NOT NULL,                    -- 1: zstd
  data    bytea    NOT NULL,
  PRIMARY KEY (thread, name)
);
