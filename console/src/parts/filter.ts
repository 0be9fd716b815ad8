// Filters as a person types them (`queue:mail payload.customer=9 since:1h`) and as the API takes them, which is how addresses have them.

import type { Schemas } from '../api/client';

export interface Filter {
  /** The parameter of the API. */
  name: string;
  value: string;
}

// What people type before the colon. The first one of a parameter is what chips show.
const WORDS: Record<string, string> = {
  queue: 'queue',
  state: 'state',
  type: 'type',
  id: 'id_prefix',
  error: 'error',
  text: 'text',
  since: 'since',
  until: 'until',
  older: 'older_than',
  group: 'group',
  reason: 'reason',
  gate: 'gate',
  kind: 'kind',
};

/** The words that can stand before a colon. */
export const FILTER_WORDS = Object.keys(WORDS);

const MANY = new Set(['queue', 'where', 'header']);

/** Reads what was typed. A word that is no filter is a text to look for. */
export function read(typed: string): Filter | undefined {
  const text = typed.trim();
  if (!text) return undefined;
  if (/^payload\.[^=<>!]+([=<>!]|$)/.test(text)) return { name: 'where', value: text };
  if (/^(h|header)\.[^=]+=/.test(text)) return { name: 'header', value: text.replace(/^(h|header)\./, '') };
  const [, word, value] = /^(\w+):(.+)$/s.exec(text) ?? [];
  const name = word && WORDS[word.toLowerCase()];
  return name && value ? { name, value: value.trim() } : { name: 'text', value: text };
}

/** What a chip shows: typing it again gives the same filter. */
export function write({ name, value }: Filter): string {
  if (name === 'where') return value;
  if (name === 'header') return `h.${value}`;
  const word = FILTER_WORDS.find((word) => WORDS[word] === name) ?? name;
  return `${word}:${value}`;
}

/** The filters of an address. */
export function filtersOf(query: URLSearchParams): Filter[] {
  const known = new Set(['where', 'header', ...Object.values(WORDS)]);
  return [...query].filter(([name, value]) => known.has(name) && value !== '').map(([name, value]) => ({ name, value }));
}

/** The filters as the body of a change has them. `queue` and `state` are not among them. */
export function selectionOf(filters: Filter[]): Partial<Schemas['Selection']> {
  const selection: Record<string, string | string[]> = {};
  for (const { name, value } of filters) {
    if (name === 'queue' || name === 'state') continue;
    selection[name] = name === 'where' || name === 'header' ? [...(selection[name] ?? []), value] : value;
  }
  return selection;
}

/** The address's query with these filters. */
export function queryOf(filters: Filter[]): URLSearchParams {
  return new URLSearchParams(filters.map(({ name, value }) => [name, value]));
}

/** Adds a filter. It replaces one of the same name, unless there can be several. */
export function withFilter(filters: Filter[], added: Filter): Filter[] {
  const isSame = (other: Filter) => other.name === added.name && (!MANY.has(added.name) || other.value === added.value);
  return [...filters.filter((other) => !isSame(other)), added];
}
