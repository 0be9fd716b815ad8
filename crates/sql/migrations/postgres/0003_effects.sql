-- What handlers have done, written in the transactions in which they did it.
CREATE TABLE streamfleet_effects (
  queue VARCHAR(64) COLLATE "C" NOT NULL,
  job_id VARCHAR(128) COLLATE "C" NOT NULL,
  step VARCHAR(64) COLLATE "C" NOT NULL DEFAULT '',
  fence_ms BIGINT NOT NULL,
  fence_seq BIGINT NOT NULL,
  result BYTEA NULL,
  created_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (queue, job_id, step)
);
CREATE INDEX streamfleet_effects_created ON streamfleet_effects (created_at);
