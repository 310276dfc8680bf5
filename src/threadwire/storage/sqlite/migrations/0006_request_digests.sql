-- What was asked for with an idempotency key, so that the key cannot stand for something else.

ALTER TABLE runs ADD COLUMN request_digest TEXT;     -- null also for runs that are older than this column
