// Which dead letters an action is about, and the commands that name them.
import type { Schemas } from '../api/client';
import { command } from '../parts/command';

export type LetterFilter = Partial<Schemas['Selection']>;

/** A dead letter, or its job: the API finds it by either id. */
export interface Chosen {
  queue: string;
  id: string;
}

/** How many letters commands name: more would be too long to look at. */
export const MOST_NAMED = 50;

/** The commands that do it to these letters: one for each queue. */
export function commandsOf(action: 'replay' | 'drop', letters: Chosen[], reason: string): string {
  const queues = new Map<string, string[]>();
  for (const { queue, id } of letters) queues.set(queue, [...(queues.get(queue) ?? []), id]);
  return [...queues].map(([queue, ids]) => command(`dead ${action}`, { queue, reason }, ids)).join('\n');
}

/** A filter as flags of a command. */
export function letterFlags(filter: LetterFilter): Record<string, string | string[]> {
  const flags = Object.entries(filter).filter(([, value]) => value != null);
  return Object.fromEntries(flags.map(([name, value]) => [name === 'reason' ? 'dead-reason' : name.replace('_', '-'), value])) as Record<string, string | string[]>;
}
