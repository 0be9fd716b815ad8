-- Jobs that applications have written in their own transactions, and that are not in Redis yet. AUTOINCREMENT never gives a number twice.
CREATE TABLE streamfleet_outbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id TEXT NOT NULL,
  queue TEXT NOT NULL,
  lane TEXT NULL,
  type TEXT NOT NULL,
  payload BLOB NOT NULL,
  encoding TEXT NULL,
  headers TEXT NULL,
  run_at_ms INTEGER NULL,
  options TEXT NULL,
  created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
  refused TEXT NULL
);
CREATE INDEX streamfleet_outbox_waiting ON streamfleet_outbox (seq) WHERE refused IS NULL;
CREATE INDEX streamfleet_outbox_refused ON streamfleet_outbox (seq) WHERE refused IS NOT NULL;
