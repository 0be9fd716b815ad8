// What is wrong: one row per cause, from the open incidents and the causes of the queues, the worst first.
import type { Incident, Queue } from '../../api/client';
import { causeText } from '../../parts/Cause.svelte';
import { exception } from '../../words/format';
import { saidOf, severity } from '../incidents/incident';

export type Severity = 'bad' | 'warn' | 'known';

export interface Trouble {
  id: string;
  severity: Severity;
  kind: string;
  queue: string | null;
  type: string;
  /** The exception's line, or the cause. */
  line: string;
  count: number;
  sinceMs: number | null;
  incident?: Incident;
}

const ORDER: Record<Severity, number> = { bad: 0, warn: 1, known: 2 };
// What an incident calls what a queue gives as its cause.
const KINDS: Record<string, string> = { paused: 'queue_paused', redis_full: 'redis_memory', held: 'backlog' };

/** What an incident without an error is about: what its queue gives as the cause if it is the same, which is newer and says who and why. */
function lineOf(incident: Incident, queues: Queue[]): string {
  const cause = queues.find((queue) => queue.queue === incident.queue)?.cause;
  const isSame = cause && (KINDS[cause.kind] ?? cause.kind) === incident.kind && (!cause.type || cause.type === incident.type);
  return isSame ? causeText(cause) : saidOf(incident);
}

export function troubles(incidents: Incident[], queues: Queue[], nowMs: number): Trouble[] {
  const told = incidents.map((incident): Trouble => {
    const isKnown = incident.acknowledged != null && incident.acknowledged.until_ms > nowMs;
    return {
      id: incident.id,
      severity: isKnown ? 'known' : severity(incident),
      kind: incident.kind,
      queue: incident.queue ?? null,
      type: incident.type,
      // One for many causes has the exception of one of them.
      line: (incident.key !== '*' && exception(incident.example_error)) || lineOf(incident, queues),
      count: incident.count,
      sinceMs: incident.since_ms,
      incident,
    };
  });
  const known = new Set(incidents.map((incident) => `${incident.kind} ${incident.queue}`));
  const causes = queues.flatMap((queue): Trouble[] => {
    const cause = queue.cause;
    if (!cause || cause.kind === 'busy') return [];
    const kind = KINDS[cause.kind] ?? cause.kind;
    // The incident of the same cause says more.
    if (known.has(`${kind} ${queue.queue}`) || known.has(`${kind} null`)) return [];
    return [
      {
        id: `cause ${queue.queue}`,
        severity: kind === 'queue_paused' || kind === 'backlog' ? 'warn' : 'bad',
        kind,
        queue: queue.queue,
        type: cause.type ?? '',
        line: causeText(cause),
        count: cause.jobs ?? queue.waiting ?? 0,
        sinceMs: kind === 'queue_paused' ? (queue.paused_since_ms ?? null) : (queue.oldest_waiting_ms ?? null),
      },
    ];
  });
  return [...told, ...causes].sort((one, other) => ORDER[one.severity] - ORDER[other.severity] || other.count - one.count);
}
