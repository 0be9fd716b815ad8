'use strict';

// Producers for tests of applications: what they note, what they refuse, and what becomes of jobs that they run.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { Drop, FakeHttp, FakeProducer, Fatal, InvalidSubmission, Retry, Snooze, Worker } = require('..');

test('jobs are noted as their handlers would get them', async () => {
  const fake = new FakeProducer({ queue: 'mail' });
  const id = await fake.enqueue('mail.send', { to: 'ann', at: new Date(0), n: 2n ** 60n, left: undefined }, { priority: 9, headers: { tenant: 9 } });
  await fake.enqueueMany([{ type: 'blob', payload: Buffer.of(1), queue: 'blobs' }, { type: 'later', delay: '1m', id: 'own' }]);
  const [mail, blob, later] = fake.jobs;
  assert.deepEqual([mail.id, mail.queue, mail.lane, mail.headers, mail.state], [id, 'mail', 'high', { tenant: '9' }, 'waiting']);
  assert.deepEqual(mail.payload, { to: 'ann', at: '1970-01-01T00:00:00.000Z', n: 2n ** 60n });
  assert.deepEqual([blob.payload, blob.queue, later.id, later.state, later.payload], [Buffer.of(1), 'blobs', 'own', 'scheduled', null]);
  assert.equal((await fake.status('own')).state, 'scheduled');
  await assert.rejects(fake.wait('own', { timeout: '1h' }), { name: 'NotEnded' });
  await assert.rejects(fake.wait('nobody'), { name: 'Gone' });
  fake.clear();
  fake.assertNothingEnqueued();
});

test('a fake refuses what the real producer refuses', async () => {
  for (const fake of [new FakeProducer(), new FakeHttp()]) {
    await assert.rejects(fake.enqueue('Mail'), InvalidSubmission);
    await assert.rejects(fake.enqueue('mail', 1, { attempts: 3 }), /there is no option 'attempts'; use maxAttempts/);
    await assert.rejects(fake.enqueueMany([{ type: 'a' }, { type: 'a', payload: new Map() }]), /jobs\[1\]/);
  }
  assert.throws(() => new FakeProducer({ worker: {} }), /worker must be a Worker/);
});

test('assertions say what is there', async () => {
  const fake = new FakeProducer();
  assert.throws(() => fake.assertEnqueued('mail.send'), { name: 'AssertionError', message: 'expected 1 mail.send, but there are 0; nothing was submitted' });
  await fake.enqueue('mail.send', { to: 'ann', items: [{ n: 1, name: 'tea' }] });
  await fake.enqueue('mail.send', { to: 'bob', items: [] });
  for (const expected of [{ to: 'ann' }, { items: [{ n: 1 }] }, { items: [] }, ({ to }) => to.startsWith('b'), { to: (to) => to === 'ann' }]) {
    fake.assertEnqueued('mail.send', expected);
  }
  fake.assertEnqueued('mail.send', undefined, { times: 2 });
  fake.assertNotEnqueued('mail.send', { to: 'eve' });
  fake.assertNotEnqueued('report');
  assert.equal(fake.enqueued('mail.send', { to: 'bob' })[0].payload.to, 'bob');
  const listed = "submitted were mail.send { to: 'ann', items: [ { n: 1, name: 'tea' } ] }, mail.send { to: 'bob', items: [] }";
  assert.throws(() => fake.assertEnqueued('mail.send', { to: 'eve' }), { message: `expected 1 mail.send with { to: 'eve' }, but there are 0; ${listed}` });
  assert.throws(() => fake.assertNotEnqueued('mail.send', { to: 'ann' }), /expected 0 mail.send with { to: 'ann' }, but there is 1/);
  for (const wrong of [{ items: {} }, { items: [{ n: 1 }, 2] }, null, { to: 'ANN' }]) fake.assertNotEnqueued('mail.send', wrong);
  assert.throws(() => fake.assertNothingEnqueued(), /expected no job; submitted were/);
});

test('with a worker, handlers run with middleware and rules, and the outcome is shown', async () => {
  const worker = new Worker().use((job, next) => (job.payload === 'middle' ? 'kept' : next()));
  const outcomes = { done: { a: 1 }, fatal: new Fatal('never'), retry: new Retry('busy'), snooze: new Snooze('10m'), drop: new Drop('sold out'), bytes: Buffer.of(255), unsendable: () => 1 };
  worker.errors([[RangeError, 'fatal']]);
  worker.on('ask', (job) => {
    if (job.payload === 'range') throw new RangeError('no customer');
    return outcomes[job.payload];
  });
  const fake = new FakeProducer({ worker });
  const ask = async (what) => {
    const status = await fake.status(await fake.enqueue('ask', what));
    return [status.state, status.result, status.error];
  };
  assert.deepEqual(await ask('done'), ['done', { a: 1 }, undefined]);
  assert.deepEqual(await ask('middle'), ['done', 'kept', undefined]);
  assert.deepEqual(await ask('bytes'), ['done', Buffer.of(255), undefined]);
  assert.deepEqual(await ask('fatal'), ['dead', undefined, 'never']);
  assert.deepEqual(await ask('retry'), ['dead', undefined, 'busy']);
  assert.deepEqual(await ask('snooze'), ['scheduled', undefined, undefined]);
  assert.deepEqual(await ask('drop'), ['cancelled', undefined, 'sold out']);
  assert.match((await ask('range'))[2], /^RangeError: no customer/);
  assert.match((await ask('unsendable'))[2], /result cannot be sent/);
  assert.ok(fake.jobs.find(({ payload }) => payload === 'fatal').outcome instanceof Fatal);
  await assert.rejects(fake.enqueue('other'), /no handler for other; it serves ask/);
});

