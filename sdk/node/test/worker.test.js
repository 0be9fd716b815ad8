'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { Drop, Job, Retry, Snooze } = require('..');
const { Program, withProgram, SDK } = require('./program.js');

test('the greeting names the types, the lower inflight and the package', async () => {
  const code = "new Worker().on('b', () => 1).handle('a', () => 1).run({ inflight: 20 })";
  await withProgram(code, async (program) => {
    const ready = { type: 'ready', protocol: 1, types: ['a', 'b'], inflight: 20, sdk: 'streamfleet-node 0.1.0' };
    assert.deepEqual(await program.hello(50), ready);
  });
  await withProgram(code, async (program) => assert.equal((await program.hello(3)).inflight, 3));
  await withProgram("new Worker().on('a', () => 1).run()", async (program) => assert.equal((await program.hello(50)).inflight, 50));
});

test('a worker of another protocol is refused with both versions', async () => {
  await withProgram("new Worker().on('a', () => 1).run()", async (program) => {
    program.send({ type: 'hello', protocol: 2, inflight: 1 });
    const { lines, code } = await program.end();
    assert.equal(lines[0].protocol, 1);
    assert.equal(code, 1);
    assert.match(program.errors, /version 2 .* version 1/);
  });
});

const OUTCOMES = [
  ['done()', { outcome: 'done' }],
  ['done({ a: 1 })', { outcome: 'done', result: { a: 1 } }],
  ["retry('busy')", { outcome: 'retry', error: 'busy' }],
  ["retry('busy', { delay: '5s' })", { outcome: 'retry', error: 'busy', delay_ms: 5000 }],
  ["unknown('no answer')", { outcome: 'retry', unknown: true, error: 'no answer' }],
  ["fatal('no such order')", { outcome: 'fatal', error: 'no such order' }],
  ['snooze(60_000)', { outcome: 'snooze', delay_ms: 60_000 }],
  ["snooze('1m', 'quota')", { outcome: 'snooze', delay_ms: 60_000, reason: 'quota' }],
  ["drop('not wanted')", { outcome: 'drop', reason: 'not wanted' }],
];

test('each outcome may be returned or thrown, as a value or as a class', async () => {
  const code = `const worker = new Worker();
    const values = [${OUTCOMES.map(([value]) => `() => ${value}`).join(', ')}];
    worker.on('return', (job) => values[job.payload]());
    worker.on('throw', async (job) => { throw values[job.payload](); });
    class BadAddress extends Fatal {}
    worker.on('class', () => { throw new BadAddress('no @'); });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    for (const [index, [, want]] of OUTCOMES.entries()) {
      assert.deepEqual(await program.ask('return', index), want);
      assert.deepEqual(await program.ask('throw', index), want);
    }
    assert.deepEqual(await program.ask('class'), { outcome: 'fatal', error: 'no @' });
  });
});

test('what is thrown is a retry that begins with the error and ends with its stack', async () => {
  const code = `const worker = new Worker();
    function innermost() { throw new RangeError('no room', { cause: new Error('disk full') }); }
    worker.on('error', async () => { await null; innermost(); });
    worker.on('text', () => { throw 'just text'; });
    worker.on('object', () => { throw { code: 7 }; });
    worker.on('nothing', () => { throw undefined; });
    worker.on('both', () => { throw new AggregateError([new Error('refused v6'), new Error('refused v4')], ''); });
    worker.on('hidden', () => { throw Object.defineProperty(new Error('x'), 'message', { get() { throw new Error('y'); } }); });
    class Vanished extends Error {}
    worker.on('class', () => { throw new Vanished('g', { cause: Object.assign(new Error('slow'), { code: 'ETIMEDOUT' }) }); });
    worker.on('named', () => { throw Object.assign(new Vanished('g'), { name: 'Lost', code: 'E_GONE' }); });
    worker.on('dom', () => { throw new DOMException('no', 'AbortError'); });
    worker.on('long', () => { throw new Error('é'.repeat(100_000)); });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    const { outcome, error } = await program.ask('error');
    assert.equal(outcome, 'retry');
    const [head, cause, frame] = error.split('\n');
    assert.equal(head, 'RangeError: no room');
    assert.equal(cause, 'caused by Error: disk full');
    assert.match(frame, /at innermost/);
    assert.ok(!error.includes('index.js'), error);
    assert.deepEqual(await program.ask('text'), { outcome: 'retry', error: 'just text' });
    assert.deepEqual(await program.ask('object'), { outcome: 'retry', error: '{ code: 7 }' });
    assert.deepEqual(await program.ask('nothing'), { outcome: 'retry', error: 'undefined' });
    assert.match((await program.ask('both')).error, /^AggregateError: refused v6; refused v4\n/);
    assert.match((await program.ask('class')).error, /^Vanished: g\ncaused by Error: slow \(ETIMEDOUT\)\n/);
    assert.match((await program.ask('named')).error, /^Lost: g \(E_GONE\)\n/);
    assert.match((await program.ask('dom')).error, /^AbortError: no/);
    assert.deepEqual(await program.ask('hidden'), { outcome: 'retry', error: 'an error that cannot be shown', classes: ['Error'] });
    const long = (await program.ask('long')).error;
    assert.ok(Buffer.byteLength(long) <= 4096);
    assert.match(long, /^Error: é+ …\n {4}at /);
  });
});

