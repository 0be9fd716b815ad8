// The jobs that a job belongs to: those whose end submitted it, those that followed it, and its batch.
import { api, Failure, ok, type Schemas } from '../../api/client';
import { readJob, type Job } from './job';

export interface Member {
  id: string;
  depth: number;
  type?: string;
  /** `unknown` if nothing is left of it. */
  state: string;
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

/** Reads the states of the family. */
export async function familyOf(job: Job, signal: AbortSignal): Promise<Family> {
  const read = (id: string) => orNone(readJob(job.queue, id, signal)).then((found) => found?.job);
  const above: Job[] = [];
  const [batch, below] = await Promise.all([
    job.terms?.batch ? orNone(ok(api.GET('/api/v1/queues/{queue}/batches/{batch}', { params: { path: { queue: job.queue, batch: job.terms.batch } }, signal }))) : undefined,
    Promise.all((job.children ?? []).slice(0, MOST_BELOW).map(async (id) => ({ id, job: await read(id) }))),
    (async () => {
      for (let id = job.parent; id && above.length < MOST_ABOVE; id = above[0]!.parent) {
        above.unshift((await read(id)) ?? ({ id, state: 'unknown' } as unknown as Job));
      }
    })(),
  ]);
  const members: Member[] = above.map(({ id, type, state }, depth) => ({ id, type, state, depth }));
  const depth = above.length;
  members.push({ id: job.id, type: job.type, state: job.state, depth, isThis: true });
  for (const { id, job: child } of below) members.push({ id, type: child?.type, state: child?.state ?? 'unknown', depth: depth + 1 });
  members.push(...comingOf(job, depth + 1));
  return { members, more: Math.max(0, (job.children?.length ?? 0) - MOST_BELOW), batch };
}

/** What is submitted when the job ends. */
export function comingOf(job: Job, depth: number): Member[] {
  if (['done', 'cancelled'].includes(job.state)) return [];
  const coming: Member[] = [];
  const { on_success, on_failure } = job.terms ?? {};
  const chain = Array.isArray(job.then) ? (job.then as { type?: string }[]) : [];
  chain.forEach(({ type }, nth) => coming.push({ id: '', type: type ?? '?', state: 'pending', depth: depth + nth, when: 'then' }));
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
