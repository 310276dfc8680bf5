-- The protocol that requested a run.

ALTER TABLE runs ADD COLUMN via TEXT;                -- also null for runs older than this column