test('bytes travel as base64 in both directions', async () => {
  const code = `const worker = new Worker();
    worker.on('bytes', (job) => Buffer.isBuffer(job.payload) ? Buffer.concat([job.payload, Buffer.of(0)]) : typeof job.payload);
    worker.on('array', () => new Uint8Array([1, 2, 3, 4]).subarray(1, 3));
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    const sent = { encoding: 'raw', payload_base64: Buffer.of(255, 10, 0).toString('base64') };
    const want = { outcome: 'done', result_base64: Buffer.of(255, 10, 0, 0).toString('base64') };
    assert.deepEqual(await program.ask('bytes', undefined, sent), want);
    assert.deepEqual(await program.ask('array'), { outcome: 'done', result_base64: Buffer.of(2, 3).toString('base64') });
    assert.deepEqual(await program.ask('bytes', 'text'), { outcome: 'done', result: 'string' });
  });
});

test('a job without a payload has null, and results may be missing', async () => {
  await withProgram("new Worker().on('a', (job) => job.payload).on('b', () => {}).run()", async (program) => {
    await program.hello();
    assert.deepEqual(await program.ask('a', undefined), { outcome: 'done', result: null });
    assert.deepEqual(await program.ask('b'), { outcome: 'done' });
  });
});

test('whole numbers beyond 2^53 stay exact, and texts that look like them stay texts', async () => {
  const code = `const worker = new Worker();
    worker.on('echo', (job) => job.payload);
    worker.on('types', (job) => job.payload.map((each) => typeof each));
    worker.on('huge', () => 2n ** 64n);
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    const payload = '[9007199254740993,-9223372036854775808,18446744073709551615,"9007199254740993","a\\\\",12345678901234567,1.12345678901234567,1e2,7]';
    const { ref, line } = program.line('types', 0);
    program.raw(line.replace('"payload":0', `"payload":${payload}`));
    const types = ['bigint', 'bigint', 'bigint', 'string', 'string', 'bigint', 'number', 'number', 'number'];
    assert.deepEqual(await program.result(ref), { outcome: 'done', result: types });
    const echo = program.line('echo', 0);
    program.raw(echo.line.replace('"payload":0', '"payload":{"id":9007199254740993}'));
    // The line as text, since this test would round the number, too.
    const answer = await program.until('the line', () => program.peek());
    assert.match(answer, /"result":\{"id":9007199254740993\}/);
    await program.result(echo.ref);
    const huge = await program.ask('huge');
    assert.equal(huge.outcome, 'fatal');
    assert.match(huge.error, /the handler's result cannot be sent: the number 18446744073709551616 does not fit into 64 bits/);
  });
});

test('a result that cannot be sent fails its job, and the program lives', async () => {
  const code = `const worker = new Worker();
    worker.on('circle', () => { const circle = {}; circle.self = circle; return circle; });
    worker.on('deep', () => { let deep = []; for (let i = 0; i < 200; i += 1) deep = [deep]; return deep; });
    worker.on('level', () => { let deep = ']]['; for (let i = 0; i < 110; i += 1) deep = [deep]; return [deep, 'x'.repeat(300)]; });
    worker.on('large', () => 'x'.repeat(16 * 1024 * 1024));
    worker.on('surrogate', () => ['a\\ud83d']);
    worker.on('texts', () => ['\\\\ud83d', '😀', { left: undefined, big: 7n, at: new Date(0) }]);
    worker.on('nan', () => ({ n: NaN }));
    worker.on('function', () => () => 1);
    worker.on('symbol', () => [Symbol('x')]);
    worker.on('set', () => ({ ids: new Set([1]) }));
    worker.on('bytes', () => ({ data: Buffer.from('x') }));
    worker.on('throws', () => ({ toJSON() { throw new Error('not me'); } }));
    worker.on('vanishes', () => ({ toJSON() {} }));
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    const wanted = {
      circle: /circular/,
      deep: /nested more than 120/,
      large: /the pool's max_line is 16777216/,
      surrogate: /not Unicode/,
      nan: /NaN/,
      function: /function/,
      symbol: /symbol/,
      set: /JSON has no Set/,
      bytes: /bytes inside of a value/,
      throws: /not me/,
      vanishes: /not a JSON value/,
    };
    for (const [type, why] of Object.entries(wanted)) {
      const { outcome, error } = await program.ask(type);
      assert.equal(outcome, 'fatal', type);
      assert.match(error, /^the handler's result cannot be sent: /);
      assert.match(error, why);
    }
    assert.equal(JSON.stringify((await program.ask('level')).result).length, 530);
    const result = ['\\ud83d', '😀', { big: 7, at: '1970-01-01T00:00:00.000Z' }];
    assert.deepEqual(await program.ask('texts'), { outcome: 'done', result });
  });
});

test('no line is longer than the worker accepts', async () => {
  const code = `const worker = new Worker();
    worker.on('size', (job) => 'x'.repeat(job.payload));
    worker.on('error', () => { throw new Error('\\0'.repeat(100_000)); });
    worker.on('fatal', () => fatal('é'.repeat(100_000)));
    worker.on('snooze', () => snooze(1000, '"'.repeat(100_000)));
    worker.on('logs', async (job) => { await job.log('\\0'.repeat(100_000), 'info', { n: 'x'.repeat(100_000) }); job.progress(1, '\\0'.repeat(100_000)); });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello(1, { max_line: 1024 });
    assert.equal((await program.ask('size', 900)).outcome, 'done');
    assert.match((await program.ask('size', 1024)).error, /the pool's max_line is 1024/);
    for (const [type, outcome] of Object.entries({ error: 'retry', fatal: 'fatal', snooze: 'snooze', logs: 'done' })) {
      program.job(type);
      let line;
      do {
        line = await program.next();
        assert.ok(Buffer.byteLength(JSON.stringify(line)) <= 1024, type);
      } while (line.type !== 'result');
      assert.equal(line.outcome, outcome);
    }
  });
});

test('as many jobs run at once as the pool gives', async () => {
  const code = `const worker = new Worker(); let open; const gate = new Promise((resolve) => { open = resolve; }); let running = 0;
    worker.on('a', async () => { running += 1; if (running === 50) open(); await gate; return running; });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello(50);
    const refs = Array.from({ length: 50 }, () => program.job('a'));
    const results = [];
    for (let n = 0; n < 50; n += 1) results.push(await program.result());
    assert.deepEqual(results.map(({ ref }) => ref).sort(), refs.sort());
    assert.ok(results.every(({ result }) => result === 50));
  });
});

test('the answer of a busy handler leaves before the next one begins', async () => {
  const code = `const worker = new Worker();
    worker.on('busy', () => { process.stderr.write('begun\\n'); const until = Date.now() + 300; while (Date.now() < until); });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello(3);
    const lines = [1, 2, 3].map(() => program.line('busy').line);
    program.raw(lines.join(''));
    await program.result('1');
    assert.ok(program.errors.split('begun').length - 1 < 3, program.errors);
  });
});

