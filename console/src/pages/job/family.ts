// The jobs that a job belongs to: those whose end submitted it, those that followed it, and its batch.
import { api, Failure, ok, type Schemas } from '../../api/client';
import { readJob, type Job } from './job';

export interface Member {
  id: string;
  depth: number;
  type?: string;
  /** `unknown` if nothing is left of it. */
  state: string;
  /** Its queue, if it is another one. */
  queue?: string;
  isThis?: boolean;
  /** It is submitted when this job ends: it has no id yet. */
  when?: 'then' | 'success' | 'failure';
}

export interface Family {
  members: Member[];
  /** How many followed that are not shown. */
  more: number;
  batch?: Schemas['Batch'];
}

/** The type of the jobs that take others to another queue. */
const HAND_OVER = 'streamfleet.handover';

const MOST_ABOVE = 5;
const MOST_BELOW = 20;

/** Whether a job has any. */
export function hasFamily(job: Job): boolean {
  const { on_success, on_failure, batch } = job.terms ?? {};
  return Boolean(job.parent || job.children?.length || job.then || on_success || on_failure || batch);
}

/** What is gone is none. */
export async function orNone<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof Failure && (error.status === 404 || error.status === 409)) return undefined;
    throw error;
  }
}

/** Where a hand-over has taken the next job, if it has. */
export function takenTo(job: Job): { queue: string; id: string } | undefined {
  const result = job.type === HAND_OVER && job.state === 'done' ? (job.result as { queue?: string; id?: string } | null) : undefined;
  return result?.queue && result.id ? { queue: result.queue, id: result.id } : undefined;
}

/** Reads the states of the family. */
export async function familyOf(job: Job, signal: AbortSignal): Promise<Family> {
  const read = (id: string, queue = job.queue) => orNone(readJob(queue, id, signal)).then((found) => found?.job);
  /** A job that followed; for a hand-over, the job that it has taken to its queue. */
  const follower = async (id: string): Promise<{ id: string; queue?: string; job?: Job }> => {
    const found = await read(id);
    const taken = found && takenTo(found);
    return taken ? { ...taken, job: await read(taken.id, taken.queue) } : { id, job: found };
  };
  const above: Job[] = [];
  const [batch, below] = await Promise.all([
    job.terms?.batch ? orNone(ok(api.GET('/api/v1/queues/{queue}/batches/{batch}', { params: { path: { queue: job.queue, batch: job.terms.batch } }, signal }))) : undefined,
    Promise.all((job.children ?? []).slice(0, MOST_BELOW).map(follower)),
    (async () => {
      for (let next: Job = job; next.parent && above.length < MOST_ABOVE; next = above[0]!) {
        const { parent: id, parent_queue: queue = next.queue } = next;
        above.unshift((await read(id, queue ?? next.queue)) ?? ({ id, queue: queue ?? next.queue, state: 'unknown' } as unknown as Job));
      }
    })(),
  ]);
  const members: Member[] = above.map(({ id, type, state, queue }, depth) => ({ id, type, state, depth, queue: queue === job.queue ? undefined : queue }));
  const depth = above.length;
  members.push({ id: job.id, type: job.type, state: job.state, depth, isThis: true });
  for (const { id, queue, job: child } of below) members.push({ id, queue, type: child?.type, state: child?.state ?? 'unknown', depth: depth + 1 });
  members.push(...comingOf(job, depth + 1));
  return { members, more: Math.max(0, (job.children?.length ?? 0) - MOST_BELOW), batch };
}

/** What is submitted when the job ends. */
export function comingOf(job: Job, depth: number): Member[] {
  if (['done', 'cancelled'].includes(job.state)) return [];
  const coming: Member[] = [];
  const { on_success, on_failure } = job.terms ?? {};
  const chain = Array.isArray(job.then) ? (job.then as { type?: string; queue?: string }[]) : [];
  let queue: string | undefined;
  chain.forEach(({ type, queue: named }, nth) => {
    queue = named ?? queue;
    coming.push({ id: '', type: type ?? '?', state: 'pending', depth: depth + nth, when: 'then', queue: queue === job.queue ? undefined : queue });
  });
  if (on_success) coming.push({ id: '', type: on_success, state: 'pending', depth, when: 'success' });
  if (on_failure && job.state !== 'dead') coming.push({ id: '', type: on_failure, state: 'pending', depth, when: 'failure' });
  return coming;
}

/** The lines that lead to each member: for each level above it, whether a later one hangs there. */
export function guidesOf(members: { depth: number }[]): boolean[][] {
  return members.map(({ depth }, nth) =>
    Array.from({ length: depth }, (_, level) => {
      const next = members.slice(nth + 1).find((later) => later.depth <= level + 1);
      return next?.depth === level + 1;
    }),
  );
}
