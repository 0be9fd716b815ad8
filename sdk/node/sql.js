/**
 * The work of a job in a database, done exactly once, and jobs that are submitted within a transaction of the application, by rows of the
 * tables `streamfleet_effects` and `streamfleet_outbox`. Neither opens a connection.
 */
'use strict';

const { randomBytes } = require('node:crypto');
const { inspect } = require('node:util');

// ----------------------------------------------------------------------------------------------------------- Databases

/** MySQL: the characteristics of a transaction cannot be changed while it is in progress. */
const IN_PROGRESS = 1568;
/** PostgreSQL: a transaction is in progress already, and: this needs one. */
const ALREADY_OPEN = '25001';
const NOT_OPEN = '25P01';

/**
 * Returns what this package needs of a connection. Statements have a `?` for each value. The functions of SQLite return values, and no
 * promises.
 */
function adapted(db) {
  if (typeof db?.getConnection === 'function' || (typeof db?.connect === 'function' && typeof db.totalCount === 'number')) {
    throw new TypeError('the database is a pool, whose statements are in different transactions: take a connection from it, and release it afterwards');
  }
  if (typeof db?.prepare === 'function' && typeof db.exec === 'function') return sqlite(db);
  if (typeof db?.query === 'function' && typeof db.beginTransaction === 'function') {
    return mysql(typeof db.promise === 'function' ? db.promise() : db);
  }
  if (typeof db?.query === 'function' && typeof db.escapeIdentifier === 'function') return postgres(db);
  throw new TypeError(`the database must be a DatabaseSync of node:sqlite, a Database of better-sqlite3, or a connection of mysql2 or pg, not ${inspect(db, { depth: 0 })}`);
}

function sqlite(db) {
  const isOpen = () => {
    const known = db.isTransaction ?? db.inTransaction;
    if (known !== undefined) return known;
    // Node before 22.16 cannot say.
    try {
      db.exec('BEGIN');
    } catch {
      return true;
    }
    db.exec('ROLLBACK');
    return false;
  };
  return {
    isOpen,
    run: (sql, values) => Number(db.prepare(sql).run(...values).changes),
    row: (sql, values) => {
      const row = db.prepare(sql).get(...values);
      return row === undefined ? undefined : Object.values(row);
    },
    begin: () => {
      if (isOpen()) return false;
      db.exec('BEGIN IMMEDIATE');
      return true;
    },
    commit: () => db.exec('COMMIT'),
    rollback: () => isOpen() && db.exec('ROLLBACK'),
  };
}

function mysql(db) {
  const query = async (sql, values) => (await db.query({ sql, values, rowsAsArray: true, nestTables: false }))[0];
  const isOpen = async () => {
    try {
      // It changes nothing, and MySQL has no other way to ask.
      await query('SET TRANSACTION READ WRITE');
      return false;
    } catch (error) {
      if (error?.errno === IN_PROGRESS) return true;
      throw error;
    }
  };
  return {
    isMysql: true,
    isOpen,
    run: async (sql, values) => (await query(sql, values)).affectedRows,
    row: async (sql, values) => (await query(sql, values))[0],
    begin: async () => {
      if (await isOpen()) return false;
      await query('START TRANSACTION');
      return true;
    },
    commit: () => query('COMMIT'),
    rollback: () => query('ROLLBACK'),
  };
}

function postgres(db) {
  const query = (sql, values) => {
    let place = 0;
    return db.query({ text: sql.replace(/\?/g, () => `$${(place += 1)}`), values, rowMode: 'array' });
  };
  return {
    isOpen: async () => {
      try {
        await db.query('SAVEPOINT streamfleet');
      } catch (error) {
        if (error?.code === NOT_OPEN) return false;
        throw error;
      }
      await db.query('RELEASE SAVEPOINT streamfleet');
      return true;
    },
    run: async (sql, values) => (await query(sql, values)).rowCount,
    row: async (sql, values) => (await query(sql, values)).rows[0],
    begin: () => begun(db),
    commit: () => db.query('COMMIT'),
    rollback: () => db.query('ROLLBACK'),
  };
}

/** Begins a transaction of PostgreSQL. If one was open, which only a notice says, that goes on, and it returns false. */
async function begun(db) {
  let isNew = true;
  const listener = (notice) => {
    if (notice?.code === ALREADY_OPEN) isNew = false;
  };
  db.on('notice', listener);
  try {
    await db.query('BEGIN');
  } finally {
    db.removeListener('notice', listener);
  }
  return isNew;
}

// -------------------------------------------------------------------------------------------------------------- Effects

/** The longest result, as JSON. */
const MOST_RESULT_BYTES = 64 * 1024;
const MOST_STEP = 64;
const PENDING = 'pending ';
/** Connections on which a transaction of `once` runs, or begins. MySQL would let a second one end the first without a word. */
const BUSY = new WeakSet();