test('progress is merged, and the last report precedes the result', async () => {
  const code = `const worker = new Worker();
    worker.on('a', (job) => { for (let n = 0; n <= 1000; n += 1) job.progress(n / 10, 'page ' + n); job.progress(NaN, 'almost'); });
    worker.on('slow', async (job) => { job.progress(1); job.progress(2); await new Promise((go) => process.once('SIGUSR2', go)); });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello(2);
    const ref = program.job('a');
    const lines = [];
    for (;;) {
      const line = await program.next();
      if (line.type === 'result') break;
      lines.push(line);
    }
    assert.deepEqual(lines[0], { type: 'progress', ref, percent: 0, message: 'page 0' });
    assert.deepEqual(lines.at(-1), { type: 'progress', ref, message: 'almost' });
    assert.ok(lines.length < 50, `${lines.length} lines`);
    program.job('slow');
    assert.deepEqual([(await program.next()).percent, (await program.next()).percent], [1, 2]);
    await program.signal('SIGUSR2');
    await program.result('2');
  });
});

test('log lines have a level and fields, whatever the fields are', async () => {
  const code = `const worker = new Worker();
    worker.on('a', async (job) => {
      const circle = {}; circle.self = circle;
      await job.log('sent', 'warn', { to: 'ann', circle, big: 2n ** 70n, error: new Error('x'), nothing: undefined });
      await job.log('plain');
      job.log('x', 'loud');
    });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    const ref = program.job('a');
    const { fields, ...line } = await program.next();
    assert.deepEqual(line, { type: 'log', ref, level: 'warn', message: 'sent' });
    assert.equal(fields.to, 'ann');
    assert.ok([fields.circle, fields.big, fields.error, fields.nothing].every((value) => typeof value === 'string'), JSON.stringify(fields));
    assert.deepEqual(await program.next(), { type: 'log', ref, level: 'info', message: 'plain' });
    assert.match((await program.result(ref)).error, /^TypeError: level must be debug, info, warn or error/);
  });
});

test('a cancel line fires the signal of its job, and of no other', async () => {
  const code = `const worker = new Worker();
    worker.on('wait', (job) => new Promise((_, reject) => {
      job.log('waiting');
      job.signal.addEventListener('abort', () => reject(job.signal.reason));
      setTimeout(() => {}, 60_000).unref();
    }));
    worker.on('late', async (job) => { while (!job.cancelled) await new Promise(setImmediate); return job.signal.aborted && job.cancelled; });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello(3);
    const [first, second, late] = [program.job('wait'), program.job('wait'), program.job('late')];
    await program.next();
    await program.next();
    program.send({ type: 'cancel', ref: second, reason: 'timeout' });
    const answer = await program.result(second);
    assert.equal(answer.outcome, 'retry');
    assert.match(answer.error, /^the attempt was interrupted: timeout\n/);
    program.send({ type: 'cancel', ref: late, reason: 'lost' });
    assert.deepEqual(await program.result(late), { outcome: 'done', result: 'lost' });
    program.send({ type: 'cancel', ref: 'unknown', reason: 'lost' });
    program.send({ type: 'cancel', ref: first, reason: 'cancelled' });
    assert.match((await program.result(first)).error, /interrupted: cancelled/);
  });
});

test('a job that has begun when it is taken back goes on', async () => {
  const code = `const worker = new Worker();
    worker.on('wait', (job) => new Promise((resolve) => {
      job.signal.addEventListener('abort', () => resolve(job.cancelled));
      job.log('waiting');
    }));
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello(1);
    const ref = program.job('wait');
    await program.next();
    for (const reason of ['withdrawn', 'timeout']) program.send({ type: 'cancel', ref, reason });
    assert.deepEqual(await program.result(ref), { outcome: 'done', result: 'timeout' });
  });
});

test('on SIGTERM the running job ends, a later one is snoozed, and the exit code is 0', async () => {
  const code = `const worker = new Worker();
    worker.on('a', async (job) => { job.log('begun'); await new Promise((go) => process.once('SIGUSR2', go)); return 'ended'; });
    worker.run().then(() => console.error('after run'));
    process.on('SIGTERM', () => console.error('asked to stop'));`;
  await withProgram(code, async (program) => {
    await program.hello(2);
    const ref = program.job('a');
    await program.next();
    await program.signal('SIGTERM');
    await program.until('the signal', () => program.errors.includes('asked to stop'));
    const later = program.job('a');
    assert.deepEqual(await program.result(later), { outcome: 'snooze', delay_ms: 1000, reason: 'the program is stopping', begun: false });
    await program.signal('SIGUSR2');
    const { lines, code: exit } = await program.end();
    assert.deepEqual(lines, [{ type: 'result', ref, outcome: 'done', result: 'ended' }, { type: 'bye' }]);
    assert.equal(exit, 0);
    assert.match(program.errors, /after run/);
  });
});

test('without jobs, SIGTERM ends the program at once, even if it keeps connections open', async () => {
  await withProgram("setInterval(() => {}, 1000); new Worker().on('a', () => 1).run()", async (program) => {
    await program.hello();
    await program.signal('SIGTERM');
    assert.deepEqual(await program.end(), { lines: [{ type: 'bye' }], code: 0 });
  });
});

test('at the end of the input, running jobs end, and the exit code is 0', async () => {
  const code = `const worker = new Worker();
    worker.on('a', async (job) => { await new Promise((go) => setTimeout(go, 50)); return job.payload; });
    worker.run();`;
  for (const sockets of [false, true]) {
    await withProgram(code, { sockets }, async (program) => {
      await program.hello(3);
      for (const n of [1, 2, 3]) program.job('a', n);
      program.raw('{"type":"job","ref":"9","cut of');
      program.close();
      const { lines, code: exit } = await program.end();
      assert.deepEqual(lines.map(({ result, type }) => result ?? type), [1, 2, 3, 'bye']);
      assert.equal(exit, 0);
    });
  }
});

const STRAY = `console.log('stray: while loading');
  const worker = new Worker();
  worker.on('a', () => {
    console.log('stray: %s', 'console');
    process.stdout.write('stray: stdout\\n');
    return [process.env.STREAMFLEET_POOL, process.env.STREAMFLEET_PROTOCOL].every((value) => value === undefined);
  });
  worker.on('child', () => {
    const input = require('node:child_process').execFileSync('cat', { stdio: ['inherit', 'pipe', 'inherit'] });
    require('node:child_process').execFileSync('echo', ['stray: child'], { stdio: 'inherit' });
    require('node:fs').writeSync(1, 'stray: descriptor\\n');
    return input.length;
  });
  worker.run();`;

test('what is printed goes to standard error, and nothing else reads standard input', async () => {
  await withProgram(STRAY, async (program) => {
    await program.hello();
    assert.deepEqual(await program.ask('a'), { outcome: 'done', result: true });
    assert.deepEqual(await program.ask('child'), { outcome: 'done', result: 0 });
    for (const what of ['while loading', 'console', 'stdout', 'child', 'descriptor']) {
      await program.until(what, () => program.errors.includes(`stray: ${what}`));
    }
    // A long chain of jobs shows that the descriptors stay in order.
    for (let n = 0; n < 20; n += 1) assert.equal((await program.ask('a')).outcome, 'done');
  });
});