test('with a worker, a job is retried, and the jobs that follow it run', async () => {
  const worker = new Worker();
  const seen = [];
  worker.on('flaky', (job) => {
    if (job.attempt < 3) throw new Error(`attempt ${job.attempt} of ${job.maxAttempts}`);
    return job.attempt;
  });
  for (const type of ['next', 'thanks', 'ask']) worker.on(type, (job) => seen.push([type, job.payload]) && (type === 'next' ? 7 : null));
  const fake = new FakeProducer({ worker });
  const id = await fake.enqueue('flaky', 1, { maxAttempts: 3, onSuccess: 'thanks', then: [{ type: 'next', payload: { n: 1 } }, { type: 'next' }] });
  assert.equal(await fake.result(id), 3);
  assert.equal(fake.jobs[0].attempts, 3);
  assert.deepEqual(seen.map(([type]) => type), ['thanks', 'next', 'next']);
  assert.deepEqual(seen[0][1], { id, type: 'flaky', state: 'done', result: 3 });
  assert.deepEqual([seen[1][1], seen[2][1].result], [{ n: 1 }, 7]);
  await fake.enqueue('flaky', 1, { maxAttempts: 2, onFailure: 'ask' });
  assert.deepEqual([seen.at(-1)[1].reason, seen.at(-1)[1].state], ['exhausted', 'dead']);
  assert.match(seen.at(-1)[1].error, /attempt 2 of 2/);

  const members = [{ type: 'ask', payload: 1 }, { type: 'ask', payload: 2 }];
  assert.deepEqual(await fake.batch('b', members, { type: 'thanks', payload: 'all' }), ['b.0', 'b.1']);
  fake.assertEnqueued('thanks', 'all');
});

test('jobs that submit each other without end are stopped', async () => {
  const worker = new Worker();
  const fake = new FakeProducer({ worker });
  worker.on('again', async () => {
    await fake.enqueue('again');
  });
  await fake.enqueue('again');
  assert.ok(fake.jobs.some(({ error }) => /do they ever end/.test(error)));
});

test('a fake of Http accepts an id once, and a unique key as long as its job lives', async () => {
  const fake = new FakeHttp();
  assert.equal((await fake.enqueue('a', 1, { id: '7', idempotentFor: '2d', durability: 'aof' })).isNew, true);
  assert.deepEqual(await fake.enqueue('a', 1, { id: '7' }), { id: '7', state: 'waiting', isNew: false, replaced: undefined, isDebounced: false });
  const { id } = await fake.enqueue('a', 1, { unique: 'k' });
  assert.equal((await fake.enqueue('a', 2, { unique: 'k' })).id, id);
  fake.assertEnqueued('a', undefined, { times: 2 });
  const inline = new FakeHttp({ worker: new Worker().on('a', () => 1) });
  assert.deepEqual([(await inline.enqueue('a', 1, { unique: 'k' })).isNew, (await inline.enqueue('a', 2, { unique: 'k' })).isNew], [true, true]);
});

test('a program says its types and their options', () => {
  const worker = new Worker()
    .on('mail.send', () => 1, { maxAttempts: 4, timeout: '30s', tracking: 'all', onFailure: 'desk.ask', concurrency: 2 })
    .on('report', () => 1, { timeout: undefined, backoff: { fixed: '1ms' }, jitter: 0 });
  assert.equal(
    worker.describe(),
    '{"type":"handlers","protocol":1,"types":{"mail.send":{"max_attempts":4,"timeout":"30000ms","tracking":"all","on_failure":"desk.ask","concurrency":2},"report":{"backoff":{"fixed":"1ms"},"jitter":0}}}\n',
  );
  for (const options of [{ attempts: 3 }, { backoff: '1s' }, { jitter: 2 }, { maxAttempts: 0 }, { timeout: 'x' }, { tracking: 'some' }, { onSuccess: 'A' }]) {
    assert.throws(() => worker.on('other', () => 1, options), TypeError);
  }
});
