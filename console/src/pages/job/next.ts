// What happens to a job next, and what may come in between, each in a sentence.
import type { Schemas } from '../../api/client';
import { causeText } from '../../parts/Cause.svelte';
import { duration, instant } from '../../words/format';
import { t, words } from '../../words/words.svelte';
import type { Job, Prospects } from './job';

export interface Sentence {
  text: string;
  tone?: 'warn' | 'bad';
  /** The instant that it tells of, as its tooltip. */
  title?: string;
  /** The queue that the job is in now. */
  moved?: string;
}

/** The sentences, the main one first. `nowMs` is the time of the server's clock, and `undecided` the steps that wait for a person. */
export function nextOf(job: Job, prospects: Prospects | undefined, nowMs: number, undecided: string[] = []): Sentence[] {
  if (undecided.length) return [{ text: t('next.decide', { steps: undecided.join(', ') }), tone: 'warn' }];
  const isOver = ['done', 'dead', 'cancelled'].includes(job.state);
  if (isOver) return [first(job, nowMs)];
  const kept = obstacles(job, prospects, nowMs);
  // No free worker takes a job that something keeps from running.
  const isKept = job.state === 'waiting' && !job.gate && kept.some(({ tone }) => tone !== undefined);
  return [...(isKept ? [] : [first(job, nowMs)]), ...kept, ...limits(job, prospects, nowMs)];
}

function first(job: Job, nowMs: number): Sentence {
  const due = job.due_ms && job.due_ms > nowMs ? job.due_ms : undefined;
  const at = due && { title: instant(due) };
  switch (job.state) {
    case 'waiting':
      if (job.gate?.startsWith('fair:')) return { text: t('next.turn') };
      return { text: job.gate ? t('next.gate', { gate: job.gate }) : t('next.waiting', { lane: words.of('lane', job.lane) }) };
    case 'running':
      if (job.cancelling_since) return { text: t('next.cancelling', { by: job.cancelled_by ?? '–' }), tone: 'warn' };
      return { text: t('next.running', { worker: job.worker ?? '–' }) };
    case 'scheduled':
    case 'retrying':
      return due ? { text: t(job.state === 'scheduled' ? 'next.scheduled' : 'next.retrying', { time: duration(due - nowMs) }), ...at } : { text: t('next.due') };
    case 'dead':
      return { text: t('next.dead') };
    case 'cancelled': {
      // Only the trace of a job that was moved is cancelled.
      const moved = /^moved to the queue (.+)$/.exec(job.error ?? '')?.[1];
      if (moved) return { text: t('next.moved', { queue: moved }), moved };
      return { text: job.cancelled_by ? t('next.cancelled_by', { by: job.cancelled_by }) : t('next.cancelled') };
    }
    default:
      return { text: t('next.done') };
  }
}

/** What keeps it from running. */
function obstacles(job: Job, prospects: Prospects | undefined, nowMs: number): Sentence[] {
  const said: Sentence[] = [];
  const paused = prospects?.paused;
  if (paused) {
    const values = { gate: paused.gate, by: paused.by || '–', reason: paused.reason || '–', since: duration(nowMs - paused.since_ms) };
    const until = paused.until_ms;
    said.push({ text: until ? t('next.paused_until', { ...values, time: duration(until - nowMs) }) : t('next.paused', values), tone: 'warn', title: instant(paused.since_ms) });
  }
  const { unserved, pool_down: pool, queue_cause: cause } = job;
  if (unserved) said.push({ text: cause?.kind === 'no_worker' || cause?.kind === 'unserved_type' ? causeText(cause) : unserved, tone: 'bad', title: unserved });
  else if (pool) said.push({ text: t('cause.pool_down', { pool: pool.pool, error: pool.error }), tone: 'bad' });
  else if (cause && !paused && isAbout(cause, job)) said.push({ text: causeText(cause), tone: cause.kind === 'busy' ? undefined : 'warn' });
  return said;
}

/** Whether the worst cause for which jobs of the queue wait is one of this job, too. */
function isAbout({ kind, type, gate }: Schemas['Cause'], job: Job): boolean {
  if (kind === 'unserved_type') return type === job.type;
  if (kind === 'held') return gate === job.gate;
  return kind !== 'pool_down';
}

/** When it is cut off, or expires. */
function limits(job: Job, prospects: Prospects | undefined, nowMs: number): Sentence[] {
  if (!prospects) return [];
  const { started_ms: started, timeout_ms: timeout, expires_at_ms: expires } = prospects;
  const said: Sentence[] = [];
  if (job.state === 'running' && timeout) {
    const end = started ? started + timeout : undefined;
    if (end && end > nowMs) said.push({ text: t('next.deadline', { time: duration(end - nowMs) }), title: instant(end) });
    else said.push({ text: t('next.timeout', { time: duration(timeout) }) });
  }
  if (job.state !== 'running' && expires) {
    if (expires <= nowMs) said.push({ text: t('next.expired'), tone: 'bad', title: instant(expires) });
    else said.push({ text: t('next.expires', { time: duration(expires - nowMs) }), title: instant(expires) });
  }
  return said;
}
