-- All versions of an assistant. Its row in `assistants` is the current one.
CREATE TABLE assistant_versions (
  assistant   BLOB NOT NULL,
  version     INTEGER NOT NULL,
  graph_id    TEXT NOT NULL,
  name        TEXT NOT NULL,
  created_at  INTEGER NOT NULL,
  description TEXT,
  config      TEXT NOT NULL,
  context     TEXT NOT NULL,
  metadata    TEXT NOT NULL,
  PRIMARY KEY (assistant, version)
) WITHOUT ROWID;

INSERT INTO assistant_versions
SELECT assistant, version, graph_id, name, created_at, description, config, context, metadata FROM assistants;
