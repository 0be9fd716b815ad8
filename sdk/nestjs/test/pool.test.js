'use strict';

// The program of a pool, with a worker that is played: the container, scopes, the logger, shutdown hooks, and what errors become.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { Program } = require('../../node/test/program.js');

const MODULES = process.env.STREAMFLEET_NEST_MODULES;
const skip = MODULES === undefined && 'check.sh installs the packages';

const APP = `
  require('reflect-metadata');
  const { Inject, Injectable, Logger, Module, Scope } = require('@nestjs/common');
  const { ContextIdFactory, REQUEST } = require('@nestjs/core');
  const nest = require('@streamfleet/nestjs');
  const logger = new Logger('Shop');
  let made = 0;

  class Thrower extends nest.WorkerHost {
    constructor() { super(); made += 1; }
    async process(job) {
      logger.log('at work');
      if (job.name === 'made') return made;
      if (job.name === 'facts') return { data: job.data, opts: job.opts, queue: job.queueName, made: job.attemptsMade, started: job.attemptsStarted, fence: job.streamfleet.fence, at: job.timestamp };
      if (job.name === 'rate') { await this.worker.rateLimit(700); throw new nest.RateLimitError(); }
      if (job.name === 'delay') { await job.moveToDelayed(Date.now() + 60_000); throw new nest.DelayedError(); }
      if (job.name === 'never') throw new nest.UnrecoverableError('never');
      throw new RangeError('busy');
    }
    failed(job, error) { logger.error('it failed', error.stack); }
  }
  nest.Processor('Thrower', { concurrency: 3, settings: { backoffStrategy: (made, type) => (type === 'stop' ? -1 : made * 10) } })(Thrower);
  nest.OnWorkerEvent('failed')(Thrower.prototype, 'failed', {});

  class Scoped extends nest.WorkerHost {
    constructor(job) { super(); this.job = job; }
    async process(job) { return { same: this.job === job, id: this.job.id }; }
  }
  Inject(REQUEST)(Scoped, undefined, 0);
  nest.Processor({ name: 'scoped', scope: Scope.REQUEST })(Scoped);

  class AppModule {
    onApplicationShutdown() { process.stderr.write('shut down\\n'); }
  }
  Module({ providers: [Thrower, Scoped] })(AppModule);
  module.exports = { AppModule, configurePool: (app) => process.stderr.write('configured ' + typeof app.get + '\\n') };
`;

async function withProgram(run, env = {}) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-nest-'));
  fs.symlinkSync(path.join(MODULES, 'node_modules'), path.join(folder, 'node_modules'));
  fs.writeFileSync(path.join(folder, 'app.js'), APP);
  const program = new Program('', { args: [path.join(MODULES, 'node_modules', '@streamfleet', 'nestjs', 'bin.js'), 'app.js'], cwd: folder, env });
  try {
    await run(program);
  } finally {
    program.kill();
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

test('processors of a container take jobs, and its hooks run at the end', { skip, timeout: 60_000 }, async () => {
  await withProgram(async (program) => {
    assert.deepEqual((await program.hello(10)).types, ['scoped', 'thrower']);
    await program.until('the configuration', () => program.errors.includes('configured function'));
    const ask = (name, more = {}, opts) => program.ask('thrower', { n: 1 }, { ...more, headers: { name, ...(opts && { opts: JSON.stringify(opts) }) } });
    for (let time = 0; time < 2; time += 1) assert.equal((await ask('made')).result, 1);
    assert.deepEqual((await ask('facts', { attempt: 2, fence: '7-0' }, { attempts: 3, backoff: 5 })).result, {
      data: { n: 1 }, opts: { attempts: 3, backoff: 5 }, queue: 'Thrower', made: 1, started: 2, fence: '7-0', at: 1_700_000_000_000,
    });
    assert.equal((await ask('never')).outcome, 'fatal');
    assert.equal((await ask('rate')).delay_ms, 700);
    const delayed = await ask('delay');
    assert.ok(delayed.outcome === 'snooze' && delayed.delay_ms > 50_000, JSON.stringify(delayed));
    for (const [opts, attempt, want] of [
      [undefined, 2, undefined],
      [{ backoff: 20 }, 2, 20],
      [{ backoff: { type: 'fixed', delay: 30 } }, 2, 30],
      [{ backoff: { type: 'exponential', delay: 100 } }, 3, 400],
      [{ backoff: { type: 'own' } }, 3, 30],
      [{ backoff: 20 }, 5, undefined],
    ]) {
      const { outcome, delay_ms: delay, error } = await ask('busy', { attempt }, opts);
      assert.deepEqual([outcome, delay], ['retry', want], JSON.stringify(opts));
      assert.match(error, /^RangeError: busy/);
    }
    const jittered = await ask('busy', { attempt: 1 }, { backoff: { type: 'fixed', delay: 100, jitter: 0.5 } });
    assert.ok(jittered.delay_ms >= 50 && jittered.delay_ms <= 100);
    assert.equal((await ask('busy', { attempt: 1 }, { backoff: { type: 'stop' } })).outcome, 'fatal');

    const { ref } = program.line('thrower');
    const scoped = await program.ask('scoped', 1);
    assert.deepEqual(scoped.result, { same: true, id: `job-${Number(ref) + 1}` });
    program.close();
    const { code } = await program.end();
    assert.equal(code, 0);
    assert.match(program.errors, /shut down/);
  });
});

test('what is logged for a job is in its record', { skip, timeout: 60_000 }, async () => {
  await withProgram(async (program) => {
    await program.hello(10);
    const ref = program.job('thrower', 1, { headers: { name: 'busy' } });
    const lines = [];
    do lines.push(await program.next()); while (lines.at(-1).type !== 'result');
    const logs = lines.filter(({ type }) => type === 'log');
    assert.deepEqual(logs.map(({ ref: of, level, message, fields }) => [of, level, message.split('\n')[0], fields.context]), [[ref, 'info', 'at work', 'Shop'], [ref, 'error', 'it failed', 'Shop']]);
    assert.match(logs[1].message, /RangeError: busy/);
    assert.match(program.errors, /NestFactory/);
  });
});

test('a program says its types', { skip, timeout: 60_000 }, async () => {
  await withProgram(
    async (program) => {
      const { lines, code } = await program.end();
      const rest = { backoff: { fixed: '1ms' }, jitter: 0 };
      assert.deepEqual([lines, code], [[{ type: 'handlers', protocol: 1, types: { thrower: { concurrency: 3, ...rest }, scoped: { concurrency: 1, ...rest } } }], 0]);
    },
    { STREAMFLEET_DESCRIBE: '1' },
  );
});
