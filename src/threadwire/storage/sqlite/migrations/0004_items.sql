-- The store. An item gets a new position whenever it is put, so the last one put has the highest.
CREATE TABLE items (
  position   INTEGER PRIMARY KEY,
  namespace  TEXT NOT NULL,             -- a JSON array of its labels, in ASCII
  key        TEXT NOT NULL,
  value      TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  ttl        INTEGER,
  expires_at INTEGER,
  owner      TEXT
);
CREATE UNIQUE INDEX items_name ON items (namespace, key);
CREATE INDEX items_expiring ON items (expires_at) WHERE expires_at IS NOT NULL;

-- Embeddings for semantic search: vectors of 32-bit floats with length one.
CREATE TABLE item_vectors (
  item   INTEGER NOT NULL,
  n      INTEGER NOT NULL,
  vector BLOB NOT NULL,
  PRIMARY KEY (item, n)
);
