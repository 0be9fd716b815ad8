// One dead letter: its fields, its payload as people read it, and the revision that an edit is based on.
import { api, ok, type Schemas } from './client';
import { exact, written } from './exact';

export type LetterFields = Schemas['DeadLetterFields'];

export interface ReadLetter {
  letter: LetterFields;
  /** Its payload as JSON: decoded if it is MessagePack. Undefined if it cannot be decoded or may not be seen. */
  payload?: string;
  etag: string;
}

/** The value of a field, if it is text. */
export function valueOf(letter: LetterFields, name: string): string | undefined {
  return letter.fields.find((field) => field.name === name && field.form === 'utf8')?.value;
}

/** Why nobody can see the payload, if codecs have encrypted it or stored it apart. */
export function unseenOf(letter: LetterFields): string | undefined {
  return letter.fields.find((field) => field.name === 'payload' && field.form === 'unseen')?.value;
}

/** Reads a letter by its id, or that of its job. */
export async function readLetter(queue: string, id: string, signal?: AbortSignal): Promise<ReadLetter> {
  const asked = await api.GET('/api/v1/queues/{queue}/dead/{letter}', { params: { path: { queue, letter: id } }, signal });
  const letter = asked.data as LetterFields;
  const read: ReadLetter = { letter, etag: asked.response.headers.get('etag') ?? '' };
  const encoding = valueOf(letter, 'encoding') || 'json';
  // The text itself keeps numbers that JavaScript would round.
  if (encoding === 'json') return { ...read, payload: valueOf(letter, 'payload') };
  if (encoding !== 'msgpack' || !letter.fields.length) return read;
  const path = { queue, id: letter.id };
  const job = (await ok(api.GET('/api/v1/queues/{queue}/jobs/{id}', { params: { path, query: { full: true } }, signal })).catch(() => undefined)) as { payload?: unknown } | undefined;
  return { ...read, payload: job?.payload === undefined ? undefined : JSON.stringify(job.payload) };
}

/** A value before an edit: null if there was none, cut if it was long, and only its size if it was not text. */
export type Former = string | null | { text?: string; bytes: number };

/** What a letter was before an edit: its id then, and the values that the edit changed. */
export interface Before {
  letter: string;
  /** Absent if they were too long to be kept. */
  fields?: Record<string, Former>;
}

/** The states of a letter before each of its edits, the first one first. */
export function editsOf(letter: LetterFields): Before[] {
  try {
    const edits: unknown = JSON.parse(valueOf(letter, 'dead_before') ?? '[]');
    return Array.isArray(edits) ? (edits as Before[]).filter((edit) => typeof edit?.letter === 'string') : [];
  } catch {
    return [];
  }
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** JSON in lines, with all digits of its numbers. What is not JSON stays as it is. */
export function pretty(json: string | undefined): string {
  if (json === undefined) return '';
  return isJson(json) ? written(exact(json)) : json;
}
