// How fast a task goes, as it is seen from here.
import type { Task } from '../../api/client';

export interface Sample {
  atMs: number;
  looked: number;
  done: number;
}

export const isTaskOver = ({ state }: Task): boolean => ['done', 'stopped', 'failed'].includes(state);

/** How many jobs it changes per second, by what was seen of it. `undefined` as long as that is not known. */
export function paceOf(samples: Sample[]): number | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last || last.atMs - first.atMs < 900) return undefined;
  return ((last.done - first.done) / (last.atMs - first.atMs)) * 1000;
}
