-- Thread search by metadata labels, thread counts, and the time to live of threads.

ALTER TABLE threads ADD COLUMN ttl_minutes REAL;
ALTER TABLE threads ADD COLUMN ttl_strategy TEXT;
ALTER TABLE threads ADD COLUMN pruned_at INTEGER;  -- when all but its newest checkpoints were last removed

CREATE INDEX threads_status ON threads (active, status, updated_at);
CREATE INDEX threads_state_updated ON threads (state_updated_at);
CREATE INDEX threads_expiring ON threads (updated_at + ttl_minutes * 60000)
 WHERE ttl_minutes IS NOT NULL AND (pruned_at IS NULL OR pruned_at < updated_at);

-- One row for every plain value in a thread's metadata; see metadata_labels.py.
CREATE TABLE thread_labels (
  label      BLOB NOT NULL,
  created_at INTEGER NOT NULL,                  -- of the thread, so that the threads of a label are in the default order
  thread     BLOB NOT NULL,
  PRIMARY KEY (label, created_at, thread)
) WITHOUT ROWID;

-- The number of threads with a label and a status. The label x'00' counts all threads.
CREATE TABLE label_counts (
  label  BLOB NOT NULL,
  status TEXT NOT NULL,
  n      INTEGER NOT NULL,
  PRIMARY KEY (label, status)
) WITHOUT ROWID;

INSERT INTO thread_labels
SELECT unhex(label.value), t.created_at, t.thread FROM threads AS t, json_each(labels_in(t.metadata, NULL)) AS label;
INSERT INTO label_counts
SELECT l.label, t.status, count(*) FROM thread_labels AS l JOIN threads AS t ON t.thread = l.thread GROUP BY 1, 2
UNION ALL
SELECT x'00', status, count(*) FROM threads GROUP BY 2;

-- Maintained by triggers, so that no code that changes a thread can forget it.
CREATE TRIGGER thread_made AFTER INSERT ON threads BEGIN
  INSERT INTO thread_labels
  SELECT unhex(value), NEW.created_at, NEW.thread FROM json_each(labels_in(NEW.metadata, NULL));
  INSERT INTO label_counts
  SELECT unhex(value), NEW.status, 1 FROM json_each(labels_in(NEW.metadata, NULL)) UNION ALL SELECT x'00', NEW.status, 1
  ON CONFLICT DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER thread_gone AFTER DELETE ON threads BEGIN
  DELETE FROM thread_labels
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NULL)))
     AND created_at = OLD.created_at AND thread = OLD.thread;
  UPDATE label_counts SET n = n - 1
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NULL)) UNION ALL SELECT x'00')
     AND status = OLD.status;
  DELETE FROM label_counts
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NULL))) AND status = OLD.status AND n = 0;
END;

-- The following triggers may fire for the same update, in any order: they handle removed, added and unchanged labels.
CREATE TRIGGER thread_lost_labels AFTER UPDATE OF metadata ON threads
WHEN OLD.metadata <> NEW.metadata AND labels_in(OLD.metadata, NEW.metadata) <> '[]' BEGIN
  DELETE FROM thread_labels
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NEW.metadata)))
     AND created_at = OLD.created_at AND thread = OLD.thread;
  UPDATE label_counts SET n = n - 1
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NEW.metadata))) AND status = OLD.status;
  DELETE FROM label_counts
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NEW.metadata)))
     AND status = OLD.status AND n = 0;
END;

CREATE TRIGGER thread_gained_labels AFTER UPDATE OF metadata ON threads WHEN OLD.metadata <> NEW.metadata BEGIN
  INSERT INTO thread_labels
  SELECT unhex(value), NEW.created_at, NEW.thread FROM json_each(labels_in(NEW.metadata, OLD.metadata));
  INSERT INTO label_counts
  SELECT unhex(value), NEW.status, 1 FROM json_each(labels_in(NEW.metadata, OLD.metadata)) WHERE true
  ON CONFLICT DO UPDATE SET n = n + 1;
END;

CREATE TRIGGER thread_resettled AFTER UPDATE OF status ON threads WHEN OLD.status <> NEW.status BEGIN
  UPDATE label_counts SET n = n - 1
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in_both(OLD.metadata, NEW.metadata))
                   UNION ALL SELECT x'00')
     AND status = OLD.status;
  DELETE FROM label_counts
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in_both(OLD.metadata, NEW.metadata)))
     AND status = OLD.status AND n = 0;
  INSERT INTO label_counts
  SELECT unhex(value), NEW.status, 1 FROM json_each(labels_in_both(OLD.metadata, NEW.metadata))
  UNION ALL SELECT x'00', NEW.status, 1
  ON CONFLICT DO UPDATE SET n = n + 1;
END;
