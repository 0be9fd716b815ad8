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

/** How soon to ask again while a task begins or is about to end, while it goes on, while it rests, and when it is over. In milliseconds. */
const SOON_MS = 500;
const MOVING_MS = 1500;
const RESTING_MS = 3000;
const OVER_MS = 15_000;

/** How long before its end, by its pace, a task is about to end; and for how long one begins, which has no pace yet. */
const NEAR_MS = 5000;

/** How soon to ask for a task again, so that its end is seen when it comes. */
export function againIn(task: Task | undefined, pace: Pace | undefined, nowMs: number): number {
  if (!task) return RESTING_MS;
  if (isOver(task)) return OVER_MS;
  if (!isMoving(task) || task.hint) return RESTING_MS;
  const isNear = share(task) > 0.95 || (pace?.leftMs != null && pace.leftMs < NEAR_MS) || Math.abs(nowMs - task.created_ms) < NEAR_MS;
  return isNear ? SOON_MS : MOVING_MS;
}

/** How soon to ask for a list of tasks again. New ones may begin at any time. */
export const listAgainIn = (tasks: Task[] | undefined, paces: Paces, nowMs: number): number =>
  Math.min(RESTING_MS, ...(tasks ?? []).map((task) => againIn(task, paces.of(task), nowMs)));

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
