// What a queue did lately: its samples in steps that fit the span, and what happened to it meanwhile.
import type { Schemas } from '../../api/client';
import type { Mark } from '../../parts/Chart.svelte';

type Sample = Schemas['Sample'];

const MINUTE = 60_000;

/** How far back charts look, and how long each of their steps is, in milliseconds. */
export const SPANS = {
  '1h': { ms: 60 * MINUTE, stepMs: MINUTE },
  '6h': { ms: 360 * MINUTE, stepMs: 5 * MINUTE },
  '24h': { ms: 1440 * MINUTE, stepMs: 15 * MINUTE },
} as const;
export type Span = keyof typeof SPANS;

export function spanOf(text: string | null): Span {
  return text !== null && text in SPANS ? (text as Span) : '1h';
}

export interface History {
  /** Where each step begins, in seconds since 1970. */
  times: number[];
  /** Per minute. A step without a sample has none: nobody counted then. */
  done: (number | null)[];
  failed: (number | null)[];
  arrived: (number | null)[];
  /** At the end of the step. */
  waiting: (number | null)[];
  running: (number | null)[];
  /** The longest wait of the step, in milliseconds. */
  oldest: (number | null)[];
}

/** Puts samples into steps. */
export function historyOf(samples: Sample[], span: Span, nowMs: number): History {
  const { ms, stepMs } = SPANS[span];
  const steps = ms / stepMs;
  const first = Math.floor(nowMs / stepMs) - steps + 1;
  const none = () => Array<number | null>(steps).fill(null);
  const history: History = {
    times: Array.from({ length: steps }, (_, nth) => ((first + nth) * stepMs) / 1000),
    done: none(),
    failed: none(),
    arrived: none(),
    waiting: none(),
    running: none(),
    oldest: none(),
  };
  for (const sample of samples) {
    const nth = Math.floor(sample.at_ms / stepMs) - first;
    if (nth < 0 || nth >= steps) continue;
    for (const key of ['done', 'failed', 'arrived'] as const) history[key][nth] = (history[key][nth] ?? 0) + (sample[key] * MINUTE) / stepMs;
    history.waiting[nth] = sample.waiting;
    history.running[nth] = sample.running;
    history.oldest[nth] = Math.max(history.oldest[nth] ?? 0, sample.oldest_waiting_age_ms ?? 0);
  }
  return history;
}

/** How long jobs waited and ran, in the windows for which the API sums that up. In milliseconds. */
export interface Lengths {
  /** Where each window begins, in seconds since 1970. */
  times: number[];
  /** A window in which no attempt began or ended has none. */
  wait: Record<'p50' | 'p95', (number | null)[]>;
  run: Record<'p50' | 'p95', (number | null)[]>;
}

/** Puts windows beside each other, also those that the list leaves out. */
export function lengthsOf({ items, from_ms, window_ms }: Schemas['DurationFacts'] & { items: Schemas['DurationWindow'][] }, nowMs: number): Lengths {
  const count = Math.max(1, Math.floor((nowMs - from_ms) / window_ms) + 1);
  const none = () => Array<number | null>(count).fill(null);
  const lengths: Lengths = {
    times: Array.from({ length: count }, (_, nth) => (from_ms + nth * window_ms) / 1000),
    wait: { p50: none(), p95: none() },
    run: { p50: none(), p95: none() },
  };
  for (const item of items) {
    const nth = Math.round((item.at_ms - from_ms) / window_ms);
    if (nth < 0 || nth >= count) continue;
    for (const of of ['wait', 'run'] as const) {
      lengths[of].p50[nth] = item[of].p50_ms ?? null;
      lengths[of].p95[nth] = item[of].p95_ms ?? null;
    }
  }
  return lengths;
}

/** Something that happened to a queue. */
export interface Happened {
  atMs: number;
  /** `pause`, `resume`, `gates` (limits were set), `clear` (they were cleared), `task` or `deploy`. */
  kind: string;
  /** A gate, a task, or a version. */
  what: string;
  who: string;
  why: string;
}

/** What the audit calls what charts mark. */
const KINDS: Record<string, string | undefined> = { pause: 'pause', resume: 'resume', 'gates set': 'gates', 'gates clear': 'clear' };

/** How long workers of one version may take to start one after the other, in milliseconds. */
const ROLLOUT = 10 * MINUTE;

/** What people did to a queue, and when workers of other versions or configurations came, the newest first. */
export function happened(notes: Schemas['AuditNote'][], tasks: Schemas['Task'][], workers: Schemas['Worker'][], sinceMs: number): Happened[] {
  const done = notes.flatMap((note): Happened[] => {
    const kind = KINDS[note.what];
    if (!kind) return [];
    return [{ atMs: note.at_ms, kind, what: note.target, who: note.who, why: note.why }];
  });
  const begun = tasks.map((task): Happened => ({ atMs: task.created_ms, kind: 'task', what: `${task.kind} ${task.id}`, who: task.who, why: task.reason }));
  const came: Happened[] = [];
  const started = workers.flatMap(({ version, started_ms }) => (started_ms ? [{ version, atMs: started_ms }] : [])).sort((one, other) => one.atMs - other.atMs);
  for (const { version, atMs } of started) {
    const isSame = came.some((other) => other.what === version && atMs - other.atMs < ROLLOUT);
    if (!isSame) came.push({ atMs, kind: 'deploy', what: version, who: '', why: '' });
  }
  return [...done, ...begun, ...came].filter(({ atMs }) => atMs >= sinceMs).sort((one, other) => other.atMs - one.atMs);
}

/** The marks of a chart. */
export function marksOf(all: Happened[], word: (happened: Happened) => string): Mark[] {
  return all.map((each) => ({ at: each.atMs / 1000, text: word(each) })).reverse();
}
