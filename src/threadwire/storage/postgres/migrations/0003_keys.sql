-- API keys, and one-time tickets for clients that cannot send headers. Tickets live for seconds and need not survive a
-- crash of the server.

CREATE TABLE keys (
  key         text COLLATE "C" NOT NULL PRIMARY KEY,
  digest      bytea  NOT NULL,
  owner       text   NOT NULL,                  -- the user that the key authenticates
  name        text   NOT NULL,
  permissions text   NOT NULL,
  created_at  bigint NOT NULL,
  expires_at  bigint,
  revoked_at  bigint
);

CREATE UNLOGGED TABLE tickets (
  digest     bytea  NOT NULL PRIMARY KEY,
  access     text   NOT NULL,
  expires_at bigint NOT NULL
);
CREATE INDEX tickets_expiring ON tickets (expires_at);