test('what is printed goes to standard error over sockets, too', async () => {
  await withProgram(STRAY, { sockets: true }, async (program) => {
    await program.hello();
    assert.deepEqual(await program.ask('a'), { outcome: 'done', result: true });
    for (const what of ['while loading', 'console', 'stdout']) {
      await program.until(what, () => program.errors.includes(`stray: ${what}`));
    }
  });
});

test('a package that is a symbolic link is one package, whoever loads it', async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  try {
    fs.mkdirSync(path.join(folder, 'store', 'shop'), { recursive: true });
    fs.writeFileSync(path.join(folder, 'store', 'shop', 'index.js'), '');
    fs.symlinkSync('store', path.join(folder, 'node_modules'));
    await withProgram("new Worker().on('a', () => require.resolve('shop')).run()", { cwd: folder }, async (program) => {
      await program.hello();
      assert.equal((await program.ask('a')).result, fs.realpathSync(path.join(folder, 'store', 'shop', 'index.js')));
    });
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
});

test('a program that prints before it loads the package can have it loaded first', async () => {
  const code = `console.log('stray: first'); const { Worker } = require(${JSON.stringify(SDK)}); new Worker().on('a', () => 1).run()`;
  const program = new Program('', { args: ['-r', SDK, '-e', code] });
  try {
    await program.hello();
    assert.deepEqual(await program.ask('a'), { outcome: 'done', result: 1 });
    await program.until('what was printed', () => program.errors.includes('stray: first'));
  } finally {
    program.kill();
  }
});

const CRASHES = `const worker = new Worker();
  worker.errors([[EvalError, 'fatal']]);
  worker.on('wait', (job) => { job.log('waiting'); return new Promise((go) => process.once('SIGUSR2', () => go('waited'))); });
  worker.on('throw', (job) => { setTimeout(() => { throw new (global[job.payload] ?? Error)('nobody caught this'); }); return new Promise(() => {}); });
  worker.on('exit', (job) => process.exit(job.payload));
  worker.on('reject', async (job) => {
    void (async () => { await null; throw new (global[job.payload] ?? Error)('nobody caught this'); })();
    await new Promise((go) => setTimeout(go, 50));
    return [job.cancelled, job.signal.aborted];
  });
  worker.on('hang', () => { void Promise.reject(new Error('nobody caught this')); return new Promise(() => {}); });
  worker.on('late', () => { new Promise((_, no) => setTimeout(() => no(new Error('too late')), 20)); });
  process.on('SIGHUP', () => { throw new Error('of nobody'); });
  process.on('SIGURG', () => { void Promise.reject(new Error('of nobody')); });
  worker.run();`;

test('a rejection that nobody handles fails its own job, and no other', async () => {
  await withProgram(CRASHES, async (program) => {
    await program.hello(5);
    const wait = program.job('wait');
    await program.next();
    const { outcome, error, classes } = await program.ask('reject');
    assert.equal(outcome, 'retry');
    assert.match(error, /^Error: nobody caught this\n[^]*\n\(a promise was rejected, and nobody handled it\)$/);
    assert.deepEqual(classes, ['Error']);
    assert.equal((await program.ask('reject', 'EvalError')).outcome, 'fatal');
    assert.match((await program.ask('hang')).error, /^Error: nobody caught this\n/);
    await program.signal('SIGUSR2');
    assert.deepEqual(await program.result(wait), { outcome: 'done', result: 'waited' });
    assert.match(program.errors, /nobody handled it in the job job-2 \(reject\): Error: nobody caught this/);
  });
});

test('a rejection of a job that has ended is logged, and fails nothing', async () => {
  await withProgram(CRASHES, async (program) => {
    await program.hello(5);
    assert.equal((await program.ask('late')).outcome, 'done');
    const { type, level, message } = await program.next();
    assert.deepEqual([type, level], ['log', 'error']);
    assert.match(message, /^a promise was rejected, and nobody handled it; it belongs to job-1 \(late\), which had ended: Error: too late/);
    assert.equal((await program.ask('late')).outcome, 'done');
  });
});

test('an error or an exit of a job that has ended costs the job that runs nothing, and has no part in its error', async () => {
  const code = `const worker = new Worker();
    let waiting = 0;
    worker.on('late', (job) => {
      const [how, others] = job.payload;
      setInterval(() => {
        if (waiting < others) return;
        if (how === 'throw') throw new Error('card 4242');
        process.exit(0);
      }, 5);
    });
    worker.on('wait', (job) => { waiting += 1; job.log('waiting'); return new Promise((go) => setTimeout(go, 60_000)); });
    worker.run();`;
  for (const [how, status, said] of [['throw', '1', /^an error was thrown, and nobody caught it; .*: Error: card 4242/], ['exit', '0', /^process\.exit\(0\) was called; /]]) {
    for (const inflight of [1, 3]) {
      await withProgram(code, async (program) => {
        await program.hello(inflight);
        assert.equal((await program.ask('late', [how, inflight])).outcome, 'done');
        for (let count = 0; count < inflight; count += 1) {
          program.job('wait');
          assert.equal((await program.next()).message, 'waiting');
        }
        const { lines: [log, bye, ...more], code: exit } = await program.end();
        assert.deepEqual([log.type, log.level, log.ref], ['log', 'error', undefined]);
        assert.match(log.message, said);
        assert.match(log.message, /it belongs to job-1 \(late\), which had ended/);
        assert.deepEqual([bye, more], [{ type: 'bye', crash: true }, []]);
        assert.equal(String(exit), status);
        assert.doesNotMatch(program.errors, /4242/);
      });
    }
  }
});

/** Sends two jobs, ends the program by the second one, or by a signal, and returns what was written and said. */
async function crashed(last, { payload, signal } = {}) {
  const program = new Program(CRASHES);
  try {
    await program.hello(3);
    program.job('wait');
    await program.next();
    program.job(last, payload);
    if (last === 'wait') await program.next();
    if (signal !== undefined) await program.signal(signal);
    const { lines, code } = await program.end();
    return { lines, code, errors: program.errors };
  } finally {
    program.kill();
  }
}

