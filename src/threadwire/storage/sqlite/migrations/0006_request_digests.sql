-- A digest of the request with an idempotency key, so that the key cannot be reused for another request.

ALTER TABLE runs ADD COLUMN request_digest TEXT;     -- also null for runs older than this column
