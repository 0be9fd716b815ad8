// How fast tasks are, measured from one answer to the next.
import { SvelteMap } from 'svelte/reactivity';
import type { Task } from '../../api/client';

/** The time over which a rate is measured, in milliseconds … */
const WINDOW_MS = 30_000;

/** … and the least that says something. */
const LEAST_MS = 3000;

interface Sample {
  atMs: number;
  looked: number;
  matched: number;
}

export interface Pace {
  /** Jobs per second that matched and were dealt with. */
  rate: number;
  /** How long the rest takes; undefined if nobody can tell. */
  leftMs?: number;
}

export const isOver = ({ state }: Task): boolean => ['stopped', 'failed', 'done'].includes(state);
export const isMoving = ({ state }: Task): boolean => state === 'running' || state === 'canary';

/** How much of a task is done, from 0 to 1. */
export function share(task: Task): number {
  if (task.state === 'done') return 1;
  const [part, whole] = task.planned ? [task.matched, task.planned] : [task.looked, task.total];
  return whole ? Math.min(1, part / whole) : 0;
}

/** The pace between two moments of a task. */
export function paceOf(task: Task, from: Sample, to: Sample): Pace | undefined {
  const seconds = (to.atMs - from.atMs) / 1000;
  if (seconds < LEAST_MS / 1000) return undefined;
  const rate = (to.matched - from.matched) / seconds;
  const looking = (to.looked - from.looked) / seconds;
  // What matches is left to do. If nobody has counted it, what is there is left to look at.
  const [left, speed] = task.left == null ? [task.total - task.looked, looking] : [task.left, rate];
  return { rate, leftMs: speed > 0 ? (left / speed) * 1000 : undefined };
}

export class Paces {
  #samples = new Map<string, Sample[]>();
  #paces = new SvelteMap<string, Pace>();

  /** Takes an answer. Only tasks that move have a pace. */
  take(tasks: Task[], atMs: number): void {
    for (const task of tasks) {
      const now = { atMs, looked: task.looked, matched: task.matched };
      if (!isMoving(task)) {
        this.#samples.delete(task.id);
        this.#paces.delete(task.id);
        continue;
      }
      const before = this.#samples.get(task.id) ?? [];
      const samples = [...before.filter((sample) => sample === before.at(-1) || sample.atMs > atMs - WINDOW_MS), now];
      this.#samples.set(task.id, samples);
      const pace = paceOf(task, samples[0]!, now);
      if (pace) this.#paces.set(task.id, pace);
    }
  }

  of(task: Task): Pace | undefined {
    return this.#paces.get(task.id);
  }
}
