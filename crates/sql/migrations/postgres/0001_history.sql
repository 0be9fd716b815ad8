-- The jobs that have ended. `day` is the day on which the life began, in UTC; each day has a partition, and `sf_jobs_rest` takes what has none.
-- Texts compare by their bytes, whatever the collation of the database is.
CREATE TABLE sf_jobs (
  day DATE NOT NULL,
  queue VARCHAR(64) COLLATE "C" NOT NULL,
  life VARCHAR(128) COLLATE "C" NOT NULL,
  id VARCHAR(128) COLLATE "C" NOT NULL,
  type VARCHAR(128) COLLATE "C" NOT NULL,
  lane VARCHAR(8) COLLATE "C" NOT NULL,
  state VARCHAR(16) COLLATE "C" NOT NULL,
  created_ms BIGINT NOT NULL,
  ended_ms BIGINT NOT NULL,
  attempts BIGINT NOT NULL,
  worker VARCHAR(128) NULL,
  worker_version VARCHAR(64) NULL,
  reason VARCHAR(32) NULL,
  fingerprint VARCHAR(32) COLLATE "C" NULL,
  error TEXT NULL,
  result TEXT NULL,
  root VARCHAR(128) NULL,
  payload_state VARCHAR(16) NOT NULL,
  PRIMARY KEY (day, queue, life)
) PARTITION BY RANGE (day);
CREATE INDEX sf_jobs_state ON sf_jobs (queue, state, ended_ms, life, type);
CREATE INDEX sf_jobs_type ON sf_jobs (queue, type, ended_ms, life);
CREATE INDEX sf_jobs_version ON sf_jobs (queue, worker_version, ended_ms, life, state, type) WHERE worker_version IS NOT NULL;
CREATE INDEX sf_jobs_id ON sf_jobs (queue, id);
CREATE INDEX sf_jobs_fingerprint ON sf_jobs (queue, fingerprint, ended_ms, life) WHERE fingerprint IS NOT NULL;
CREATE TABLE sf_jobs_rest PARTITION OF sf_jobs DEFAULT;

-- Their attempts.
CREATE TABLE sf_attempts (
  day DATE NOT NULL,
  queue VARCHAR(64) COLLATE "C" NOT NULL,
  life VARCHAR(128) COLLATE "C" NOT NULL,
  attempt BIGINT NOT NULL,
  started_ms BIGINT NULL,
  ended_ms BIGINT NOT NULL,
  outcome VARCHAR(32) NOT NULL,
  worker VARCHAR(128) NULL,
  error TEXT NULL,
  PRIMARY KEY (day, queue, life, attempt, ended_ms)
) PARTITION BY RANGE (day);
CREATE TABLE sf_attempts_rest PARTITION OF sf_attempts DEFAULT;

-- Their fields, as a replay needs them: a MessagePack array of names and values.
CREATE TABLE sf_bodies (
  day DATE NOT NULL,
  queue VARCHAR(64) COLLATE "C" NOT NULL,
  life VARCHAR(128) COLLATE "C" NOT NULL,
  fields BYTEA NOT NULL,
  PRIMARY KEY (day, queue, life)
) PARTITION BY RANGE (day);
CREATE TABLE sf_bodies_rest PARTITION OF sf_bodies DEFAULT;

-- Chosen fields of their payloads. `day` is not first, so that a value is found without knowing the day.
CREATE TABLE sf_keys (
  day DATE NOT NULL,
  queue VARCHAR(64) COLLATE "C" NOT NULL,
  name VARCHAR(64) COLLATE "C" NOT NULL,
  value VARCHAR(190) COLLATE "C" NOT NULL,
  life VARCHAR(128) COLLATE "C" NOT NULL,
  PRIMARY KEY (queue, name, value, day, life)
) PARTITION BY RANGE (day);
CREATE TABLE sf_keys_rest PARTITION OF sf_keys DEFAULT;
