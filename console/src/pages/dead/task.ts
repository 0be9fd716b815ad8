// Tasks on dead letters: which one is about a group, and what became of its letters so far.
import type { Task } from '../../api/client';
import { isOver } from '../tasks/pace.svelte';

export interface Share {
  key: 'succeeded' | 'died' | 'otherwise' | 'running' | 'skipped' | 'dropped' | 'left';
  value: number;
  /** Shown although it is zero. */
  always?: boolean;
}

/** How long a task that is over is still shown, in milliseconds. */
const SHOWN_MS = 900_000;

/** What became of the letters of a task, in the order of the bar. */
export function sharesOf(task: Task): Share[] {
  const left = task.left ?? (task.gone == null ? Math.max(0, task.total - task.looked) : 0);
  if (task.kind !== 'replay') return [{ key: 'dropped', value: task.done, always: true }, { key: 'skipped', value: task.refused }, { key: 'left', value: left, always: true }];
  return [
    { key: 'succeeded', value: task.succeeded ?? 0, always: true },
    { key: 'died', value: task.died ?? 0, always: true },
    { key: 'otherwise', value: (task.died_otherwise ?? 0) + (task.needs_decision ?? 0) + (task.cancelled ?? 0) },
    { key: 'running', value: task.running ?? 0, always: true },
    { key: 'skipped', value: (task.skipped ?? 0) + (task.gone ?? 0) },
    { key: 'left', value: left, always: true },
  ];
}

/** The task that works on a group, or was the last to do so, if that is not long ago. */
export function taskOf(tasks: Task[], group: string, nowMs: number): Task | undefined {
  const words = (task: Task) => task.filter.split(/\s+/);
  const about = tasks.filter((task) => ['replay', 'drop'].includes(task.kind) && words(task).some((word, nth, all) => word === group && all[nth - 1] === '--group'));
  return about.find((task) => !isOver(task)) ?? about.find((task) => nowMs - task.changed_ms < SHOWN_MS);
}
