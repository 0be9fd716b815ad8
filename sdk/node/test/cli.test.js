'use strict';

// Submissions by the program `streamfleet enqueue`: with the real one, and with one that notes what it gets.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, test } = require('node:test');
const { Cli, InvalidSubmission, Refused, Unconfirmed } = require('..');
const { freePort, startRedis, until } = require('./server.js');

const BIN = process.env.STREAMFLEET_BIN;
const ANSWER = `echo '{"id":"7","state":"waiting","existing":false}'`;

describe('a program that is played', () => {
  let folder;

  before(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  });
  after(() => fs.rmSync(folder, { recursive: true, force: true }));

  const read = (name) => fs.readFileSync(path.join(folder, name), 'utf8');
  const program = (script) => {
    const file = path.join(folder, 'program');
    fs.writeFileSync(file, `#!/bin/sh\ncd '${folder}'\n${script}\n`, { mode: 0o700 });
    return [file];
  };

  test('no shell and no argument sees the payload', async () => {
    const cli = new Cli({ command: program(`printf '%s\\n' "$@" > args; cat > input; ${ANSWER}`) });
    const options = { unique: '`id`; $HOME', headers: { t: 'a b' }, maxAttempts: 3 };
    const accepted = await cli.enqueue('mail.send', { password: 'secret $(id)' }, options);
    assert.deepEqual(accepted, { id: '7', state: 'waiting', isNew: true, replaced: undefined, isDebounced: false });
    assert.equal(read('input'), '{"password":"secret $(id)"}');
    const want = ['enqueue', 'mail.send', '--queue=default', '--lane=normal', '--output=json', '-', '--max-attempts=3', '--header=t=a b'];
    assert.deepEqual(read('args').trimEnd().split('\n'), [...want, '--unique=`id`; $HOME']);
  });

  test('times are arguments that the program reads', async () => {
    const cli = new Cli({ command: program(`printf '%s\\n' "$@" > args; ${ANSWER}`) });
    await cli.enqueue('a', Buffer.from('x'), {
      id: '7',
      runAt: new Date('2030-01-01T00:00:00Z'),
      expiresAt: 1_900_000_000_500,
      timeout: 1500,
      idempotentFor: '2d',
      durability: 'aof',
      unique: 'k',
      uniqueScope: 30_000,
    });
    const args = read('args').split('\n');
    for (const want of ['--at=2030-01-01T00:00:00.000Z', '--expires-at=2030-03-17T17:46:40.500Z', '--timeout=1500ms', '--idempotent-for=172800000ms', '--durability=aof', '--encoding=raw', '--unique-scope=30000ms']) {
      assert.ok(args.includes(want), `${want}: ${args}`);
    }
  });

  test('the members of a batch are lines, and the job that follows is an argument', async () => {
    const cli = new Cli({ command: program(`printf '%s\\n' "$@" > args; cat > input; echo '{"batch":"b","queue":"mail","members":2,"ids":["b.0","own"]}'`) });
    const members = [
      { type: 'a', payload: { n: 2n ** 64n - 1n, text: 'x\ny' }, queue: 'mail', headers: { tenant: 9 }, lane: 'high', maxAttempts: 2, timeout: '1.5s', tracking: 'all' },
      { type: 'b', payload: Buffer.from('Ännchen'), id: 'own', delay: 100, unique: 'k', uniqueMode: 'replace', expiresAt: 1_900_000_000_500, then: [{ type: 'c' }] },
      { type: 'c', payload: Buffer.from('{\n"n": 2}'), encoding: 'json', onFailure: 'd' },
      { type: 'd' },
    ];
    const follow = { type: 'total', payload: { month: 11 }, queue: 'mail' };
    assert.deepEqual(await cli.batch('b', members, follow), ['b.0', 'own']);
    const want = ['enqueue', '--bulk', '--queue=mail', '--batch=b', '--follow={"lane":"normal","type":"total","payload":{"month":11}}', '--output=json'];
    assert.deepEqual(read('args').trimEnd().split('\n'), want);
    assert.deepEqual(read('input').split('\n'), [
      '{"lane":"high","type":"a","max_attempts":2,"timeout":1500,"track":true,"headers":{"tenant":"9"},"payload":{"n":18446744073709551615,"text":"x\\ny"}}',
      '{"lane":"normal","type":"b","payload":"Ännchen","encoding":"raw","id":"own","delay":100,"expires_at":"2030-03-17T17:46:40.500Z","unique":"k","unique_mode":"replace","then":[{"type":"c"}]}',
      '{"lane":"normal","type":"c","on_failure":"d","payload":{ "n": 2}}',
      '{"lane":"normal","type":"d"}',
    ]);
  });

  test('a batch that cannot be meant is refused before the program starts', async () => {
    const cli = new Cli({ command: ['/no/such/program'] });
    const [member, follow] = [{ type: 'a' }, { type: 'total' }];
    for (const [args, why] of [
      [['b c', [member], follow], /batch must be a text of 1 to 100 bytes/],
      [['b', [{ ...member, queue: 'mail' }], follow], /one queue, and this one has 'default' and 'mail'/],
      [['b', [{ ...member, batch: 'c' }], follow], /no field batch/],
      [['b', [{ ...member, payload: Buffer.of(255) }], follow], /only if they are UTF-8/],
      [['b', [{ ...member, encoding: 'msgpack', payload: Buffer.of(1) }], follow], /no MessagePack/],
      [['b', [member], { ...follow, delay: '5s' }], /cannot have a delay/],
      [['b', [member]], /^follow must be an object with a type, not undefined/],
      [['b', [member, { type: 'A' }], follow], /^members\[1\]: type does not match/],
      [['b', [], follow], /a batch needs a member/],
    ]) {
      await assert.rejects(cli.batch(...args), (error) => error instanceof InvalidSubmission && why.test(error.message), String(why));
    }
    await assert.rejects(cli.batch('b', [member], follow), Refused);
    await assert.rejects(cli.batch('b', [member], { type: 'run_at_ms', headers: { delay_ms: 'delay_ms' } }), Refused);
  });

  test('an exit code says what became of the job', async () => {
    for (const [code, error] of [[2, InvalidSubmission], [7, Refused], [127, Refused], [1, Unconfirmed], [3, Unconfirmed], [8, Unconfirmed]]) {
      const cli = new Cli({ command: program(`echo because >&2; exit ${code}`) });
      await assert.rejects(cli.enqueue('a', {}), error, String(code));
    }
    for (const text of ['the configuration has a problem: x', 'the configuration has 2 problems:', 'cannot reach redis at x: Connection refused']) {
      await assert.rejects(new Cli({ command: program(`echo 'error: ${text}' >&2; exit 2`) }).enqueue('a', {}), Refused, text);
    }
    const usage = new Cli({ command: program("printf 'error: no\\n\\nUsage: x\\n\\nFor more information' >&2; exit 2") });
    await assert.rejects(usage.enqueue('a', {}), { name: 'InvalidSubmission', message: 'error: no' });
    await assert.rejects(new Cli({ command: program('echo nonsense') }).enqueue('a', {}), Unconfirmed);
    await assert.rejects(new Cli({ command: program('kill -9 $$') }).enqueue('a', {}), Unconfirmed);
    await assert.rejects(new Cli({ command: ['/no/such/program'] }).enqueue('a', {}), Refused);
  });

  test('a program that hangs is killed', async () => {
    const cli = new Cli({ command: program('echo $$ > pid; exec sleep 600'), timeout: '500ms' });
    await assert.rejects(cli.enqueue('a', {}), /500 ms/);
    await until('its end', async () => {
      try {
        return !process.kill(Number(read('pid')), 0);
      } catch (error) {
        return error.code === 'ESRCH';
      }
    });
  });

  test('what the program cannot take is refused before it starts', async () => {
    const cli = new Cli({ command: ['/no/such/program'] });
    const headers = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`h${n}`, 'x'.repeat(8000)]));
    for (const [payload, options, rule] of [
      [1, { tracking: 'none' }, /no tracking but all/],
      [1, { batch: 'b' }, /no field batch/],
      [Buffer.of(1), { encoding: 'msgpack' }, /no MessagePack/],
      [1, { headers: { 'a=b': 1 } }, /a '='/],
      [1, { unique: 'a\0b' }, /NUL/],
      [1, { headers }, /bytes/],
      [1, { idempotentFor: 'soon' }, /idempotentFor/],
      [1, { unique: 'k', uniqueScope: -1 }, /uniqueScope must be a number of milliseconds/],
      [1, { attempts: 3 }, /use maxAttempts/],
    ]) {
      await assert.rejects(cli.enqueue('a', payload, options), (error) => error instanceof InvalidSubmission && rule.test(error.message));
    }
    assert.throws(() => new Cli({ command: 'streamfleet --config x' }), TypeError);
  });
});

