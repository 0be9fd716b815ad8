'use strict';

// What BullMQ's options become, and what a module and a program of a pool do with them, without any server.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { createRequire } = require('node:module');
const { describe, test } = require('node:test');

const MODULES = process.env.STREAMFLEET_NEST_MODULES;
const skip = MODULES === undefined && 'check.sh installs the packages';
const load = skip ? undefined : createRequire(path.join(MODULES, 'package.json'));

describe('the package', { skip }, () => {
  const { FakeProducer, InvalidSubmission, Worker } = load?.('streamfleet') ?? {};
  const nest = load?.('@streamfleet/nestjs') ?? {};

  test('each option of a job is translated, or refused with a remedy', async () => {
    const queue = new nest.FakeQueue('Audio Files', { queue: 'media', defaultJobOptions: { attempts: 2 } });
    assert.equal(queue.type, 'audio-files');
    const added = async (opts) => {
      await queue.add('transcode', { file: 7 }, opts);
      return queue.fake.jobs.at(-1);
    };
    const plain = await added({});
    assert.deepEqual([plain.type, plain.queue, plain.payload, plain.headers, plain.lane, plain.options.maxAttempts, plain.options.tracking], ['audio-files', 'media', { file: 7 }, { name: 'transcode', opts: '{"attempts":2}' }, 'normal', 2, 'all']);
    assert.equal((await added({ attempts: 0 })).options.maxAttempts, 1);
    assert.equal((await added({ delay: 500 })).options.delay, 500);
    assert.equal((await added({ delay: 0 })).options.delay, undefined);
    assert.deepEqual([(await added({ lifo: true })).lane, (await added({ priority: 3 })).lane, (await added({ priority: 0 })).lane], ['high', 'low', 'normal']);
    assert.equal((await added({ removeOnComplete: true })).options.tracking, undefined);
    assert.deepEqual(JSON.parse((await added({ backoff: { type: 'exponential', delay: 20 } })).headers.opts), { attempts: 2, backoff: { type: 'exponential', delay: 20 } });
    assert.equal((await added({ jobId: 7 })).id, '7');
    assert.deepEqual((({ unique, uniqueScope, uniqueMode }) => [unique, uniqueScope, uniqueMode])((await added({ deduplication: { id: 'k', ttl: 1500 } })).options), ['k', 1500, undefined]);
    assert.equal((await added({ deduplication: { id: 'l', extend: true, replace: true } })).options.uniqueMode, 'debounce');
    for (const [opts, why] of [[{ repeat: { every: 1 } }, /\[cron\]/], [{ parent: {} }, /chains and batches/], [{ deduplication: { id: 'k', keepLastIfActive: true } }, /keepLastIfActive/]]) {
      await assert.rejects(queue.add('a', 1, opts), (error) => error instanceof InvalidSubmission && why.test(error.message));
    }
    await assert.rejects(queue.add('', 1), /a job needs a name/);
    await assert.rejects(queue.pause(), /has no pause\(\): see `streamfleet pause`/);
    assert.throws(() => new nest.Queue('a', {}), /needs a connection or http/);
    assert.throws(() => new nest.FakeQueue('漢'), /makes no type/);
  });

  test('a jobId needs a door that accepts it once', async () => {
    const producer = new FakeProducer();
    const plain = new nest.Queue('a', { producer });
    await assert.rejects(plain.add('x', 1, { jobId: '7' }), /a plain XADD cannot accept a jobId once: give StreamfleetModule.forRoot http or cli/);
    const once = new nest.FakeQueue('a').fake;
    const both = new nest.Queue('a', { producer, once });
    const jobs = await both.addBulk([{ name: 'x', data: 1 }, { name: 'x', data: 2, opts: { jobId: 'own' } }, { name: 'x', data: 3 }]);
    assert.deepEqual(jobs.map(({ id }) => id), [producer.jobs[0].id, 'own', producer.jobs[1].id]);
    assert.deepEqual([producer.jobs.length, once.jobs.length], [2, 1]);
    // Commands have no way to submit many.
    const cli = { enqueue: async (type, payload, { id }) => ({ id, type, payload }) };
    assert.deepEqual((await new nest.Queue('a', { once: cli }).addBulk([{ name: 'x', data: 1, opts: { jobId: '8' } }])).map(({ id }) => id), ['8']);
    await assert.rejects(new nest.Queue('a', { once: cli }).getJob('8'), /give StreamfleetModule.forRoot a connection or http/);
  });

  test('a job can be looked up and waited for', async () => {
    const worker = new Worker().on('a', (job) => job.payload + 1);
    const queue = new nest.Queue('a', { producer: new FakeProducer({ worker }) });
    const job = await queue.add('x', 1);
    assert.deepEqual([await job.getState(), await job.isCompleted(), await job.isFailed(), await job.waitUntilFinished(undefined, 1000)], ['completed', true, false, 2]);
    assert.equal((await queue.getJob(job.id)).returnvalue, 2);
    assert.equal(await queue.getJob('nobody'), undefined);
    assert.deepEqual(JSON.parse(JSON.stringify(job)).data, 1);
  });

  test('a module provides its queues, and their options may come later', async () => {
    load('reflect-metadata');
    const { NestFactory } = load('@nestjs/core');
    const { Module } = load('@nestjs/common');
    const sent = [];
    const client = async (args) => sent.push(args) && '1-0';
    class Config {
      createSharedConfiguration() {
        return { connection: client, queue: 'media', defaultJobOptions: { attempts: 4 } };
      }
    }
    const modules = [
      nest.StreamfleetModule.forRootAsync({ useClass: Config }),
      nest.StreamfleetModule.forRoot('other', { connection: client, namespace: 'own' }),
      nest.StreamfleetModule.registerQueue({ name: 'audio' }, { name: 'video', configKey: 'other' }),
      nest.BullModule.registerQueueAsync({ name: 'text', useFactory: async () => ({ queue: 'texts', defaultJobOptions: { attempts: 5 } }) }),
    ];
    class AppModule {}
    Module({ imports: modules })(AppModule);
    const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
    for (const name of ['audio', 'video', 'text']) await app.get(nest.getQueueToken(name)).add('x', 1);
    assert.deepEqual(sent.map((args) => args[1]), ['sf:{media}:jobs', 'own:{default}:jobs', 'sf:{texts}:jobs']);
    assert.deepEqual(sent.map((args) => args[args.indexOf('max_attempts') + 1]), ['4', '1', '5']);
    await app.close();
  });

  test('types are checked', () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-nest-'));
    try {
      fs.symlinkSync(path.join(MODULES, 'node_modules'), path.join(folder, 'node_modules'));
      fs.copyFileSync(path.join(__dirname, 'sample.ts'), path.join(folder, 'sample.ts'));
      const options = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--experimentalDecorators', '--emitDecoratorMetadata', '--skipLibCheck'];
      const { stdout, status } = spawnSync(path.join(folder, 'node_modules', '.bin', 'tsc'), [...options, 'sample.ts'], { cwd: folder });
      assert.deepEqual([stdout.toString(), status], ['', 0]);
    } finally {
      fs.rmSync(folder, { recursive: true, force: true });
    }
  });

  test('decorators refuse what does not exist', () => {
    assert.throws(() => nest.OnWorkerEvent('complete'), /a worker has no event 'complete'/);
    nest.OnWorkerEvent('stalled');
  });
});
