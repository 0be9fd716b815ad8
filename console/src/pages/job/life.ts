// The life of a job as stretches of time: what it waited for, what was tried, and what comes.
import type { Job, Prospects } from './job';

export interface Stretch {
  kind: 'waiting' | 'delayed' | 'attempt' | 'backoff' | 'running' | 'replayed';
  from: number;
  until: number;
  /** What is still to come, after `until`: until when it is due, or the attempt is cut off. */
  ahead?: number;
  /** The number of the attempt, if all attempts are known. */
  number?: number;
  outcome?: string;
  worker?: string;
  error?: string;
}

export interface Life {
  from: number;
  until: number;
  stretches: Stretch[];
}

/** How many attempts the API keeps of each job. Of a job with so many, earlier ones may be forgotten. */
const KEPT = 20;

/** A timeout further away than this many times what has passed is not drawn. */
const FAR = 8;

/** The life of a job until now. `undefined` if nothing is known of it. */
export function lifeOf(job: Job, prospects: Prospects | undefined, nowMs: number): Life | undefined {
  const { attempts, created_ms: created } = job;
  const begins = [created, attempts[0]?.started_ms, prospects?.started_ms].filter((ms) => ms != null);
  if (!begins.length) return undefined;
  const from = Math.min(...begins);
  const stretches: Stretch[] = [];
  let at = from;
  attempts.forEach(({ started_ms, ended_ms, outcome, worker, error }, nth) => {
    // Only a replay begins another life.
    const isReplayed = created != null && nth > 0 && started_ms >= created && attempts[nth - 1]!.started_ms < created;
    if (isReplayed) {
      stretches.push({ kind: 'replayed', from: created, until: created });
      at = Math.max(at, created);
    }
    if (started_ms > at) stretches.push({ kind: nth === 0 || isReplayed ? 'waiting' : 'backoff', from: at, until: started_ms });
    const until = Math.max(started_ms, ended_ms);
    stretches.push({ kind: 'attempt', from: started_ms, until, number: attempts.length < KEPT ? nth + 1 : undefined, outcome, worker, error: error ?? undefined });
    at = Math.max(at, until);
  });
  if (created != null && attempts.length && created > attempts.at(-1)!.started_ms) {
    stretches.push({ kind: 'replayed', from: created, until: created });
    at = Math.max(at, created);
  }
  const now = Math.max(nowMs, at);
  const waits = { from: at, until: now, ahead: job.due_ms && job.due_ms > now ? job.due_ms : undefined };
  if (job.state === 'running') {
    const began = Math.max(at, prospects?.started_ms ?? at);
    if (began > at) stretches.push({ kind: attempts.length ? 'backoff' : 'waiting', from: at, until: began });
    const cut = prospects?.timeout_ms && prospects.started_ms ? prospects.started_ms + prospects.timeout_ms : 0;
    const ahead = cut > now && cut - from < FAR * Math.max(1000, now - from) ? cut : undefined;
    stretches.push({ kind: 'running', from: began, until: now, ahead, worker: job.worker ?? undefined });
  } else if (job.state === 'waiting') stretches.push({ kind: 'waiting', from: at, until: now });
  else if (job.state === 'scheduled') stretches.push({ kind: 'delayed', ...waits });
  else if (job.state === 'retrying') stretches.push({ kind: 'backoff', ...waits });
  // When a job ended that was never tried is not known.
  if (!stretches.length) return undefined;
  const until = Math.max(...stretches.map((stretch) => stretch.ahead ?? stretch.until), from + 1);
  return { from, until, stretches };
}
