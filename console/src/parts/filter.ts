// Filters as a person types them (`queue:mail payload.customer=9 since:1h`) and as the API takes them, which is how addresses have them.

import type { Schemas } from '../api/client';

export interface Filter {
  /** The parameter of the API. */
  name: string;
  value: string;
}

/** What people type before the colon, with the parameter that it is. The first word of a parameter is what chips show. */
export type FilterWords = Record<string, string>;

/** The words of lists of jobs, which also take `payload.` and `h.`. A word that is no filter is a text to look for. */
export const JOB_WORDS: FilterWords = {
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

const MANY = new Set(['queue', 'where', 'header']);

/** Reads what was typed. What is no filter is one of the parameter `plain`. */
export function read(typed: string, words = JOB_WORDS, plain = 'text'): Filter | undefined {
  const text = typed.trim();
  if (!text) return undefined;
  if (words !== JOB_WORDS) return readWord(text, words, plain);
  if (/^payload\.[^=<>!]+([=<>!]|$)/.test(text)) return { name: 'where', value: text };
  if (/^(h|header)\.[^=]+=/.test(text)) return { name: 'header', value: text.replace(/^(h|header)\./, '') };
  return readWord(text, words, plain);
}

function readWord(text: string, words: FilterWords, plain: string): Filter {
  const [, word, value] = /^(\w+):(.+)$/s.exec(text) ?? [];
  const name = word && words[word.toLowerCase()];
  return name && value ? { name, value: value.trim() } : { name: plain, value: text };
}

/** What a chip shows: typing it again gives the same filter. */
export function write({ name, value }: Filter, words = JOB_WORDS): string {
  if (name === 'where') return value;
  if (name === 'header') return `h.${value}`;
  const word = Object.keys(words).find((word) => words[word] === name) ?? name;
  return `${word}:${value}`;
}

/** The filters of an address. */
export function filtersOf(query: URLSearchParams, words = JOB_WORDS): Filter[] {
  const known = new Set([...(words === JOB_WORDS ? ['where', 'header'] : []), ...Object.values(words)]);
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
