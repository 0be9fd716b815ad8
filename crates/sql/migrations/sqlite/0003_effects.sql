-- What handlers have done, written in the transactions in which they did it.
CREATE TABLE streamfleet_effects (
  queue TEXT NOT NULL,
  job_id TEXT NOT NULL,
  step TEXT NOT NULL DEFAULT '',
  fence_ms INTEGER NOT NULL,
  fence_seq INTEGER NOT NULL,
  result BLOB NULL,
  created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (queue, job_id, step)
);
CREATE INDEX streamfleet_effects_created ON streamfleet_effects (created_at);
