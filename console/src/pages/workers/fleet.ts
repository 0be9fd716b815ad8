// What the live workers have in common, and which differ.
import type { JobRow, Schemas } from '../../api/client';

type Worker = Schemas['Worker'];

/** A name has its host, its process id and a random part, such as `web-3-4711-0b5ff109`. */
export function hostOf(consumer: string): { host: string; rest: string } {
  const [, host, rest] = /^(.+)-(\d+-[0-9a-f]+)$/.exec(consumer) ?? [];
  return host && rest ? { host, rest } : { host: consumer, rest: '' };
}

/** Puts what has the same name together. Browsers have `Map.groupBy` for it, which old versions of Node lack. */
function grouped<T>(all: T[], name: (each: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const each of all) groups.set(name(each), [...(groups.get(name(each)) ?? []), each]);
  return groups;
}

/** Workers of one version and one configuration. */
export interface Build {
  version: string;
  config: string | null;
  workers: Worker[];
}

/** The builds that run, the most common first. More than one means that a rollout is on its way, or was forgotten. */
export function builds(workers: Worker[]): Build[] {
  const groups = grouped(workers, (worker) => `${worker.version} ${worker.config ?? ''}`);
  const all = [...groups.values()].map((group) => ({ version: group[0]!.version, config: group[0]!.config ?? null, workers: group }));
  return all.sort((one, other) => other.workers.length - one.workers.length || (one.version < other.version ? 1 : -1));
}

/** What most workers have, by which others stand out; undefined if there is no such thing. */
export function usual(values: (string | null | undefined)[]): string | undefined {
  const counts = [...grouped(values, (value) => value ?? '')].map(([value, same]) => [value, same.length] as const);
  const [first, second] = counts.sort((one, other) => other[1] - one[1]);
  return first && first[1] !== second?.[1] ? first[0] : undefined;
}

export interface Runs {
  /** The types with how many jobs of each run, the most common first. */
  types: [string, number][];
  /** When the one began that has run the longest. */
  sinceMs?: number;
}

/** What each worker runs. */
export function runs(jobs: JobRow[]): Map<string, Runs> {
  const of = grouped(jobs, (job) => job.worker ?? '');
  return new Map(
    [...of].map(([worker, jobs]) => {
      const types = [...grouped(jobs, (job) => job.type)].map(([type, same]): [string, number] => [type, same.length]);
      const began = jobs.flatMap((job) => job.started_ms ?? []);
      return [worker, { types: types.sort((one, other) => other[1] - one[1]), sinceMs: began.length ? Math.min(...began) : undefined }];
    }),
  );
}
