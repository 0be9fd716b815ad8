// Checked by tsc, and not run: a program with the types of its jobs.
import { Cli, Drop, Fatal, Gone, Job, NotEnded, Producer, Retry, Snooze, Unknown, Worker, done, unknown, type ErrorKind, type ErrorRule, type Middleware, type Status } from 'streamfleet';

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