test('an error that nobody catches ends the program, and fails its own job only', async () => {
  const { lines: [guilty, ...others], code, errors } = await crashed('throw');
  // The worker counts what has no answer as lost. After `bye`, it would be a job that has not begun.
  assert.deepEqual(others, []);
  const { error, ...result } = guilty;
  assert.deepEqual(result, { type: 'result', ref: '2', outcome: 'retry', classes: ['Error'], crash: true });
  assert.match(error, /^Error: nobody caught this\n[^]*the program ended\)$/);
  assert.equal(code, 1);
  assert.match(errors, /nobody caught this/);
  const ruled = await crashed('throw', { payload: 'EvalError' });
  assert.deepEqual(ruled.lines.map(({ ref, outcome, crash }) => [ref, outcome, crash]), [['2', 'fatal', true]]);
});

test('a handler that exits fails its own job only, even if it exits with 0', async () => {
  for (const exit of [3, 0]) {
    const { lines, code } = await crashed('exit', { payload: exit });
    assert.deepEqual(lines.map(({ ref, outcome, crash }) => [ref, outcome, crash]), [['2', 'retry', true]]);
    assert.ok(lines[0].error.includes(`process.exit(${exit})`), lines[0].error);
    assert.equal(code, exit);
  }
});

test('an error that belongs to no job ends the program, and no job is to blame unless it was alone', async () => {
  for (const signal of ['SIGHUP', 'SIGURG']) {
    const { lines, code, errors } = await crashed('wait', { signal });
    assert.deepEqual(lines, []);
    assert.equal(code, 1);
    assert.match(errors, /Error: of nobody/);
    await withProgram(CRASHES, async (program) => {
      await program.hello();
      program.job('wait');
      await program.next();
      await program.signal(signal);
      const [guilty, bye] = (await program.end()).lines;
      assert.match(guilty.error, /^Error: of nobody\n[^]*the program ended\)$/);
      assert.deepEqual([guilty.outcome, guilty.crash, bye], ['retry', true, { type: 'bye' }]);
    });
  }
});

test('what has failed before a crash has its own error, and what has not begun goes back', async () => {
  await withProgram(CRASHES, async (program) => {
    await program.hello(3);
    for (const type of ['wait', 'hang', 'throw']) program.job(type);
    const { lines } = await program.end();
    const told = lines.filter(({ type }) => type === 'result');
    assert.deepEqual(told.map(({ ref, outcome, crash }) => [ref, outcome, crash]), [['2', 'retry', undefined], ['3', 'retry', true]]);
  });
});

test('a once step whose handler did not throw the error itself is unknown', async () => {
  await withProgram(CRASHES, async (program) => {
    await program.hello(1);
    const once = { step: 'charge', step_kind: 'once' };
    for (const type of ['reject', 'throw']) {
      const { outcome, unknown, error } = await program.ask(type, null, once);
      assert.deepEqual([outcome, unknown], ['retry', true], type);
      assert.match(error, /^Error: nobody caught this\n[^]*, and nobody (handled|caught) it/);
    }
  });
});

test('a program with its own listener decides about rejections that belong to no job', async () => {
  const code = `process.on('unhandledRejection', (error) => console.error('own listener: ' + error.message)); ${CRASHES}`;
  await withProgram(code, async (program) => {
    await program.hello(2);
    await program.signal('SIGURG');
    await program.until('the listener', () => program.errors.includes('own listener: of nobody'));
    assert.match((await program.ask('reject')).error, /^Error: nobody caught this/);
  });
});

const RULES = `const worker = new Worker();
  class Busy extends RangeError {}
  class Declined extends TypeError {}
  class Named extends Error { constructor(message) { super(message); this.name = 'NamedError'; } }
  const refused = () => Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
  class Hidden extends Error { get code() { throw new Error('no code'); } }
  const long = { ['L'.repeat(300)]: class extends Named {} }['L'.repeat(300)];
  worker.errors([[RangeError, 'fatal'], [TypeError, 'retry']]).errors(new Map([[Declined, 'drop'], [Busy, '2.5s'], ['ECONNREFUSED', 'fatal'], ['NotFound', 1000], ['ETIMEDOUT', 'unknown']]));
  const thrown = {
    fatal: () => new RangeError('no room'),
    retry: () => new TypeError('later'),
    drop: () => new Declined('gone'),
    busy: () => new Busy('soon'),
    code: () => Object.assign(new TypeError('refused'), { code: 'ECONNREFUSED' }),
    fetch: () => new TypeError('fetch failed', { cause: refused() }),
    both: () => new TypeError('fetch failed', { cause: new AggregateError([refused(), refused()]) }),
    deep: () => new Error('no', { cause: Object.assign(new Error('slow'), { code: 'UND_ERR_CONNECT_TIMEOUT' }) }),
    circle: () => { const error = new SyntaxError('round'); error.cause = error; return error; },
    name: () => Object.assign(new Error('lost'), { name: 'NotFound' }),
    lost: () => Object.assign(new Error('slow'), { code: 'ETIMEDOUT' }),
    open: () => new SyntaxError('who knows'),
    named: () => Object.assign(new Named('x'), { code: 'ER_DUP_ENTRY' }),
    dom: () => new DOMException('no', 'AbortError'),
    hidden: () => new Hidden('x'),
    long: () => new long('\\0'.repeat(3000)),
    foreign: () => { try { require('node:vm').runInNewContext('null.x'); } catch (error) { return error; } },
    text: () => 'just text',
    outcome: () => new Retry(new RangeError('own words')),
  };
  worker.on('throw', (job) => { throw thrown[job.payload](); });
  worker.on('wait', (job) => new Promise((_, no) => { job.log('waiting'); job.signal.addEventListener('abort', () => no(new RangeError('because of that'))); setTimeout(() => {}, 60_000).unref(); }));
  worker.run();`;

