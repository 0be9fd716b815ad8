-- Jobs that applications have written in their own transactions, and that are not in Redis yet. `waiting` is for the index.
CREATE TABLE IF NOT EXISTS streamfleet_outbox (
  seq BIGINT NOT NULL AUTO_INCREMENT,
  job_id VARCHAR(128) NOT NULL,
  queue VARCHAR(64) NOT NULL,
  lane VARCHAR(8) NULL,
  type VARCHAR(128) NOT NULL,
  payload LONGBLOB NOT NULL,
  encoding VARCHAR(8) NULL,
  headers MEDIUMTEXT NULL,
  run_at_ms BIGINT NULL,
  options MEDIUMTEXT NULL,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  refused TEXT NULL,
  waiting TINYINT GENERATED ALWAYS AS (CASE WHEN refused IS NULL THEN 1 END) VIRTUAL,
  PRIMARY KEY (seq),
  KEY streamfleet_outbox_waiting (waiting, seq, queue)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
