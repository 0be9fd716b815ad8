// Which dead letters an action is about.
import type { Schemas } from '../api/client';

export type LetterFilter = Partial<Schemas['Selection']>;

/** A dead letter, or its job: the API finds it by either id. */
export interface Chosen {
  queue: string;
  id: string;
}

/** A filter as flags of a command. */
export function letterFlags(filter: LetterFilter): Record<string, string | string[]> {
  const flags = Object.entries(filter).filter(([, value]) => value != null);
  return Object.fromEntries(flags.map(([name, value]) => [name === 'reason' ? 'dead-reason' : name.replace('_', '-'), value])) as Record<string, string | string[]>;
}
