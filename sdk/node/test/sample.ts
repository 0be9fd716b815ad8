// Checked by tsc, and not run: a program with the types of its jobs.
import { Cli, Drop, FakeHttp, FakeProducer, Fatal, Gone, Http, Job, NotEnded, Producer, Retry, Snooze, Unknown, Worker, Superseded, done, once as effect, outbox, unknown, type ErrorKind, type ErrorRule, type Middleware, type Status } from 'streamfleet';

interface Jobs {
  'mail.send': { to: string; subject?: string };
  'report.generate': { month: string };
  'blob.store': Buffer;
}

const timing: Middleware = async (job, next) => {
  const start = performance.now();
  try {
    return await next();
  } finally {
    await job.log('took', 'debug', { ms: performance.now() - start });
  }
};

const worker = new Worker<Jobs>();
worker.use(timing);
worker.errors([[RangeError, 'fatal'], ['ECONNREFUSED', '30s'], [Error, 5000], ['ETIMEDOUT', 'unknown']]).errors(new Map<ErrorKind, ErrorRule>([[TypeError, 'drop']]));
// @ts-expect-error: a number is no class of errors.
worker.errors([[7, 'fatal']]);
worker.events.on('before', (job) => job.id).once('failed', (job, outcome) => console.error(job.id, outcome.message, outcome.cause));
// @ts-expect-error: there is no such event.
worker.events.on('fail', () => undefined);
worker.on('mail.send', async (job) => {
  const to: string = job.payload.to;
  job.progress(50, `writing to ${to}`);
  await fetch('https://example.com', { signal: job.signal });
  if (job.cancelled === 'timeout') return new Retry('too slow', { delay: '30s' });
  return { sent: true };
});
worker.handle('report.generate', (job: Job<{ month: string }>) => {
  if (job.payload.month === '') throw new Fatal('no month');
  if (job.payload.month === '0') return unknown(new Unknown('no answer'));
  if (job.attempt > 3) return new Drop('nobody wants it any more');
  return job.remaining < 1000 ? new Snooze(60_000, 'no time') : done(Buffer.from('x'));
});
// @ts-expect-error: there is no such type of job.
worker.on('mail.sent', () => undefined);
void worker.run({ inflight: 50, maxJobs: 1000 });

export async function submit(send: (args: (string | Buffer)[]) => Promise<unknown>): Promise<Status | undefined> {
  const producer = new Producer<Jobs>(send, { queue: 'mails' });
  const id: string = await producer.enqueue('mail.send', { to: 'ann@example.com' }, { delay: '5m', tracking: 'all', priority: 8 });
  await producer.enqueueMany([{ type: 'blob.store', payload: Buffer.of(1), encoding: 'raw' }]);
  // @ts-expect-error: the payload has another shape.
  await producer.enqueue('mail.send', { too: 'ann@example.com' });
  // @ts-expect-error: there is no such option.
  await producer.enqueue('mail.send', { to: 'ann@example.com' }, { attempts: 3 });
  try {
    return await producer.wait(id, { timeout: '10s' });
  } catch (error) {
    if (error instanceof NotEnded || error instanceof Gone) return undefined;
    throw error;
  }
}

export async function once(): Promise<boolean> {
  const { id, isNew } = await new Cli<Jobs>({ queue: 'reports' }).enqueue('report.generate', { month: '11' }, { unique: '11', uniqueMode: 'replace', idempotentFor: '2d' });
  // @ts-expect-error: a plain XADD has no unique keys.
  await new Producer<Jobs>(async () => id).enqueue('report.generate', { month: '11' }, { unique: '11' });
  return isNew;
}

export async function monthly(cli: Cli<Jobs>): Promise<string[]> {
  // @ts-expect-error: the payload has another shape.
  await cli.batch('b', [{ type: 'mail.send', payload: { month: '11' } }], { type: 'report.generate' });
  return cli.batch('mails-11', [{ type: 'mail.send', payload: { to: 'ann@example.com' }, unique: 'ann' }], { type: 'report.generate', payload: { month: '11' } });
}

export const untyped = new Producer(async (args: (string | Buffer)[]) => args.length);
void untyped.enqueue('anything', { at: 'all' });

// A database of the kind that node:sqlite has.
declare const db: { prepare(sql: string): { run(...values: unknown[]): unknown }; exec(sql: string): void; isTransaction: boolean };
worker.on('blob.store', async (job) => {
  try {
    const result: { stored: number } = await effect(db, job, (same) => {
      same.exec('DELETE FROM blobs');
      return { stored: 1 };
    }, { step: 'delete' });
    const id: string = await outbox.add(db, 'mail.send', { to: 'ann' }, { delay: '1m', autocommit: true });
    const ids: string[] = await outbox.addAll(db, [{ type: 'mail.send', payload: { to: 'ann' }, lane: 'low' }]);
    return [result.stored, id, ...ids];
  } catch (error) {
    if (error instanceof Superseded) throw error;
    return null;
  }
});
// @ts-expect-error: a producer is no database.
outbox.add(new Producer(async () => null), 'mail.send');

export async function byHttp(): Promise<unknown> {
  const http = new Http<Jobs>({ url: 'http://127.0.0.1:9470', token: () => 'token', timeout: '5s', retries: 2 });
  const { id, isNew }: { id: string; isNew: boolean } = await http.enqueue('mail.send', { to: 'ann' }, { unique: 'k', durability: 'aof' });
  await http.enqueueMany([{ type: 'report.generate', payload: { month: '11' }, idempotentFor: '2d' }]);
  // @ts-expect-error: a token is needed.
  new Http({ url: 'http://127.0.0.1:9470' });
  return isNew ? (await http.wait(id, { timeout: '1m', signal: AbortSignal.timeout(1000) })).value<number>() : http.result(id);
}

export async function tested(): Promise<void> {
  const fake = new FakeProducer<Jobs>({ worker });
  await fake.enqueue('mail.send', { to: 'ann' });
  fake.assertEnqueued('mail.send', { to: (to: string) => to === 'ann' }, { times: 1 });
  // @ts-expect-error: there is no such type of job.
  fake.assertNotEnqueued('mail.sent');
  const accepted: boolean = (await new FakeHttp<Jobs>().enqueue('mail.send', { to: 'ann' }, { unique: 'k' })).isNew;
  console.log(accepted, fake.jobs[0].attempts, (await worker.outcome(new Job('mail.send', { to: 'ann' }))).message);
  worker.on('blob.store', () => undefined, { maxAttempts: 4, timeout: '30s', concurrency: 2 });
  // @ts-expect-error: a handler has no such option.
  worker.on('blob.store', () => undefined, { attempts: 4 });
}
