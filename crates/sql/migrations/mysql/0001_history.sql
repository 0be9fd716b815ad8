-- The jobs that have ended. `day` is the day on which the life began, in UTC; each day has a partition, and `rest` takes what has none.
CREATE TABLE IF NOT EXISTS sf_jobs (
  day DATE NOT NULL,
  queue VARCHAR(64) NOT NULL,
  life VARCHAR(128) NOT NULL,
  id VARCHAR(128) NOT NULL,
  type VARCHAR(128) NOT NULL,
  lane VARCHAR(8) NOT NULL,
  state VARCHAR(16) NOT NULL,
  created_ms BIGINT NOT NULL,
  ended_ms BIGINT NOT NULL,
  attempts BIGINT NOT NULL,
  worker VARCHAR(128) NULL,
  worker_version VARCHAR(64) NULL,
  reason VARCHAR(32) NULL,
  fingerprint VARCHAR(32) NULL,
  error TEXT NULL,
  result MEDIUMTEXT NULL,
  root VARCHAR(128) NULL,
  payload_state VARCHAR(16) NOT NULL,
  PRIMARY KEY (day, queue, life),
  KEY sf_jobs_state (queue, state, ended_ms, life, type),
  KEY sf_jobs_type (queue, type, ended_ms, life),
  KEY sf_jobs_version (queue, worker_version, ended_ms, life, state, type),
  KEY sf_jobs_id (queue, id),
  KEY sf_jobs_fingerprint (queue, fingerprint, ended_ms, life)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
PARTITION BY RANGE (TO_DAYS(day)) (PARTITION rest VALUES LESS THAN MAXVALUE);

-- Their attempts.
CREATE TABLE IF NOT EXISTS sf_attempts (
  day DATE NOT NULL,
  queue VARCHAR(64) NOT NULL,
  life VARCHAR(128) NOT NULL,
  attempt BIGINT NOT NULL,
  started_ms BIGINT NULL,
  ended_ms BIGINT NOT NULL,
  outcome VARCHAR(32) NOT NULL,
  worker VARCHAR(128) NULL,
  error TEXT NULL,
  PRIMARY KEY (day, queue, life, attempt, ended_ms)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
PARTITION BY RANGE (TO_DAYS(day)) (PARTITION rest VALUES LESS THAN MAXVALUE);

-- Their fields, as a replay needs them: a MessagePack array of names and values.
CREATE TABLE IF NOT EXISTS sf_bodies (
  day DATE NOT NULL,
  queue VARCHAR(64) NOT NULL,
  life VARCHAR(128) NOT NULL,
  fields MEDIUMBLOB NOT NULL,
  PRIMARY KEY (day, queue, life)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
PARTITION BY RANGE (TO_DAYS(day)) (PARTITION rest VALUES LESS THAN MAXVALUE);

-- Chosen fields of their payloads. `day` is not first, so that a value is found without knowing the day.
CREATE TABLE IF NOT EXISTS sf_keys (
  day DATE NOT NULL,
  queue VARCHAR(64) NOT NULL,
  name VARCHAR(64) NOT NULL,
  value VARCHAR(190) NOT NULL,
  life VARCHAR(128) NOT NULL,
  PRIMARY KEY (queue, name, value, day, life)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
PARTITION BY RANGE (TO_DAYS(day)) (PARTITION rest VALUES LESS THAN MAXVALUE);
