-- The `graph_id` and `assistant_id` in the thread's metadata before the run was accepted, if the run changed them. They are
-- restored when the run is rolled back.

ALTER TABLE runs ADD COLUMN thread_was TEXT;
