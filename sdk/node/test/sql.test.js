'use strict';

// Effects and the outbox, on private databases, with each client.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once: onceEvent } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const { after, test } = require('node:test');
const { Fatal, InvalidSubmission, Job, Superseded, once, outbox } = require('..');
const { CLIENTS, load, prepare, stopServers } = require('./databases.js');
const { until } = require('./server.js');

const RESULT = { number: 1, share: 1.5, text: "back\\slash 'ü'\0", big: 2n ** 60n };

after(stopServers);

/** Runs a test with each client: the body gets a connection, others for looking, and what it is connected to. */
function each(name, body) {
  for (const client of Object.keys(CLIENTS)) {
    test(`${name}, with ${client}`, async (context) => {
      const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
      const opened = [];
      try {
        const { place, missing } = await prepare(client, folder);
        if (missing !== undefined) return context.skip(missing);
        const open = async () => {
          opened.push(await CLIENTS[client].open(place));
          return opened.at(-1);
        };
        const [connection, watcher] = [await open(), await open()];
        const count = async (table) => Number((await watcher.rows(`SELECT COUNT(*) AS n FROM ${table}`))[0][0]);
        const transfer = async () => {
          await connection.exec('INSERT INTO transfers VALUES (1)');
          return RESULT;
        };
        await body({ ...connection, client, place, open, watcher, count, transfer });
      } finally {
        for (const { close } of opened) await close();
        fs.rmSync(folder, { recursive: true, force: true });
      }
    });
  }
}

const order = (options) => new Job('pay', null, { id: 'order-7', fence: '17-0', ...options });
const ranAgain = () => assert.fail('it ran again');

each('work is done once', async ({ db, watcher, count, transfer }) => {
  assert.deepEqual(await once(db, order(), transfer), RESULT);
  for (const fence of ['17-0', '17-1', '18-0', '1700000000000-5']) {
    // A repetition, and a replay, whose fence is newer.
    assert.deepEqual(await once(db, order({ fence }), ranAgain), RESULT);
  }
  assert.equal(await count('transfers'), 1);
  await once(db, order({ id: 'ORDER-7' }), transfer);
  await once(db, order({ queue: 'other' }), transfer);
  await once(db, order(), transfer, { step: 'refund' });
  await once(db, order({ step: 'charge' }), transfer);
  await once(db, order({ step: 'charge' }), transfer, { step: 'refund' });
  assert.equal(await count('transfers'), 6);
  const steps = await watcher.rows("SELECT step FROM streamfleet_effects WHERE job_id = 'order-7' AND queue = 'default' ORDER BY step");
  assert.deepEqual(steps.flat(), ['', 'charge', 'charge/refund', 'refund']);
});

each('a result is JSON, also the first time', async ({ db, exec }) => {
  const kept = [[undefined, null], [null, null], [{ a: undefined }, {}], [new Date(0), '1970-01-01T00:00:00.000Z'], ['', ''], [false, false], [0, 0]];
  for (const [number, [value, found]] of kept.entries()) {
    for (const work of [() => value, ranAgain]) assert.deepEqual(await once(db, order({ id: `job-${number}` }), work), found);
  }
  // A row that was written by hand.
  await exec("UPDATE streamfleet_effects SET result = NULL WHERE job_id = 'job-4'");
  assert.equal(await once(db, order({ id: 'job-4' }), () => 1), null);
});

each('an outdated attempt is told so', async ({ db, count, transfer }) => {
  await once(db, order({ fence: '18-5' }), transfer);
  for (const fence of ['18-4', '17-9']) {
    await assert.rejects(once(db, order({ fence }), transfer), (error) => error instanceof Superseded && /a later attempt of the job order-7/.test(error.message));
  }
  assert.equal(await count('transfers'), 1);
});

each('work that fails leaves nothing', async ({ db, count, transfer }) => {
  const fail = async () => {
    await transfer();
    throw new SyntaxError('no');
  };
  await assert.rejects(once(db, order(), fail), SyntaxError);
  assert.deepEqual([await count('transfers'), await count('streamfleet_effects')], [0, 0]);
  await assert.rejects(once(db, order(), () => 'x'.repeat(65535)), /65537 bytes/);
  for (const value of [NaN, () => 1, Buffer.from('x'), '\ud800', new Map()]) {
    await assert.rejects(once(db, order(), () => value), /JSON cannot express what the work returned/);
  }
  await assert.rejects(once(db, order(), () => new Fatal('no')), /return it after once/);
  assert.equal(await count('streamfleet_effects'), 0);
  for (const work of [() => 'x'.repeat(65534), ranAgain]) assert.equal(await once(db, order(), work), 'x'.repeat(65534));
});

each('work that ends its transaction is an error', async ({ db, exec, count, transfer }) => {
  await assert.rejects(once(db, order({ id: 'a' }), async () => void (await exec('ROLLBACK'))), /has ended its transaction/);
  assert.equal(await count('streamfleet_effects'), 0);
  await assert.rejects(once(db, order({ id: 'b' }), async () => void (await exec('COMMIT'))), /has ended its transaction/);
  // Nobody knows what is missing.
  await assert.rejects(once(db, order({ id: 'b', fence: '18-0' }), transfer), /a part of its work/);
});

