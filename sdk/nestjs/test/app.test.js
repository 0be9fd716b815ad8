'use strict';

// The application of test/app on BullMQ, and on streamfleet with other imports: the results are the same, and killed workers lose nothing.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { compiled, eventually, skip, staged } = require('./stage.js');

/** What happens in the shop: 4 mails and their ends, 4 steps of orders, 9 attempts of payments, and 6 failures. */
const LINES = 27;
const sorted = (lines) => lines.map((line) => JSON.stringify(line)).sort();

test('an application does on streamfleet what it does on BullMQ', { skip, timeout: 300_000 }, async () => {
  await staged(async (stage) => {
    const bull = compiled(stage.folder, 'bullmq');
    const all = stage.start('bullmq', [process.execPath, 'dist/main.js', 'all'], bull);
    await eventually('the jobs on BullMQ', async () => stage.journal('bullmq').length >= LINES);
    all.kill('SIGTERM');
    await all.ended;

    const own = compiled(stage.folder, 'streamfleet');
    const worker = await stage.worker(own);
    const producer = stage.start('streamfleet.produce', [process.execPath, 'dist/main.js', 'produce'], own);
    assert.equal(await producer.ended, 0);
    await eventually('the jobs on streamfleet', async () => stage.journal('streamfleet').length >= LINES);
    worker.kill('SIGTERM');
    assert.equal(await worker.ended, 0);
    assert.deepEqual(sorted(stage.journal('streamfleet')), sorted(stage.journal('bullmq')));
    assert.equal(stage.journal('streamfleet').length, LINES);
  });
});

test('killed workers lose no order', { skip, timeout: 300_000 }, async () => {
  const orders = 400;
  await staged(async (stage) => {
    const own = compiled(stage.folder, 'streamfleet');
    const options = { lease: '1s', inflight: 5 };
    const workers = [await stage.worker(own, options)];
    const producer = stage.start('streamfleet.produce', [process.execPath, 'dist/main.js', 'produce', String(orders)], own);
    assert.equal(await producer.ended, 0);
    const shipped = () => new Set(stage.journal('streamfleet').filter(({ what, name }) => what === 'mail' && name === 'shipped').map(({ to }) => to)).size;
    for (const share of [0.1, 0.3, 0.5]) {
      await eventually(`${share} of the orders`, async () => stage.journal('streamfleet').length >= share * orders * 4);
      const killed = workers.shift();
      // The next one is there already, and takes over what the killed one has.
      workers.push(await stage.worker(own, options));
      killed.kill('SIGKILL');
      assert.equal(await killed.ended, 'SIGKILL');
    }
    await eventually('all orders', async () => shipped() === orders);
  });
});
