-- The store. Put anew, an item gets a new position: the one put last has the highest.
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

-- What an item is found by in a search by meaning: 32-bit floats, of length one.
CREATE TABLE item_vectors (
  item   INTEGER NOT NULL,
  n      INTEGER NOT NULL,
  vector BLOB NOT NULL,
  PRIMARY KEY (item, n)
);
