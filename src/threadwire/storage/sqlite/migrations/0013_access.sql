-- Access filters: elements of lists get labels too, and so do assistants and crons. A discarded thread keeps its
-- metadata, because they decide who may read its runs.

DELETE FROM thread_labels;
DELETE FROM label_counts;
INSERT INTO thread_labels
SELECT unhex(label.value), t.created_at, t.thread FROM threads AS t, json_each(labels_in(t.metadata, NULL)) AS label;
INSERT INTO label_counts
SELECT l.label, t.status, count(*) FROM thread_labels AS l JOIN threads AS t ON t.thread = l.thread GROUP BY 1, 2
UNION ALL
SELECT x'00', status, count(*) FROM threads GROUP BY 2;

ALTER TABLE discarded_threads ADD COLUMN metadata TEXT;   -- null for threads discarded before this column existed

CREATE TABLE assistant_labels (
  label     BLOB NOT NULL,
  assistant BLOB NOT NULL,
  PRIMARY KEY (label, assistant)
) WITHOUT ROWID;
INSERT INTO assistant_labels
SELECT unhex(label.value), a.assistant FROM assistants AS a, json_each(labels_in(a.metadata, NULL)) AS label;

CREATE TRIGGER assistant_created AFTER INSERT ON assistants BEGIN
  INSERT INTO assistant_labels SELECT unhex(value), NEW.assistant FROM json_each(labels_in(NEW.metadata, NULL));
END;
CREATE TRIGGER assistant_deleted AFTER DELETE ON assistants BEGIN
  DELETE FROM assistant_labels
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NULL))) AND assistant = OLD.assistant;
END;
CREATE TRIGGER assistant_changed AFTER UPDATE OF metadata ON assistants WHEN OLD.metadata <> NEW.metadata BEGIN
  DELETE FROM assistant_labels
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NEW.metadata)))
     AND assistant = OLD.assistant;
  INSERT INTO assistant_labels
  SELECT unhex(value), NEW.assistant FROM json_each(labels_in(NEW.metadata, OLD.metadata));
END;

CREATE TABLE cron_labels (
  label BLOB NOT NULL,
  cron  BLOB NOT NULL,
  PRIMARY KEY (label, cron)
) WITHOUT ROWID;
INSERT INTO cron_labels
SELECT unhex(label.value), c.cron FROM crons AS c, json_each(labels_in(c.metadata, NULL)) AS label;

CREATE TRIGGER cron_created AFTER INSERT ON crons BEGIN
  INSERT INTO cron_labels SELECT unhex(value), NEW.cron FROM json_each(labels_in(NEW.metadata, NULL));
END;
CREATE TRIGGER cron_deleted AFTER DELETE ON crons BEGIN
  DELETE FROM cron_labels
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NULL))) AND cron = OLD.cron;
END;
CREATE TRIGGER cron_changed AFTER UPDATE OF metadata ON crons WHEN OLD.metadata <> NEW.metadata BEGIN
  DELETE FROM cron_labels
   WHERE label IN (SELECT unhex(value) FROM json_each(labels_in(OLD.metadata, NEW.metadata))) AND cron = OLD.cron;
  INSERT INTO cron_labels
  SELECT unhex(value), NEW.cron FROM json_each(labels_in(NEW.metadata, OLD.metadata));
END;