const KEY = 'queue = ? AND job_id = ? AND step = ?';
const INSERT = 'INSERT INTO streamfleet_effects (queue, job_id, step, fence_ms, fence_seq, result) VALUES (?, ?, ?, ?, ?, ?)';
const SELECT =
  'SELECT result, CASE WHEN fence_ms > ? OR (fence_ms = ? AND fence_seq > ?) THEN 1 ELSE 0 END AS newer ' +
  `FROM streamfleet_effects WHERE ${KEY}`;
const UPDATE = `UPDATE streamfleet_effects SET result = ? WHERE ${KEY}`;

/** A later attempt of the job has done the work, so this one is outdated: nothing that it reports counts any more. */
class Superseded extends Error {
  constructor(message) {
    super(message);
    this.name = 'Superseded';
  }
}

function keyOf(job, step) {
  // Each step of a job is a job of its own here, as for Idempotency-Key.
  const name = [job.step, step].filter((part) => part !== undefined && part !== null && part !== '').join('/');
  if (typeof (step ?? '') !== 'string' || [...name].length > MOST_STEP || /[\p{Cc}\p{Cs}]/u.test(name)) {
    throw new RangeError(`a step must be a text of at most ${MOST_STEP} characters without control characters, together with the name of the job's own step, not ${inspect(step)}`);
  }
  if (!job.id || !job.queue) throw new TypeError('the job has no id or no queue, so nothing tells its work from that of others');
  return [job.queue, job.id, name];
}

function fenceOf(job) {
  const parts = /^([0-9]{1,16})-([0-9]{1,16})$/.exec(job.fence ?? '');
  const numbers = parts === null ? [] : [Number(parts[1]), Number(parts[2])];
  if (numbers.length === 0 || !numbers.every(Number.isSafeInteger)) {
    throw new TypeError(
      `the fence of the job is ${inspect(job.fence)} and not of the form '1700000000000-0', so nothing tells old attempts from new ones: ` +
        "its worker is too old, or a test has made it (new Job(type, payload, { fence: '17-0' }))",
    );
  }
  return numbers;
}

function check(isFree) {
  if (!isFree) {
    throw new Error('a transaction is open on this connection: once begins and commits its own, and each job that runs needs a connection of its own');
  }
}

/** Inserts the row, for which a second attempt waits until this one has ended. Returns the result of an earlier attempt. */
async function before(database, key, fence) {
  const pending = `${PENDING}${randomBytes(16).toString('hex')}`;
  const conflict = database.isMysql ? 'ON DUPLICATE KEY UPDATE queue = queue' : 'ON CONFLICT (queue, job_id, step) DO NOTHING';
  const count = await database.run(`${INSERT} ${conflict}`, [...key, ...fence, Buffer.from(pending)]);
  // mysql2 also counts a row that was there.
  if (count === 1 && !database.isMysql) return undefined;
  const row = await database.row(SELECT, [fence[0], ...fence, ...key]);
  if (row === undefined) throw new Error(`the row of the job ${key[1]} in streamfleet_effects has gone: something deletes rows while jobs run`);
  const result = textOf(row[0]);
  if (result === pending) return undefined;
  if (Number(String(row[1])) === 1) {
    throw new Superseded(`a later attempt of the job ${key[1]} has done this already, so this attempt is outdated and should end`);
  }
  if (result.startsWith(PENDING)) {
    throw new Error(
      `an attempt of the job ${key[1]} has committed a part of its work on its own, and the rest is missing: see what is done, then ` +
        'delete its row in streamfleet_effects, or set its result',
    );
  }
  return result;
}

/** Bytes of a row, which are a Buffer, a Uint8Array, or a text that was written by hand. */
function textOf(value) {
  if (value === null) return 'null';
  return typeof value === 'string' ? value : Buffer.from(value).toString();
}

/** Makes `once`, with what index.js has for JSON and outcomes. */
function makeOnce({ Outcome, resultJson, fromJson }) {
  function encoded(result) {
    if (result instanceof Outcome) {
      throw new TypeError(`the work has returned ${result.constructor.name}, which would be committed: throw it to roll back, or return it after once`);
    }
    let text;
    try {
      text = result === undefined ? 'null' : resultJson(result);
    } catch (error) {
      throw new TypeError(`JSON cannot express what the work returned: ${error.message}`, { cause: error });
    }
    const size = Buffer.byteLength(text);
    if (size > MOST_RESULT_BYTES) {
      throw new RangeError(`what the work returned has ${size} bytes as JSON; at most ${MOST_RESULT_BYTES} are kept, so return less`);
    }
    return text;
  }

  async function done(database, db, work, key) {
    const result = encoded(await work(db));
    // Otherwise the result would be committed without the work, or the work without the result.
    if (!(await database.isOpen()) || (await database.run(UPDATE, [Buffer.from(result), ...key])) !== 1) {
      throw new Error('the work has ended its transaction, so it may happen again: in once, do not commit, roll back, or change tables');
    }
    return result;
  }

  async function committed(database, db, work, key, fence) {
    try {
      const result = (await before(database, key, fence)) ?? (await done(database, db, work, key));
      await database.commit();
      return result;
    } catch (error) {
      try {
        await database.rollback();
      } catch {
        // The connection is gone, and the transaction with it. The caller gets the first error.
      }
      throw error;
    }
  }

  return async function once(db, job, work, options = {}) {
    const other = Object.keys(options ?? {}).find((name) => name !== 'step');
    if (other !== undefined) throw new TypeError(`there is no option '${other}': once has only step`);
    if (typeof work !== 'function') throw new TypeError(`the work must be a function, not ${inspect(work)}`);
    const database = adapted(db);
    const [key, fence] = [keyOf(job, options?.step), fenceOf(job)];
    check(!BUSY.has(db));
    BUSY.add(db);
    try {
      check(await database.begin());
      return fromJson(await committed(database, db, work, key, fence));
    } finally {
      BUSY.delete(db);
    }
  };
}