test('the nearest class, name or code of an error decides what follows', async () => {
  await withProgram(RULES, async (program) => {
    await program.hello();
    for (const [name, outcome, delay, text] of [
      ['fatal', 'fatal', undefined, 'RangeError: no room'],
      ['retry', 'retry', undefined, 'TypeError: later'],
      ['busy', 'retry', 2500, 'Busy: soon'],
      ['code', 'fatal', undefined, 'TypeError: refused'],
      ['fetch', 'fatal', undefined, 'TypeError: fetch failed'],
      ['both', 'fatal', undefined, 'TypeError: fetch failed'],
      ['name', 'retry', 1000, 'NotFound: lost'],
      ['foreign', 'retry', undefined, 'TypeError: Cannot read'],
    ]) {
      const answer = await program.ask('throw', name);
      assert.equal(answer.outcome, outcome, name);
      assert.equal(answer.delay_ms, delay, name);
      assert.ok(answer.error.startsWith(text), answer.error);
      if (name !== 'foreign') assert.equal(answer.classes, undefined, name);
    }
    assert.deepEqual(await program.ask('throw', 'drop'), { outcome: 'drop', reason: 'Declined: gone' });
    // The class does not say how far the handler came.
    const once = await program.ask('throw', 'drop', { step: 'charge', step_kind: 'once' });
    assert.deepEqual([once.outcome, once.classes], ['retry', undefined]);
    assert.match(once.error, /^Declined: gone/);
    const { error, ...lost } = await program.ask('throw', 'lost');
    assert.deepEqual(lost, { outcome: 'retry', unknown: true });
    assert.match(error, /^Error: slow \(ETIMEDOUT\)\n/);
  });
});

test('an error without a rule has its code, names and classes for the configuration', async () => {
  await withProgram(RULES, async (program) => {
    await program.hello(1);
    for (const [name, classes] of [
      ['open', ['SyntaxError', 'Error']],
      ['deep', ['UND_ERR_CONNECT_TIMEOUT', 'Error']],
      ['circle', ['SyntaxError', 'Error']],
      ['named', ['ER_DUP_ENTRY', 'NamedError', 'Named', 'Error']],
      ['dom', ['AbortError', 'DOMException', 'Error']],
      ['long', ['NamedError', 'Named', 'Error']],
      ['foreign', ['TypeError', 'Error']],
      ['hidden', undefined],
      ['text', undefined],
      ['outcome', undefined],
    ]) {
      const answer = await program.ask('throw', name);
      assert.deepEqual([answer.outcome, answer.classes], ['retry', classes], name);
    }
    const ref = program.job('wait');
    await program.next();
    program.send({ type: 'cancel', ref, reason: 'timeout' });
    const answer = await program.result(ref);
    assert.deepEqual([answer.outcome, answer.classes], ['retry', undefined]);
  });
  await withProgram(RULES, async (program) => {
    await program.hello(1, { max_line: 1024 });
    const answer = await program.ask('throw', 'long');
    assert.ok(Buffer.byteLength(JSON.stringify(answer)) <= 1000);
    assert.equal((await program.ask('throw', 'open')).classes[0], 'SyntaxError');
  });
});

test('an object has rules by names and codes', async () => {
  const code = `const worker = new Worker().errors({ RangeError: 'fatal', E_GONE: 'drop' });
    worker.on('throw', (job) => { throw job.payload ? new RangeError('x') : Object.assign(new Error('y'), { code: 'E_GONE' }); });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    assert.equal((await program.ask('throw', true)).outcome, 'fatal');
    assert.equal((await program.ask('throw', false)).outcome, 'drop');
  });
});

test('rules that cannot be meant are refused with their class', () => {
  const { Fatal, Worker } = require('..');
  for (const rules of ['fatal', undefined, null, 7, RangeError]) {
    assert.throws(() => new Worker().errors(rules), /errors takes an array of \[class, rule\], a Map, or an object/);
  }
  assert.throws(() => new Worker().errors({ RangeError: 'fatale' }), /the rule of RangeError must be/);
  for (const [kind, rule, text] of [
    [RangeError, 'fatale', /the rule of RangeError must be 'fatal', 'retry', 'unknown', 'drop', a number of milliseconds, .*not 'fatale'/],
    [RangeError, -1, /the rule of RangeError .*not -1/],
    [RangeError, Infinity, /not Infinity/],
    [RangeError, undefined, /not undefined/],
    [Map, 'fatal', /\[class Map\].* is neither a class of errors|\[Function: Map\] is neither a class of errors/],
    ['', 'fatal', /is neither a class of errors/],
    [Fatal, 'retry', /Fatal is an outcome/],
  ]) {
    assert.throws(() => new Worker().errors([[Error, 'retry'], [kind, rule]]), text);
  }
});

const LISTENERS = `const worker = new Worker(); let told = [];
  for (const event of ['before', 'after', 'retry', 'failed']) {
    worker.events.on(event, (job, outcome) => { told.push([event, job.payload, outcome?.constructor.name ?? null, outcome?.cause?.message ?? null]); });
  }
  worker.events.prependListener('before', () => { throw new RangeError('not before'); });
  worker.events.once('after', async () => { throw new Error('not after'); });
  const outcomes = { done: () => 1, snooze: () => snooze(1000), drop: () => drop('gone'), retry: () => retry('later'), unknown: () => unknown('perhaps'), fatal: () => fatal('never'), unsendable: () => NaN };
  worker.on('return', (job) => { if (job.payload === 'throw') throw new Error('no'); return outcomes[job.payload](); });
  worker.on('told', (job) => told.slice(0, -1));
  worker.on('wait', (job) => new Promise((_, no) => { job.log('waiting'); job.signal.addEventListener('abort', () => no(job.signal.reason)); setTimeout(() => {}, 60_000).unref(); }));
  worker.on('reject', () => { void Promise.reject(new Error('lost')); return new Promise(() => {}); });
  worker.run();`;

test('each attempt has one event before and one after, whatever listeners do', async () => {
  await withProgram(LISTENERS, async (program) => {
    await program.hello();
    const last = async () => (await program.ask('told')).result.slice(-2);
    for (const [payload, attempt, event, outcome] of [
      ['done', 1, 'after', 'Done'],
      ['snooze', 1, 'after', 'Snooze'],
      ['drop', 5, 'after', 'Drop'],
      ['retry', 4, 'retry', 'Retry'],
      ['retry', 5, 'failed', 'Retry'],
      ['throw', 1, 'retry', 'Retry'],
      ['fatal', 1, 'failed', 'Fatal'],
      ['unsendable', 1, 'failed', 'Fatal'],
    ]) {
      await program.ask('return', payload, { attempt });
      const cause = payload === 'throw' ? 'no' : null;
      assert.deepEqual(await last(), [['before', payload, null, null], [event, payload, outcome, cause]]);
    }
    for (const [payload, kind, event] of [['retry', 'once', 'failed'], ['unknown', 'once', 'failed'], ['retry', 'auto', 'retry'], ['unknown', 'auto', 'retry']]) {
      await program.ask('return', payload, { step: 'charge', step_kind: kind });
      assert.equal((await last())[1][0], event, `${payload} ${kind}`);
    }
    for (const [reason, event] of [['shutdown', 'after'], ['cancelled', 'after'], ['lost', 'after'], ['timeout', 'failed']]) {
      const ref = program.job('wait', reason, { attempt: 5 });
      await program.next();
      program.send({ type: 'cancel', ref, reason });
      await program.result(ref);
      assert.equal((await last())[1][0], event, reason);
    }
    await program.ask('reject', 'x');
    assert.deepEqual(await last(), [['before', 'x', null, null], ['retry', 'x', 'Retry', 'lost']]);
    await program.until('the first report', () => program.errors.includes("a listener of 'before' failed for the job job-1: RangeError: not before\n"));
    await program.until('the second report', () => program.errors.includes("a listener of 'after' failed for the job job-1: Error: not after\n"));
  });
});

test('what listeners print and log comes before the answer of their job', async () => {
  const code = `const worker = new Worker();
    worker.events.on('failed', (job, outcome) => {
      console.error(job.id + ' is dead: ' + outcome.message);
      job.log('told');
      if (job.payload === 'exit') process.exit(4);
    });
    worker.on('a', () => new Fatal('declined'));
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    const ref = program.job('a');
    const log = await program.next();
    assert.deepEqual([log.type, log.ref, log.message], ['log', ref, 'told']);
    assert.deepEqual(await program.result(ref), { outcome: 'fatal', error: 'declined' });
    await program.until('the text', () => program.errors.includes('job-1 is dead: declined\n'));
    const last = program.job('a', 'exit');
    const { lines, code: status } = await program.end();
    assert.equal(status, 4);
    assert.deepEqual(lines.slice(1).map((line) => [line.ref, line.outcome ?? line.type]), [[last, 'fatal'], [undefined, 'bye']]);
  });
});

