'use strict';

// Private databases for tests: SQLite, and MariaDB and PostgreSQL if they are installed, with each client that is there.

const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const os = require('node:os');
const path = require('node:path');

const DEADLINE_MS = 90_000;

const TYPES = {
  sqlite: { seq: 'INTEGER PRIMARY KEY AUTOINCREMENT', bytes: 'BLOB', text: 'TEXT', end: '' },
  mysql: { seq: 'BIGINT AUTO_INCREMENT PRIMARY KEY', bytes: 'LONGBLOB', text: 'LONGTEXT', end: 'ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin' },
  postgres: { seq: 'BIGSERIAL PRIMARY KEY', bytes: 'BYTEA', text: 'TEXT', end: '' },
};

/** The statements that create the tables of the fleet, and two for transfers, all empty. */
function tables(dialect) {
  const { seq, bytes, text, end } = TYPES[dialect];
  return [
    ...['streamfleet_outbox', 'streamfleet_effects', 'accounts', 'transfers'].map((table) => `DROP TABLE IF EXISTS ${table}`),
    `CREATE TABLE streamfleet_outbox (seq ${seq}, job_id VARCHAR(128) NOT NULL, queue VARCHAR(64) NOT NULL, lane VARCHAR(8), type VARCHAR(128) NOT NULL,
      payload ${bytes} NOT NULL, encoding VARCHAR(8), headers ${text}, run_at_ms BIGINT, options ${text}, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
      refused ${text}) ${end}`,
    `CREATE TABLE streamfleet_effects (queue VARCHAR(64) NOT NULL, job_id VARCHAR(128) NOT NULL, step VARCHAR(64) NOT NULL DEFAULT '', fence_ms BIGINT NOT NULL,
      fence_seq BIGINT NOT NULL, result ${bytes}, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (queue, job_id, step)) ${end}`,
    `CREATE TABLE accounts (name VARCHAR(20) PRIMARY KEY, balance INTEGER NOT NULL) ${end}`,
    `CREATE TABLE transfers (number INTEGER NOT NULL) ${end}`,
    "INSERT INTO accounts VALUES ('ann', 0), ('bob', 0)",
  ];
}

/** Loads a client that check.sh has installed. */
function load(name) {
  if (name.startsWith('node:')) return require(name);
  return createRequire(path.join(process.env.STREAMFLEET_NODE_CLIENTS ?? '/nowhere', 'sql', 'package.json'))(name);
}

/** Connects to SQLite by node:sqlite or better-sqlite3. */
function openSqlite(Database, place) {
  const db = new Database(place);
  db.exec('PRAGMA busy_timeout = 60000');
  return { db, exec: async (sql) => db.exec(sql), rows: async (sql) => db.prepare(sql).all().map((row) => Object.values(row)), close: async () => db.close() };
}

/** Each client: its dialect, and how a place becomes a connection with the same functions. */
const CLIENTS = {
  'node:sqlite': { dialect: 'sqlite', open: async (place) => openSqlite(load('node:sqlite').DatabaseSync, place) },
  'better-sqlite3': { dialect: 'sqlite', open: async (place) => openSqlite(load('better-sqlite3'), place) },
  mysql2: {
    dialect: 'mysql',
    open: async (place, database = 'fleet') => {
      const db = await load('mysql2/promise').createConnection({ socketPath: place, user: 'root', database });
      return { db, exec: (sql) => db.query(sql), rows: async (sql) => (await db.query({ sql, rowsAsArray: true }))[0], close: () => db.end() };
    },
  },
  'mysql2 with callbacks': {
    dialect: 'mysql',
    open: async (place, database = 'fleet') => {
      const db = load('mysql2').createConnection({ socketPath: place, user: 'root', database });
      const promises = db.promise();
      await promises.connect();
      return { db, exec: (sql) => promises.query(sql), rows: async (sql) => (await promises.query({ sql, rowsAsArray: true }))[0], close: () => promises.end() };
    },
  },
  pg: {
    dialect: 'postgres',
    open: async (place) => {
      const db = new (load('pg').Client)({ host: place, user: 'postgres', database: 'postgres' });
      await db.connect();
      return { db, exec: (sql) => db.query(sql), rows: async (sql) => (await db.query({ text: sql, rowMode: 'array' })).rows, close: () => db.end() };
    },
  },
};