// --------------------------------------------------------------------------------------------------------------- Outbox

/** The most rows, and about the most bytes, of one statement. */
const ROWS = 500;
const BYTES = 1024 * 1024;
const COLUMNS = ['job_id', 'queue', 'lane', 'type', 'payload', 'encoding', 'headers', 'run_at_ms', 'options'];
/** Fields of the entry that have columns of their own. */
const OWN = new Set(['type', 'payload', 'encoding', 'id', 'delay_ms', 'run_at_ms']);

/** The values of the columns. */
function rowOf(job) {
  const fields = new Map();
  for (let at = 0; at < job.fields.length; at += 2) fields.set(job.fields[at], job.fields[at + 1]);
  const names = [...fields.keys()];
  const part = (isIn, skip) => {
    const found = names.filter(isIn).map((name) => [name.slice(skip), fields.get(name)]);
    return found.length === 0 ? null : JSON.stringify(Object.fromEntries(found));
  };
  const isHeader = (name) => name.startsWith('h.');
  // The row may wait, so a delay cannot count from its submission.
  const runAt = fields.has('delay_ms') ? Date.now() + Number(fields.get('delay_ms')) : fields.get('run_at_ms');
  return [
    job.id ?? randomBytes(16).toString('hex'),
    job.queue ?? 'default',
    job.lane === 'normal' ? null : job.lane,
    fields.get('type'),
    fields.get('payload') ?? Buffer.alloc(0),
    fields.get('encoding') ?? null,
    part(isHeader, 2),
    runAt === undefined ? null : Number(runAt),
    part((name) => !isHeader(name) && !OWN.has(name), 0),
  ];
}

/** Cuts jobs into statements. */
function* chunks(jobs) {
  let [rows, size] = [[], 0];
  for (const job of jobs) {
    rows.push(rowOf(job));
    size += job.size;
    if (rows.length >= ROWS || size >= BYTES) {
      yield rows;
      [rows, size] = [[], 0];
    }
  }
  if (rows.length > 0) yield rows;
}

/** Makes `outbox`, with what index.js has for submissions. */
function makeOutbox({ InvalidSubmission, submission, submissionOf, traced }) {
  async function insert(db, jobs, { autocommit = false } = {}) {
    const database = adapted(db);
    if (jobs.some(({ unique }) => unique.unique != null)) {
      throw new InvalidSubmission('a unique key is a lock, and the outbox cannot take it: submit this job with Cli');
    }
    // SQLite answers at once. Until its rows are there, nothing else may run, which could end the transaction.
    const open = autocommit || database.isOpen();
    if (!(open instanceof Promise ? await open : open)) {
      throw new Error('no transaction is open on this connection, so the job would be submitted whatever happens next: begin one before, or pass autocommit: true if that is meant');
    }
    const places = `(${COLUMNS.map(() => '?').join(', ')})`;
    const ids = [];
    for (const rows of chunks(jobs)) {
      const sql = `INSERT INTO streamfleet_outbox (${COLUMNS.join(', ')}) VALUES ${rows.map(() => places).join(', ')}`;
      const inserted = database.run(sql, rows.flat());
      if (inserted instanceof Promise) await inserted;
      ids.push(...rows.map(([id]) => id));
    }
    return ids;
  }

  return {
    async add(db, type, payload, options = {}) {
      const { autocommit, ...others } = options ?? {};
      const [id] = await insert(db, [submission(type, payload, traced(others))], { autocommit });
      return id;
    },
    async addAll(db, jobs, options = {}) {
      const other = Object.keys(options ?? {}).find((name) => name !== 'autocommit');
      if (other !== undefined) throw new TypeError(`there is no option '${other}': give options to each job`);
      return insert(db, Array.from(jobs, (job, index) => submissionOf(traced(job), `jobs[${index}]`)), options ?? {});
    },
  };
}

module.exports = (internal) => ({ Superseded, once: makeOnce(internal), outbox: makeOutbox(internal) });
