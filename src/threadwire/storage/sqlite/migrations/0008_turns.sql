-- Runs that are not delayed are due regardless of the clock and start in the order of acceptance; delayed runs start in the
-- order of their due times. So each kind has its own index.

DROP INDEX runs_pending;
DROP INDEX runs_claimable;

CREATE INDEX runs_pending ON runs (thread) WHERE status = 'pending';
CREATE INDEX runs_delayed ON runs (thread, due_at) WHERE status = 'pending' AND due_at > created_at;

CREATE INDEX runs_claimable ON runs (due_at) WHERE status = 'pending' AND first = 1 AND due_at <= created_at;
CREATE INDEX runs_claimable_later ON runs (due_at) WHERE status = 'pending' AND first = 1 AND due_at > created_at;

-- A run that has started before is no longer delayed, so it is the only one of its thread that may be next.
UPDATE runs SET due_at = min(due_at, created_at) WHERE status = 'pending' AND attempt > 0;
UPDATE runs SET first = 0 WHERE status = 'pending' AND first = 1;
UPDATE runs SET first = 1
 WHERE status = 'pending'
   AND NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.thread = runs.thread AND r.status = 'running')
   AND (position = (SELECT r.position FROM runs AS r
                     WHERE r.thread = runs.thread AND r.status = 'pending' AND r.due_at <= r.created_at
                     ORDER BY r.position LIMIT 1)
     OR position = (SELECT r.position FROM runs AS r
                     WHERE r.thread = runs.thread AND r.status = 'pending' AND r.due_at > r.created_at
                       AND NOT EXISTS (SELECT 1 FROM runs AS b
                                        WHERE b.thread = runs.thread AND b.status = 'pending' AND b.attempt > 0)
                     ORDER BY r.due_at, r.position LIMIT 1));