each('misuse is refused', async ({ db, exec, count, transfer }) => {
  await exec('BEGIN');
  await exec('INSERT INTO transfers VALUES (0)');
  await assert.rejects(once(db, order(), transfer), /a transaction is open/);
  // The transaction of the caller goes on.
  assert.equal(await count('transfers'), 0);
  await exec('COMMIT');
  assert.equal(await count('transfers'), 1);
  for (const fence of [null, '', '17', 'x-0', '9007199254740992-0', '17-99999999999999999999', 17]) {
    await assert.rejects(once(db, order({ fence }), transfer), /the fence of the job is/);
  }
  for (const step of ['ü'.repeat(65), 'a\n', '\ud800', 7]) await assert.rejects(once(db, order(), transfer, { step }), /at most 64 characters/);
  await assert.rejects(once(db, order({ step: 'a' }), transfer, { step: 'b'.repeat(63) }), /at most 64 characters/);
  await assert.rejects(once(db, order({ id: '' }), transfer), /no id/);
  await assert.rejects(once(db, order(), transfer, { steps: 'a' }), /there is no option 'steps'/);
  await assert.rejects(once(db, order(), 'x'), /must be a function/);
  assert.equal(await count('streamfleet_effects'), 0);
  await once(db, order({ fence: '9007199254740991-9007199254740991' }), transfer, { step: '😀'.repeat(64) });
});

each('jobs that share a connection are refused, and do not mix', async ({ db, count, transfer }) => {
  const all = await Promise.allSettled(['a', 'b', 'c'].map((id) => once(db, order({ id }), transfer)));
  assert.deepEqual(all.map(({ status }) => status), ['fulfilled', 'rejected', 'rejected']);
  assert.match(all[1].reason.message, /each job that runs needs a connection of its own/);
  await once(db, order({ id: 'b' }), transfer);
  assert.equal(await count('transfers'), 2);
});

each('two attempts at once queue up', async ({ db, client, open, watcher }) => {
  const waits = {
    mysql: "SELECT variable_value + 0 AS n FROM information_schema.global_status WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
    postgres: "SELECT COUNT(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
  }[CLIENTS[client].dialect];
  // A second statement of SQLite would keep this thread, and so the first one, waiting.
  if (waits === undefined) return;
  const other = await open();
  let second;
  const first = await once(db, order(), async () => {
    second = once(other.db, order({ fence: '18-0' }), ranAgain);
    await until('the wait of the other attempt', async () => Number((await watcher.rows(waits))[0][0]) === 1);
    return 'first';
  });
  assert.deepEqual([first, await second], ['first', 'first']);
});

each('a killed program makes each transfer once', async ({ client, place, count, watcher }) => {
  const most = 20;
  let kills = 0;
  for (let isOver = false; !isOver; kills += 1) {
    assert.ok(kills < 1000, 'the program comes to its end');
    const args = [path.join(__dirname, 'programs', 'transfers.js'), client, place, String(kills + 1), String(most)];
    const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    child.stdin.on('error', () => {});
    const exit = onceEvent(child, 'exit');
    // A transfer that was made before has two points.
    let points = 2 * (await count('transfers')) + 1 + Math.floor(Math.random() * 16);
    for await (const _ of readline.createInterface({ input: child.stdout })) {
      child.stdin.write('\n');
      points -= 1;
      if (points === 0) break;
    }
    for (const end = performance.now() + Math.random(); performance.now() < end; );
    isOver = points > 0;
    if (!isOver) child.kill('SIGKILL');
    const [code] = await exit;
    if (isOver) assert.equal(code, 0);
  }
  assert.ok(kills > 3, `${kills} runs`);
  assert.deepEqual((await watcher.rows('SELECT balance FROM accounts ORDER BY name')).flat().map(Number), [-most, most]);
  assert.deepEqual((await watcher.rows('SELECT number FROM transfers ORDER BY number')).flat().map(Number), [...Array(most).keys()]);
});

/** The rows of the outbox, with payloads as Buffers. */
async function rowsOf({ rows }) {
  const found = await rows('SELECT job_id, queue, lane, type, payload, encoding, headers, run_at_ms, options FROM streamfleet_outbox ORDER BY seq');
  return found.map((row) => row.map((value, column) => (column === 4 ? Buffer.from(value) : column === 7 && value !== null ? Number(value) : value)));
}

each('a job in the outbox is a row of the transaction', async ({ db, exec, count, watcher }) => {
  await exec('BEGIN');
  const id = await outbox.add(db, 'mail.send', { to: "ann\\ü'\0" });
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.notEqual(await outbox.add(db, 'mail.send'), id);
  await exec('COMMIT');
  const [first, second] = await rowsOf(watcher);
  assert.deepEqual(first, [id, 'default', null, 'mail.send', Buffer.from('{"to":"ann\\\\ü\'\\u0000"}'), null, null, null, null]);
  assert.deepEqual(second[4], Buffer.alloc(0));
  await exec('BEGIN');
  await outbox.add(db, 'mail.send');
  await exec('ROLLBACK');
  assert.equal(await count('streamfleet_outbox'), 2);
  await assert.rejects(outbox.add(db, 'mail.send'), /no transaction is open/);
  await assert.rejects(outbox.addAll(db, []), /no transaction is open/);
  await outbox.add(db, 'mail.send', null, { autocommit: true });
  assert.equal(await count('streamfleet_outbox'), 3);
});

