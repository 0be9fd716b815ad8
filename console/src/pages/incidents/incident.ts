// What an incident is about, and where one looks further.
import type { Incident } from '../../api/client';
import { session } from '../../api/session.svelte';
import { to, toWith } from '../../shell/router.svelte';
import { count, exception } from '../../words/format';
import { words } from '../../words/words.svelte';

const DIE = new Set(['dead_group', 'dead_rate', 'dead_job']);
const WARNS = new Set(['backlog', 'needs_decision', 'queue_paused', 'task_stopped', 'campaign_stopped', 'history_behind']);

export const isAboutDead = ({ kind }: Incident): boolean => DIE.has(kind);
export const severity = ({ kind }: Incident): 'bad' | 'warn' => (WARNS.has(kind) ? 'warn' : 'bad');

/** What is wrong, in words. The API has more to say, but only in English. */
export function saidOf({ kind, count: jobs, type, key, detail }: Incident): string {
  if (words.language === 'en') return detail;
  const said = words.of('incident.said', kind, { count: count(jobs), type, key });
  return said === kind ? detail : said;
}

/** The line that says most: the exception, or what is wrong. */
export const lineOf = (incident: Incident): string => exception(incident.example_error) || saidOf(incident);

/** The page that shows what is wrong; undefined if there is none. */
export function placeOf({ kind, queue, key, type }: Incident): string | undefined {
  if (kind === 'redis_memory') return session.may('viewer') ? to('redis') : undefined;
  if (kind === 'no_worker' || kind === 'pool_down' || kind === 'unserved_type') return to('workers');
  if (!queue) return undefined;
  if (kind === 'dead_group' && key !== '*') return to('queues', queue, 'dead', 'groups', key);
  if (kind === 'dead_job' && key !== '*') return to('queues', queue, 'dead', key);
  if (DIE.has(kind)) return to('queues', queue, 'dead');
  if (kind === 'needs_decision') return toWith(['decisions'], { queue });
  if (kind.endsWith('_stopped') && key !== '*') return to('queues', queue, 'tasks', key);
  return type ? toWith(['jobs'], { queue, type, state: 'waiting' }) : to('queues', queue);
}

/** What a sink has done with the messages about an incident. */
export interface Delivery {
  sink: string;
  taken: number;
  /** The number of the last message that it has not taken. */
  refused?: number;
}

export function deliveries({ sinks, given_up }: Incident): Delivery[] {
  const names = [...new Set([...Object.keys(sinks), ...Object.keys(given_up)])].sort();
  return names.map((sink) => ({ sink, taken: sinks[sink] ?? 0, refused: given_up[sink] }));
}

export interface Moment {
  kind: 'since' | 'opened' | 'acknowledged' | 'resolved' | 'now';
  atMs: number;
}

/** What happened to an incident, in its order. */
export function moments(incident: Incident, nowMs: number): Moment[] {
  const all: Moment[] = [{ kind: 'since', atMs: incident.since_ms }];
  if (incident.opened_ms) all.push({ kind: 'opened', atMs: incident.opened_ms });
  all.push(incident.resolved_ms ? { kind: 'resolved', atMs: incident.resolved_ms } : { kind: 'now', atMs: nowMs });
  return all.sort((one, other) => one.atMs - other.atMs);
}
