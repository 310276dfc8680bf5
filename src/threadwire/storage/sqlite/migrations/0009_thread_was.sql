-- What a run's thread said of its graph and its assistant before the run was accepted, if that was something else: so that
-- it can be given back with the rest when the run is rolled back.

ALTER TABLE runs ADD COLUMN thread_was TEXT;