test('the answer waits for listeners that are async, unless the job is cut short', async () => {
  const code = `const worker = new Worker();
    worker.events.on('after', async (job) => {
      await new Promise((go) => setTimeout(go, 1));
      job.log('told');
      if (job.payload === 'hang') await new Promise((go) => setTimeout(go, 600_000));
    });
    worker.on('a', () => 7);
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    for (const payload of ['return', 'hang']) {
      const ref = program.job('a', payload);
      const log = await program.next();
      assert.deepEqual([log.type, log.ref, log.message], ['log', ref, 'told']);
      if (payload === 'hang') program.send({ type: 'cancel', ref, reason: 'timeout' });
      assert.deepEqual(await program.result(ref), { outcome: 'done', result: 7 });
    }
  });
});

test('an event that does not exist is refused', async () => {
  const { Worker } = require('..');
  const worker = new Worker().on('a', () => 1);
  worker.events.on('fail', () => 1);
  await assert.rejects(worker.run(), /there is no event 'fail': use before, after, retry or failed/);
});

test('a step has the results of the steps before it', async () => {
  await withProgram("new Worker().on('a', (job) => [job.results.charge.receipt, job.results.scan[0]]).run()", async (program) => {
    await program.hello();
    const results = { charge: { receipt: 7 }, scan: { encoding: 'base64', data: '/w==' } };
    assert.deepEqual((await program.ask('a', null, { step: 'mail', results })).result, [7, 255]);
  });
});

test('a handler that exits fails its own job, and is said so', async () => {
  for (const sockets of [false, true]) {
    await withProgram("new Worker().on('a', () => process.exit(3)).run()", { sockets }, async (program) => {
      await program.hello();
      const ref = program.job('a');
      const { lines, code } = await program.end();
      assert.equal(code, 3);
      assert.equal(lines[0].ref, ref);
      assert.equal(lines[0].outcome, 'retry');
      assert.match(lines[0].error, /process\.exit\(3\)/);
      assert.deepEqual(lines.slice(1), [{ type: 'bye' }]);
    });
  }
});

test('while the worker does not read, no job begins, and log lines are counted instead of kept', async () => {
  const code = `const worker = new Worker();
    worker.on('large', () => { process.stderr.write('begun\\n'); return 'x'.repeat(4 * 1024 * 1024); });
    worker.on('chatty', async (job) => {
      for (let n = 0; n < 5000; n += 1) job.log('y'.repeat(1000));
      process.stderr.write('chatted\\n');
      await job.log('after');
      return 'logged';
    });
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello(41);
    program.pause();
    program.job('large');
    await program.until('the first job', () => program.errors.includes('begun'));
    for (let n = 0; n < 20; n += 1) program.job('large');
    // The program complains about these lines. When it has read the second one, it has done what it does with the jobs.
    for (const count of [1, 2]) {
      program.raw('no JSON\n');
      await program.until('the line', () => program.errors.split('is not JSON').length > count);
    }
    assert.equal(program.errors.split('begun').length, 2, 'jobs began although nobody read');
    program.read();
    for (let n = 0; n < 21; n += 1) assert.equal((await program.result()).result.length, 4 * 1024 * 1024);
    program.pause();
    const ref = program.job('chatty');
    await program.until('the log', () => program.errors.includes('chatted'));
    program.read();
    let [lines, lost] = [0, 0];
    for (;;) {
      const line = await program.next();
      if (line.type === 'result') {
        assert.equal(line.ref, ref);
        break;
      }
      lines += 1;
      lost += Number(/^([0-9]+) log lines were left out/.exec(line.message)?.[1] ?? 0);
    }
    assert.ok(lost > 0, 'no line was left out');
    assert.ok(lines + lost >= 5000, `${lines} lines, ${lost} lost`);
  });
});

test('after its own number of jobs, the program says bye and leaves the rest to others', async () => {
  const code = `const worker = new Worker();
    worker.on('a', async (job) => { job.log('begun'); await new Promise((go) => process.once('SIGUSR2', go)); });
    worker.run({ maxJobs: 2 });`;
  await withProgram(code, async (program) => {
    await program.hello(3);
    for (let n = 0; n < 3; n += 1) program.job('a');
    await program.next();
    await program.next();
    assert.equal((await program.result('3')).outcome, 'snooze');
    await program.signal('SIGUSR2');
    const { lines, code: exit } = await program.end();
    assert.deepEqual(lines.map(({ ref, type }) => ref ?? type), ['1', '2', 'bye']);
    assert.equal(exit, 0);
  });
  await withProgram("new Worker().on('a', () => 1).run({ maxJobs: 1 })", async (program) => {
    await program.hello();
    program.raw(program.line('a').line + program.line('a').line);
    const { lines } = await program.end();
    assert.deepEqual(lines.map(({ ref, type }) => ref ?? type), ['1', 'bye']);
  });
});

