// Compiled, never run: the types accept what the README shows, and refuse mistakes.
import { Drop, Fatal, Producer, Retry, Snooze, Submission, job, middleware, run, testJob, use, type Job } from 'streamfleet';
import { Redis } from 'ioredis';
import { createClient } from 'redis';

interface Mail {
  to: string;
}

const send = job<Mail>('mail.send', { maxAttempts: 4 }, async (job: Job<Mail>) => {
  job.progress(50, 'half');
  job.log('sent', { to: job.payload.to }, 'debug');
  await fetch('http://localhost', { signal: job.signal });
  if (job.attempt > 2) return new Fatal('never');
  if (job.cancelled) throw new Retry('again', { delayMs: 5 });
  return job.remainingMs === 0 ? new Snooze(1) : new Drop('no');
});

middleware(async (job, next) => [job.id, await next()]);
const producer = new Producer(new Redis());
use(new Producer(createClient(), { queue: 'mail' }));

export async function submit(): Promise<string[]> {
  await send.enqueue({ to: 'ann@example.com' }, { producer, runAt: new Date() });
  // @ts-expect-error: the payload has another type.
  await send.enqueue({ to: 7 });
  // @ts-expect-error: there is no such lane.
  await producer.enqueue('x', null, { lane: 'fast' });
  const status = await producer.wait('a', { timeoutMs: 5 });
  send(testJob('mail.send', { to: status.state }));
  return producer.enqueueMany([new Submission('x', 1)]);
}

run({ inflight: 50 });
