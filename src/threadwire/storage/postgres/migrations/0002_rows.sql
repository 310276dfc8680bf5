-- JSON columns are text. `search` is a `jsonb` copy of the metadata, with what `jsonb` cannot represent escaped. Columns
-- that may hold any text of a client have no index of their own, because an index entry has a maximum size.

CREATE TABLE threads (
  thread           bytea   NOT NULL PRIMARY KEY,
  created_at       bigint  NOT NULL,
  updated_at       bigint  NOT NULL,
  active           integer NOT NULL DEFAULT 0,  -- number of pending and running runs
  status           text COLLATE "C" NOT NULL,   -- without regard to active runs
  state_updated_at bigint,
  metadata         text    NOT NULL,
  search           jsonb   NOT NULL,
  config           text    NOT NULL,
  error            text,
  ttl_minutes      double precision,
  ttl_strategy     text,
  pruned_at        bigint,                      -- when all but its newest checkpoints were last removed
  owner            text
) WITH (fillfactor = 80);
CREATE INDEX threads_created ON threads (created_at, thread);
CREATE INDEX threads_updated ON threads (updated_at, thread);
CREATE INDEX threads_state_updated ON threads (state_updated_at NULLS FIRST, thread);
CREATE INDEX threads_status ON threads ((CASE WHEN active > 0 THEN 'busy' ELSE status END), updated_at, thread);
CREATE INDEX threads_search ON threads USING gin (search jsonb_path_ops);
CREATE INDEX threads_expiring ON threads ((updated_at + ttl_minutes * 60000))
 WHERE ttl_minutes IS NOT NULL AND (pruned_at IS NULL OR pruned_at < updated_at);

-- The state of a thread, apart from its row because it may be large.
CREATE TABLE thread_state (
  thread     bytea NOT NULL PRIMARY KEY,
  vals       text,
  interrupts text  NOT NULL
);

-- Threads of temporary runs that have ended. Their logs and runs stay readable until they are swept. The metadata decides
-- who may read the runs.
CREATE TABLE discarded_threads (
  thread   bytea  NOT NULL PRIMARY KEY,
  at       bigint NOT NULL,
  metadata text   NOT NULL,
  search   jsonb  NOT NULL
);
CREATE INDEX discarded_threads_at ON discarded_threads (at);

-- The threads that were deleted last, so that a client can learn that a thread it knows was deleted.
CREATE TABLE deleted_threads (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- in the order of deletion
  thread bytea  NOT NULL UNIQUE
);

CREATE TABLE assistants (
  assistant   bytea   NOT NULL PRIMARY KEY,
  graph_id    text COLLATE "C" NOT NULL,
  name        text COLLATE "C" NOT NULL,
  lower_name  text COLLATE "C" NOT NULL,        -- to search for a part of it without regard to case
  created_at  bigint  NOT NULL,
  updated_at  bigint  NOT NULL,
  version     integer NOT NULL,
  description text,
  config      text    NOT NULL,
  context     text    NOT NULL,
  metadata    text    NOT NULL,
  search      jsonb   NOT NULL,
  owner       text
);
CREATE INDEX assistants_created ON assistants (created_at, assistant);
CREATE INDEX assistants_search ON assistants USING gin (search jsonb_path_ops);

-- All versions of an assistant. Its row in `assistants` is the current one.
CREATE TABLE assistant_versions (
  assistant   bytea   NOT NULL,
  version     integer NOT NULL,
  graph_id    text    NOT NULL,
  name        text    NOT NULL,
  created_at  bigint  NOT NULL,
  description text,
  config      text    NOT NULL,
  context     text    NOT NULL,
  metadata    text    NOT NULL,
  search      jsonb   NOT NULL,
  PRIMARY KEY (assistant, version)
);

-- Recurring runs.
CREATE TABLE crons (
  cron         bytea   NOT NULL PRIMARY KEY,
  assistant    bytea   NOT NULL,
  thread       bytea,                           -- null: each run gets its own thread
  keep_threads boolean NOT NULL,                -- whether those threads are retained after the run
  schedule     text    NOT NULL,
  timezone     text,
  end_time     bigint,
  next_run_at  bigint,                          -- the next slot
  last_run_at  bigint,                          -- the last slot that was taken
  enabled      boolean NOT NULL,
  multitask    text    NOT NULL,
  metadata     text    NOT NULL,
  search       jsonb   NOT NULL,
  payload      text    NOT NULL,
  kwargs       text    NOT NULL,
  created_at   bigint  NOT NULL,
  updated_at   bigint  NOT NULL,
  owner        text
);
CREATE INDEX crons_due ON crons (next_run_at, cron) WHERE enabled AND next_run_at IS NOT NULL;
CREATE INDEX crons_of_thread ON crons (thread) WHERE thread IS NOT NULL;
CREATE INDEX crons_of_assistant ON crons (assistant);
CREATE INDEX crons_search ON crons USING gin (search jsonb_path_ops);

-- The outbox of webhooks.
CREATE TABLE deliveries (
  delivery     bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run          text    NOT NULL,                -- the run when it ended
  vals         text,                            -- the values of its thread at that time
  due_at       bigint  NOT NULL,
  tries        integer NOT NULL DEFAULT 0,
  worker       text,                            -- who delivers it, and until when its lease is valid
  leased_until timestamptz
);
CREATE INDEX deliveries_due ON deliveries (due_at, delivery);

-- The store. An item gets a new position whenever it is put, so the last one put has the highest.
CREATE TABLE items (
  position   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       bytea  NOT NULL UNIQUE,            -- a digest of namespace and key, which may be too long for an index
  namespace  text COLLATE "C" NOT NULL,         -- a JSON array of its labels, in ASCII
  key        text COLLATE "C" NOT NULL,
  value      text   NOT NULL,
  search     jsonb  NOT NULL,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL,
  ttl        bigint,
  expires_at bigint,
  owner      text
);
CREATE INDEX items_namespace ON items ((left(namespace, 500)), position);
CREATE INDEX items_expiring ON items (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX items_search ON items USING gin (search jsonb_path_ops);

-- Embeddings for semantic search: vectors with length one.
CREATE TABLE item_vectors (
  name   bytea   NOT NULL REFERENCES items (name) ON DELETE CASCADE,
  n      integer NOT NULL,
  vector real[]  NOT NULL,
  PRIMARY KEY (name, n)
);

-- pgvector compares vectors many times as fast as plain SQL. An operator may also install it later.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
    CREATE EXTENSION IF NOT EXISTS vector;
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE NOTICE 'The extension vector could not be created: %', SQLERRM;
END $$;