describe('the real program', { skip: BIN === undefined && 'STREAMFLEET_BIN is not set: the tests with the real program are skipped' }, () => {
  let server;
  let cli;

  before(async () => {
    server = await startRedis();
    cli = new Cli({ command: [BIN], env: { STREAMFLEET__REDIS__URL: server.url } });
  });
  after(() => server?.stop());

  test('an id is accepted once', async () => {
    const options = { id: 'order-7', headers: { tenant: 9 }, delay: '1m', then: [{ type: 'b' }] };
    const first = await cli.enqueue('mail.send', { to: 'Ännchen' }, options);
    assert.deepEqual([first.id, first.state, first.isNew], ['order-7', 'scheduled', true]);
    const again = await cli.enqueue('mail.send', {}, { id: 'order-7' });
    assert.deepEqual([again.id, again.state, again.isNew], ['order-7', 'scheduled', false]);
  });

  test('a unique key keeps others out', async () => {
    const first = await cli.enqueue('report', { n: 1 }, { unique: 'report-11' });
    const second = await cli.enqueue('report', { n: 2 }, { unique: 'report-11', uniqueScope: 'running' });
    assert.deepEqual([first.isNew, second.isNew, second.id], [true, false, first.id]);
    const third = await cli.enqueue('report', { n: 3 }, { unique: 'report-11', uniqueMode: 'replace' });
    assert.deepEqual([third.isNew, third.replaced], [true, first.id]);
    const later = await cli.enqueue('report', { n: 4 }, { unique: 'later', delay: '10m' });
    const debounced = await cli.enqueue('report', { n: 5 }, { unique: 'later', uniqueMode: 'debounce', delay: '15m' });
    assert.deepEqual([debounced.id, debounced.isDebounced, debounced.isNew], [later.id, true, false]);
  });

  test('large payloads and all options are accepted', async () => {
    const inAnHour = new Date(Date.now() + 3_600_000);
    const options = { id: 'big', expiresAt: inAnHour, runAt: inAnHour, lane: 'low', tracking: 'all', idempotentFor: '1h', durability: 'memory' };
    assert.ok((await cli.enqueue('big', Buffer.alloc(1 << 20, 'x'), options)).isNew);
    const more = { maxAttempts: 3, timeout: '1500ms', onSuccess: 'c', onFailure: 'd', queue: 'other', priority: 9 };
    assert.ok((await cli.enqueue('b', undefined, more)).isNew);
  });

  test('what the program refuses is an error', async () => {
    await assert.rejects(cli.enqueue('a', 1, { unique: 'key', uniqueMode: 'sometimes' }), InvalidSubmission);
    const lost = new Cli({ command: [BIN], env: { STREAMFLEET__REDIS__URL: `redis://127.0.0.1:${await freePort()}` } });
    await assert.rejects(lost.enqueue('a'), Refused);
    const wrong = new Cli({ command: [BIN, '--config', '/no/such/file.toml'] });
    await assert.rejects(wrong.enqueue('a'), (error) => error instanceof Refused && error.message.includes('/no/such/file.toml'));
  });
});