const PACKAGES = { mysql: ['mysql', 'mariadb-server'], postgres: ['postgres', 'postgresql'] };
const servers = new Map();

/** Starts a server in a folder of its own. As root, it runs as the user of its Debian package, because it refuses to run as root. */
async function start(dialect, open) {
  const [user, debian] = PACKAGES[dialect];
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sf-'));
  const data = path.join(folder, 'data');
  const bin = dialect === 'mysql' ? '/usr/sbin' : newest('/usr/lib/postgresql');
  const program = path.join(bin, dialect === 'mysql' ? 'mariadbd' : 'postgres');
  const stop = () => fs.rmSync(folder, { recursive: true, force: true });
  if (!fs.existsSync(program)) {
    stop();
    return { missing: `there is no ${program} (Debian: ${debian})` };
  }
  const [install, args] = {
    mysql: () => [
      ['mariadb-install-db', '--no-defaults', `--datadir=${data}`, '--auth-root-authentication-method=normal', '--skip-test-db'],
      ['--no-defaults', `--datadir=${data}`, `--socket=${folder}/socket`, `--pid-file=${folder}/pid`, '--skip-networking', '--innodb-buffer-pool-size=32M', '--innodb-flush-log-at-trx-commit=0', '--max-allowed-packet=32M'],
    ],
    postgres: () => [
      [path.join(bin, 'initdb'), '-D', data, '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--locale=C', '--no-sync'],
      ['-D', data, '-k', folder, '-c', 'listen_addresses=', '-c', 'fsync=off', '-c', 'shared_buffers=16MB'],
    ],
  }[dialect]();
  let prefix = [];
  if (process.getuid() === 0) {
    execFileSync('chown', [user, folder]);
    prefix = ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'];
  }
  const [file, ...rest] = [...prefix, ...install];
  execFileSync(file, rest, { cwd: '/', stdio: 'pipe' });
  const [command, ...others] = [...prefix, program, ...args];
  const child = spawn(command, others, { cwd: '/', stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  child.stderr.on('data', (text) => (log += text));
  const place = dialect === 'mysql' ? path.join(folder, 'socket') : folder;
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    try {
      const connection = await open(place, 'mysql');
      if (dialect === 'mysql') await connection.exec('CREATE DATABASE fleet');
      await connection.close();
      break;
    } catch (error) {
      if (child.exitCode !== null || Date.now() > end) throw new Error(`${program} did not start: ${error.message}\n${log}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {
    place,
    stop: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await ended;
      stop();
    },
  };
}

/** The programs of the newest version in a folder of versions. */
function newest(folder) {
  const versions = fs.existsSync(folder) ? fs.readdirSync(folder).sort((a, b) => Number(a) - Number(b)) : [];
  return path.join(folder, versions.at(-1) ?? '', 'bin');
}

/** Where the empty tables for this client are, or why it cannot be tested. */
async function prepare(name, folder) {
  const { dialect, open } = CLIENTS[name];
  const [module] = name.split(' ');
  try {
    load(module);
  } catch (error) {
    return { missing: `there is no ${module}: ${error.code ?? error.message}` };
  }
  if (dialect !== 'sqlite' && !servers.has(dialect)) servers.set(dialect, await start(dialect, open));
  const server = servers.get(dialect);
  if (server?.missing !== undefined) return server;
  const place = server?.place ?? path.join(folder, 'db');
  const connection = await open(place);
  for (const sql of tables(dialect)) await connection.exec(sql);
  await connection.close();
  return { place };
}

async function stopServers() {
  for (const { stop } of servers.values()) await stop?.();
  servers.clear();
}

module.exports = { CLIENTS, load, prepare, stopServers, tables };