each('every option is in the row', async ({ db, exec, watcher }) => {
  const options = {
    id: 'order-7', queue: 'mail', runAt: 1700000000500, expiresAt: 1800000000000, maxAttempts: 4, timeout: '30s', priority: 9, tracking: 'all',
    headers: { 0: 'x', tenant: 'ü', __proto__: null, ['__proto__']: 'y' }, onSuccess: 'b', onFailure: 'c', then: [{ type: 'd' }], batch: 'n', traceparent: '00-1-2-01',
  };
  await exec('BEGIN');
  assert.equal(await outbox.add(db, 'a', Buffer.from('\x81\x00\xff\\', 'latin1'), { encoding: 'msgpack', ...options }), 'order-7');
  const now = Date.now();
  await outbox.add(db, 'a', null, { delay: '1m' });
  await outbox.addAll(db, [{ type: 'b', payload: 7, lane: 'low' }]);
  await exec('COMMIT');
  const [first, delayed, low] = await rowsOf(watcher);
  assert.deepEqual(first.slice(0, 6), ['order-7', 'mail', 'high', 'a', Buffer.from('\x81\x00\xff\\', 'latin1'), 'msgpack']);
  assert.deepEqual(first.slice(6, 8), ['{"0":"x","tenant":"ü","__proto__":"y"}', 1700000000500]);
  assert.deepEqual(JSON.parse(first[8]), {
    expires_at_ms: '1800000000000', max_attempts: '4', timeout_ms: '30000', tracking: 'all', on_success: 'b', on_failure: 'c', then: '[{"type":"d"}]', batch: 'n',
    traceparent: '00-1-2-01',
  });
  assert.ok(delayed[7] >= now + 60_000 && delayed[7] < now + 120_000, String(delayed[7]));
  assert.deepEqual(low.slice(1, 5), ['default', 'low', 'b', Buffer.from('7')]);
});

each('many jobs are few statements', async ({ db, exec, watcher, count }) => {
  await exec('BEGIN');
  const ids = await outbox.addAll(db, Array.from({ length: 1201 }, (_, payload) => ({ type: 'a', payload })));
  assert.deepEqual([ids.length, new Set(ids).size], [1201, 1201]);
  // A statement has about 1 MiB.
  await outbox.addAll(db, Array(5).fill({ type: 'a', payload: 'x'.repeat(700_000) }));
  await exec('COMMIT');
  assert.deepEqual((await rowsOf(watcher)).slice(0, 1201).map((row) => Number(row[4])), [...Array(1201).keys()]);
  assert.equal(await count('streamfleet_outbox'), 1206);
});

each('the outbox takes only what the wire takes', async ({ db, exec, count }) => {
  await exec('BEGIN');
  await assert.rejects(outbox.add(db, 'A'), InvalidSubmission);
  await assert.rejects(outbox.add(db, 'a', null, { attempts: 3 }), /use maxAttempts/);
  await assert.rejects(outbox.add(db, 'a', null, { unique: 'k' }), /submit this job with Cli/);
  await assert.rejects(outbox.addAll(db, [{ type: 'a' }, { type: 'B' }]), /jobs\[1\]/);
  await assert.rejects(outbox.addAll(db, [{ type: 'a' }], { delay: 1 }), /give options to each job/);
  assert.equal(await count('streamfleet_outbox'), 0);
  await exec('ROLLBACK');
});

each('an effect and a job are one transaction', async ({ db, count, transfer }) => {
  const work = async (given) => {
    assert.equal(given, db);
    await transfer();
    return outbox.add(given, 'mail.send', null, { id: 'receipt-7' });
  };
  for (const fence of ['17-0', '18-0']) assert.equal(await once(db, order({ fence }), work), 'receipt-7');
  assert.deepEqual([await count('transfers'), await count('streamfleet_outbox')], [1, 1]);
});

each('a job is added before a call returns, with SQLite', async ({ db, client, count }) => {
  if (CLIENTS[client].dialect !== 'sqlite') return;
  db.exec('BEGIN');
  const added = outbox.add(db, 'a');
  db.exec('COMMIT');
  await added;
  assert.equal(await count('streamfleet_outbox'), 1);
});

each('a pool is refused', async ({ client, place }) => {
  const pools = {
    mysql2: () => load('mysql2/promise').createPool({ socketPath: place, user: 'root', database: 'fleet' }),
    'mysql2 with callbacks': () => load('mysql2').createPool({ socketPath: place, user: 'root', database: 'fleet' }),
    pg: () => new (load('pg').Pool)({ host: place, user: 'postgres', database: 'postgres' }),
  };
  const pool = pools[client]?.() ?? {};
  await assert.rejects(once(pool, order(), ranAgain), client in pools ? /is a pool/ : /the database must be/);
  await pool.end?.();
});