test('lines and characters may be spread over chunks', async () => {
  await withProgram("new Worker().on('a', (job) => job.payload).run()", async (program) => {
    await program.hello(50);
    const text = `"\\ é 漢 😀 ${'ü'.repeat(200_000)}`;
    const first = program.line('a', 'first');
    const second = Buffer.from(program.line('a', text).line);
    // The answer to the line before shows that the chunk was read up to its end.
    for (const at of [1, second.indexOf(Buffer.from('漢')) + 1, second.indexOf(Buffer.from('😀')) + 2, second.length - 1]) {
      const { ref, line } = program.line('a', 'before');
      const own = Buffer.from(second.toString().replace(/"ref":"[0-9]+"/, `"ref":"${ref}0000"`));
      const shift = at + (own.length - second.length) * (at > 30 ? 1 : 0);
      program.raw(Buffer.concat([Buffer.from(line), own.subarray(0, shift)]));
      assert.equal((await program.result(ref)).result, 'before');
      program.raw(own.subarray(shift));
      assert.equal((await program.result(`${ref}0000`)).result, text);
    }
    program.raw(`\n${first.line}`);
    assert.equal((await program.result(first.ref)).result, 'first');
  });
});

test('unknown messages are ignored, unknown types retried, and unreadable lines told', async () => {
  await withProgram("new Worker().on('b', () => 1).on('a', () => 2).run()", async (program) => {
    await program.hello(5);
    program.send({ type: 'of a later version', ref: '1' });
    program.raw('[]\nnull\n');
    const want = { outcome: 'retry', error: 'this program has no handler for c; it serves a, b' };
    assert.deepEqual(await program.ask('c'), want);
    program.raw('{"type":"job","ref":"77","payload":nonsense}\n');
    assert.match((await program.result('77')).error, /^Node cannot read the job/);
    assert.deepEqual(await program.ask('a'), { outcome: 'done', result: 2 });
  });
});

test('middleware runs from the outside to the inside, and may answer itself', async () => {
  const code = `const worker = new Worker();
    worker.use(async (job, next) => ['outer', await next()]);
    worker.use((job, next) => (job.payload === 'stop' ? drop('stopped') : next()));
    worker.use(async (job, next) => { try { return await next(); } catch (error) { throw fatal(error.message); } });
    worker.on('a', (job) => { if (job.payload === 'fail') throw new Error('bad'); return 'handler'; });
    worker.on('plain', () => new Drop('returned'));
    worker.run();`;
  await withProgram(code, async (program) => {
    await program.hello();
    assert.deepEqual(await program.ask('a'), { outcome: 'done', result: ['outer', 'handler'] });
    assert.deepEqual(await program.ask('a', 'fail'), { outcome: 'fatal', error: 'bad' });
  });
});

test('a job has what its line says', async () => {
  const code = `new Worker().on('a', (job) => ({ ...job, remaining: job.remaining > 1000 && job.remaining <= 30_000, message: undefined })).run()`;
  await withProgram(code, async (program) => {
    await program.hello();
    const more = { headers: { tenant: '9' }, attempt: 2, step: 'charge', fence: '1-0', traceparent: '00-x', timeout_ms: 30_000 };
    const { result } = await program.ask('a', { a: 1 }, more);
    assert.deepEqual(result, {
      type: 'a', payload: { a: 1 }, id: 'job-1', queue: 'default', attempt: 2, maxAttempts: 5, createdMs: 1_700_000_000_000,
      headers: { tenant: '9' }, encoding: 'json', ref: '1', results: {}, step: 'charge', fence: '1-0', traceparent: '00-x', remaining: true,
    });
  });
});

test('a handler can be tested without a worker', async () => {
  const handler = async (job) => {
    job.progress(50, 'half');
    await job.log('hello', 'info', { a: 1 });
    return job.signal.aborted ? new Drop(job.cancelled) : new Snooze('1s');
  };
  assert.equal((await handler(new Job('a', { b: 1 }))).delayMs, 1000);
  const job = new Job('a', null, { timeout: 50, headers: { tenant: '9' } });
  job.cancel('lost');
  assert.equal((await handler(job)).message, 'lost');
  assert.ok(job.remaining <= 50);
});

test('the package can be imported as a module, with every name', async () => {
  const [cjs, mjs] = [require('..'), await import('../index.mjs')];
  assert.deepEqual(Object.keys(mjs).sort(), [...Object.keys(cjs), 'default'].sort());
  for (const name of Object.keys(cjs)) assert.equal(mjs[name], cjs[name]);
  const code = `import { Worker } from ${JSON.stringify(`${SDK}/index.mjs`)}; console.log('stray'); new Worker().on('a', () => 1).run()`;
  const program = new Program('', { args: ['--input-type=module', '-e', code] });
  try {
    await program.hello();
    assert.deepEqual(await program.ask('a'), { outcome: 'done', result: 1 });
  } finally {
    program.kill();
  }
});

test('wrong uses are refused', () => {
  const { Worker, Retry } = require('..');
  const worker = new Worker();
  assert.throws(() => worker.on('Mail', () => 1), /does not match/);
  assert.throws(() => worker.on('a', 'b'), /must be a function/);
  assert.throws(() => worker.on('a', () => 1).on('a', () => 1), /two handlers/);
  assert.throws(() => worker.use(1), /middleware/);
  for (const delay of [-1, NaN, Infinity, '5 s', '5', true, {}]) {
    assert.throws(() => new Snooze(delay), /delay must be a number of milliseconds/);
    assert.throws(() => new Retry('x', { delay }), /delay must be a number of milliseconds/);
  }
  return Promise.all([
    assert.rejects(new Worker().run(), /no handler/),
    assert.rejects(worker.run({ inflight: 0 }), /at least 1/),
    assert.rejects(worker.run({ maxJobs: 1.5 }), /at least 1/),
  ]);
});

test('what is given as something else than it is meant to be is refused', () => {
  for (const options of [1000, '10m', null, { after: 1000 }]) {
    assert.throws(() => new Retry('soon', options), { name: 'TypeError', message: /the options of Retry must be an object such as \{ delay: '30s' \}, not / });
  }
  assert.equal(new Retry('soon', { delay: undefined }).delayMs, undefined);
  for (const percent of ['50%', '50', true, {}]) {
    assert.throws(() => new Job('a').progress(percent), { name: 'TypeError', message: /the percent of progress must be a number/ });
  }
  new Job('a').progress(undefined, 'half');
});
