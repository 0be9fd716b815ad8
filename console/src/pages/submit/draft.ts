// A job that is being written: as the form has it, as the API takes it, and as a command.
import { send } from '../../api/client';
import { exact, written } from '../../api/exact';
import { command, word } from '../../parts/command';
import { copiedHeadersOf } from '../job/submit';

export interface Draft {
  queue: string;
  type: string;
  payload: string;
  encoding: string;
  id: string;
  lane: string;
  delay: string;
  max_attempts: number | null;
  timeout: string;
  expires_in: string;
  unique: string;
  unique_scope: string;
  unique_mode: string;
  on_success: string;
  on_failure: string;
  then: string;
  track: boolean;
  /** One per line: `name: value`. */
  headers: string;
}

export function emptyDraft(queue = '', type = ''): Draft {
  const none = { id: '', delay: '', timeout: '', expires_in: '', unique: '', on_success: '', on_failure: '', then: '', headers: '' };
  return { queue, type, payload: '', encoding: 'json', lane: 'normal', max_attempts: null, unique_scope: 'running', unique_mode: 'reject', track: false, ...none };
}

/** The headers of the form. A line without a colon is none. */
export function headersOf(text: string): Record<string, string> {
  const lines = text.split('\n').map((line) => /^\s*([^:\s]+)\s*:\s*(.*?)\s*$/.exec(line)).filter((line) => line !== null);
  return Object.fromEntries(lines.map(([, name, value]) => [name!, value!]));
}

/** The fields besides the payload and the chain, as far as they say something. */
function fieldsOf(draft: Draft): Record<string, unknown> {
  const { id, delay, timeout, expires_in, unique, on_success, on_failure } = draft;
  const texts = Object.entries({ id, delay, timeout, expires_in, unique, on_success, on_failure }).flatMap(([name, value]) => (value.trim() ? [[name, value.trim()]] : []));
  return {
    type: draft.type.trim(),
    ...Object.fromEntries(texts),
    ...(draft.encoding === 'json' ? {} : { encoding: draft.encoding }),
    ...(draft.lane === 'normal' ? {} : { lane: draft.lane }),
    ...(draft.max_attempts ? { max_attempts: draft.max_attempts } : {}),
    ...(unique.trim() ? { unique_scope: draft.unique_scope, unique_mode: draft.unique_mode } : {}),
    ...(draft.track ? { track: true } : {}),
    ...(draft.headers.trim() ? { headers: headersOf(draft.headers) } : {}),
  };
}

/** The body of the request. The payload is sent as it is written: numbers of any size, keys in their order. */
export function bodyOf(draft: Draft): string {
  const raw = [
    ['payload', draft.encoding === 'raw' ? JSON.stringify(draft.payload) : draft.payload.trim()],
    ['then', draft.then.trim()],
  ].filter(([, json]) => json);
  const fields = JSON.stringify(fieldsOf(draft)).slice(0, -1);
  return `${fields}${raw.map(([name, json]) => `,"${name}":${json}`).join('')}}`;
}

/** JSON in one line: outside of its texts, a line end says nothing, and inside it has none. */
const line = (json: string) => json.trim().replaceAll(/\s*\n\s*/g, ' ');

/** The most bytes of a payload in a command. Linux takes 128 KiB for one argument, with what quotes it. */
const MOST_BYTES = 32_000;

/** How a command gets the payload: as an argument, from its input, or from a file that somebody has to write. */
export type Source = { kind: 'argument' | 'input' | 'file'; text: string };

/** The file that a command reads. */
export const FILE = 'payload.txt';

/** How the command of a job gets its payload. An argument `-` or `@…` would name another source, and none contains a zero byte. */
export function sourceOf({ payload, encoding }: Draft): Source {
  const text = encoding === 'raw' ? payload : line(payload);
  if (text.includes('\0') || new TextEncoder().encode(text).length > MOST_BYTES) return { kind: 'file', text };
  return { kind: text === '-' || text.startsWith('@') ? 'input' : 'argument', text };
}

/** The command that submits the same job. */
export function commandOf(draft: Draft): string {
  const { type, track, headers, ...fields } = fieldsOf(draft) as Record<string, string> & { track?: true; headers?: Record<string, string> };
  const flags = Object.entries(fields).map(([name, value]) => [name.replaceAll('_', '-'), value]);
  const header = Object.entries(headers ?? {}).map(([name, value]) => `${name}=${value}`);
  const { kind, text } = sourceOf(draft);
  const payload = { argument: text, input: '-', file: `@${FILE}` }[kind];
  const enqueue = command('enqueue', { queue: draft.queue, ...Object.fromEntries(flags), then: line(draft.then), track, header }, [type || 'TYPE', payload].filter(Boolean));
  return kind === 'input' ? `printf %s ${word(text)} | ${enqueue}` : enqueue;
}

/** A job as the API shows it, read without loss. */
export interface Sample {
  queue: string;
  type: string;
  lane: string;
  payload?: unknown;
  payload_bytes?: number;
  payload_unseen?: string;
  encoding?: string;
  headers?: Record<string, string>;
  terms?: Record<string, string>;
  then?: unknown;
}

/** Reads a job with all of its payload. Without a queue, it is looked for in all of them. */
export async function sampleOf(queue: string, id: string): Promise<Sample> {
  const path = queue ? `/api/v1/queues/${encodeURIComponent(queue)}/jobs/${encodeURIComponent(id)}` : `/api/v1/jobs/${encodeURIComponent(id)}`;
  const response = await send(new Request(`${path}?full=true`, { headers: { accept: 'application/json' } }));
  return exact(await response.text()) as Sample;
}

/** What is submitted to get another job like this one: everything but its id and its batch. */
export function draftLike(job: Sample): Draft {
  const { terms = {} } = job;
  const headers = copiedHeadersOf(job);
  const text = job.encoding === 'raw' ? String(job.payload ?? '') : job.payload_bytes ? written(job.payload) : '';
  return {
    ...emptyDraft(job.queue, job.type),
    payload: text,
    encoding: job.encoding ?? 'json',
    lane: job.lane,
    max_attempts: terms.max_attempts ? Number(terms.max_attempts) : null,
    timeout: terms.timeout_ms ? `${terms.timeout_ms}ms` : '',
    on_success: terms.on_success ?? '',
    on_failure: terms.on_failure ?? '',
    then: job.then ? written(job.then) : '',
    track: terms.tracking === 'all',
    // The hash of an idempotency key belongs to the other job.
    headers: Object.entries(headers).filter(([name]) => name !== 'idempotency').map(([name, value]) => `${name}: ${value}`).join('\n'),
  };
}

/** The name that is most like this one: at most two letters differ. */
export function nearest(name: string, known: string[]): string | undefined {
  const near = known.map((each) => ({ each, far: distance(name, each) })).filter(({ far }) => far > 0 && far <= 2);
  return near.sort((one, other) => one.far - other.far)[0]?.each;
}

function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, nth) => nth);
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (one[i - 1] === other[j - 1] ? 0 : 1)));
    // Two letters in the wrong order are one mistake.
    row = next.map((value, j) => (j > 1 && i > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1] ? Math.min(value, row[j - 1]!) : value));
  }
  return row[other.length]!;
}
