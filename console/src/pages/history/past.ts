// The jobs of a queue that ended long ago, as its history has them.
import { api, Failure, ok, type Schemas } from '../../api/client';
import { exact } from '../../api/exact';
import type { Filter, FilterWords } from '../../parts/filter';
import type { Job } from '../job/job';

export type PastJob = Schemas['PastJob'];
export type PastLife = Schemas['PastLife'];

/** The words of the list. `since` and `until` are about ends. */
export const PAST_WORDS: FilterWords = { state: 'state', type: 'type', id: 'id', key: 'key', version: 'version', group: 'group', since: 'since', until: 'until' };

/** The states of jobs that ended. */
export const ENDS = ['done', 'dead', 'cancelled'] as const;

/** The longest time over which the API counts, in milliseconds. */
const DAY_MS = 86_400_000;

/** The most queues whose history is asked for an id. */
const MOST_QUEUES = 10;

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: DAY_MS, w: 7 * DAY_MS };

/** A text such as `customer=9` or `payload.customer=9` is about a field, not an id. */
export function asPast(filters: Filter[]): Filter[] {
  return filters.map((filter) => (filter.name === 'id' && /^[A-Za-z_][\w.-]*=[^=]/.test(filter.value) ? { name: 'key', value: filter.value.replace(/^payload\./, '') } : filter));
}

/** How long a text such as `7d` or `1h 30m` is, in milliseconds; undefined if it is no duration. */
function lengthOf(text: string): number | undefined {
  const parts = [...text.matchAll(/(\d+)\s*(ms|[smhdw])\s*/g)];
  if (!parts.length || parts.map(([whole]) => whole).join('') !== text) return undefined;
  return parts.reduce((sum, [, digits, unit]) => sum + Number(digits) * UNITS[unit!]!, 0);
}

/** The instant that a person means by `7d` (so long ago) or by a day, as the API takes it. What is neither is for the API to judge. */
export function instantOf(text: string, nowMs: number): string {
  const ago = lengthOf(text.trim());
  if (ago !== undefined) return new Date(Math.max(0, nowMs - ago)).toISOString();
  const isDay = /^\d{4}-\d\d-\d\d$/.test(text);
  const civil = isDay || /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?$/.test(text);
  const at = civil ? new Date(isDay ? `${text}T00:00` : text.replace(' ', 'T')) : undefined;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString() : text;
}

/** The filters as the API takes them: times are instants, so that further pages are about the time of the first. */
export function conditionsOf(filters: Filter[], nowMs: number): Record<string, string> {
  return Object.fromEntries(filters.map(({ name, value }) => [name, name === 'since' || name === 'until' ? instantOf(value, nowMs) : value]));
}

/** How far back counts go that fit the filters: at most a day, which is all that the API counts. In milliseconds. */
export function backOf(filters: Filter[], nowMs: number): number {
  const since = filters.find(({ name }) => name === 'since');
  const at = since ? Date.parse(instantOf(since.value, nowMs)) : NaN;
  return Number.isNaN(at) ? DAY_MS : Math.min(DAY_MS, Math.max(1000, nowMs - at));
}

/** How the jobs of a type ended. */
export interface TypeEnds {
  type: string;
  ends: Record<string, number>;
  jobs: number;
}

/** The counts by type, the type with the most jobs first. */
export function byType(counts: Schemas['PastCount'][]): TypeEnds[] {
  const types = new Map<string, TypeEnds>();
  for (const { type, state, jobs } of counts) {
    const row = types.get(type) ?? { type, ends: {}, jobs: 0 };
    row.ends[state] = (row.ends[state] ?? 0) + jobs;
    row.jobs += jobs;
    types.set(type, row);
  }
  return [...types.values()].sort((one, other) => other.jobs - one.jobs || one.type.localeCompare(other.type));
}

/** What the history knows about an id: its lives, the latest first. Without any, whether there is a history. */
export interface Past {
  lives: PastLife[];
  hasHistory: boolean;
}

const isMissing = (error: unknown): boolean => error instanceof Failure && error.status === 404;

/** Reads the lives of an id. Numbers of payloads and results keep all their digits. */
export async function readPast(queue: string, id: string, signal?: AbortSignal): Promise<Past> {
  try {
    const { data } = await api.GET('/api/v1/queues/{queue}/history/{id}', { params: { path: { queue, id } }, signal, parseAs: 'text' });
    return { lives: exact(String(data)) as PastLife[], hasHistory: true };
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  // The answer does not say whether the job is missing or the history.
  return { lives: [], hasHistory: (await isPast(queue, id, signal)) !== undefined };
}

/** Whether the history of a queue knows an id; undefined if there is no history. */
export async function isPast(queue: string, id: string, signal?: AbortSignal): Promise<boolean | undefined> {
  const list = api.GET('/api/v1/queues/{queue}/history', { params: { path: { queue }, query: { id, limit: 1 } }, signal });
  return ok(list).then(
    ({ items }) => items.length > 0,
    (error: unknown) => {
      if (!isMissing(error)) throw error;
      return undefined;
    },
  );
}

/** Which of the first queues know an id in their history. */
export async function queuesOfPast(id: string, signal: AbortSignal): Promise<string[]> {
  const { items } = await ok(api.GET('/api/v1/queues', { signal }));
  const found: string[] = [];
  for (const { queue } of items.slice(0, MOST_QUEUES)) {
    const isKnown = await isPast(queue, id, signal);
    if (isKnown === undefined) break;
    if (isKnown) found.push(queue);
  }
  return found;
}

/** A life as the parts of the page of a job take it. */
export function asJob(queue: string, life: PastLife): Job {
  const attempts = life.runs.map(({ started_ms, ended_ms, outcome, worker, error }) => {
    const started = started_ms ?? ended_ms;
    return { started_ms: started, ended_ms, outcome, worker: worker ?? '', error: error ?? undefined };
  });
  const { id, type, lane, state, created_ms, error, result } = life;
  return { id, queue, type, lane, state, created_ms, error, result, attempts, log: [], logged: 0, ...life.input } as unknown as Job;
}
