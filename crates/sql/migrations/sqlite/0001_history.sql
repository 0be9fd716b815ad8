-- The jobs that have ended. `day` is the day on which the life began, in UTC, as YYYY-MM-DD.
CREATE TABLE sf_jobs (
  day TEXT NOT NULL,
  queue TEXT NOT NULL,
  life TEXT NOT NULL,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  lane TEXT NOT NULL,
  state TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  worker TEXT NULL,
  worker_version TEXT NULL,
  reason TEXT NULL,
  fingerprint TEXT NULL,
  error TEXT NULL,
  result TEXT NULL,
  root TEXT NULL,
  payload_state TEXT NOT NULL,
  PRIMARY KEY (day, queue, life)
);
CREATE INDEX sf_jobs_state ON sf_jobs (queue, state, ended_ms, life, type);
CREATE INDEX sf_jobs_type ON sf_jobs (queue, type, ended_ms, life);
CREATE INDEX sf_jobs_version ON sf_jobs (queue, worker_version, ended_ms, life, state, type) WHERE worker_version IS NOT NULL;
CREATE INDEX sf_jobs_id ON sf_jobs (queue, id);
CREATE INDEX sf_jobs_fingerprint ON sf_jobs (queue, fingerprint, ended_ms, life) WHERE fingerprint IS NOT NULL;

-- Their attempts.
CREATE TABLE sf_attempts (
  day TEXT NOT NULL,
  queue TEXT NOT NULL,
  life TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  started_ms INTEGER NULL,
  ended_ms INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  worker TEXT NULL,
  error TEXT NULL,
  PRIMARY KEY (day, queue, life, attempt, ended_ms)
);

-- Their fields, as a replay needs them: a MessagePack array of names and values.
CREATE TABLE sf_bodies (
  day TEXT NOT NULL,
  queue TEXT NOT NULL,
  life TEXT NOT NULL,
  fields BLOB NOT NULL,
  PRIMARY KEY (day, queue, life)
);

-- Chosen fields of their payloads. `day` is not first, so that a value is found without knowing the day.
CREATE TABLE sf_keys (
  day TEXT NOT NULL,
  queue TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  life TEXT NOT NULL,
  PRIMARY KEY (queue, name, value, day, life)
);
CREATE INDEX sf_keys_day ON sf_keys (day);
