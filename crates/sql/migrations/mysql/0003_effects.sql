-- What handlers have done, written in the transactions in which they did it.
CREATE TABLE IF NOT EXISTS streamfleet_effects (
  queue VARCHAR(64) NOT NULL,
  job_id VARCHAR(128) NOT NULL,
  step VARCHAR(64) NOT NULL DEFAULT '',
  fence_ms BIGINT NOT NULL,
  fence_seq BIGINT NOT NULL,
  result MEDIUMBLOB NULL,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (queue, job_id, step),
  KEY streamfleet_effects_created (created_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
