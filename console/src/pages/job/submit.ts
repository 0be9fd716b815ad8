// Commands that submit the same job: for a shell, PHP, Python and curl. What a job contains cannot leave its quotes.
import { written } from '../../api/exact';
import { bytesOf, CONTROLS, word as shell } from '../../parts/command';
import type { Job } from './job';

/** A command, with the name of its language. */
export interface Way {
  name: string;
  text: string;
}

const TERMS = ['max_attempts', 'timeout_ms', 'expires_at_ms', 'tracking', 'on_success', 'on_failure', 'batch'];

/** Whether the id names the job. The others are those of their entries. */
const isOwn = (id: string) => !/^\d+-\d+$/.test(id);

/** A text for PHP. */
export function php(value: string): string {
  if (value.search(CONTROLS) >= 0) return `"${value.replace(/["\\$]/g, '\\$&').replace(CONTROLS, bytesOf)}"`;
  return `'${value.replace(/[\\']/g, '\\$&')}'`;
}

/** A text for Python: JSON's are such, too. */
export function python(value: string): string {
  return JSON.stringify(value).replace(CONTROLS, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The commands. Those that cannot submit this job are left out; all are if its payload is not known or is no text. */
export function waysOf(job: Job, namespace: string): Way[] {
  if (job.payload === undefined || job.payload_cut || job.payload_unseen || job.encoding === 'msgpack') return [];
  const payload = job.encoding === 'raw' ? (typeof job.payload === 'string' ? job.payload : undefined) : job.payload_bytes ? written(job.payload, 0) : '';
  if (payload === undefined) return [];
  const fields = fieldsOf(job, payload);
  const stream = `${namespace}:{${job.queue}}:jobs${job.lane === 'normal' ? '' : `:${job.lane}`}`;
  const pairs = (write: (text: string) => string, sign: string) => fields.map(([name, value]) => `    ${write(name)}${sign} ${write(value)},\n`).join('');
  const all: [string, string | undefined][] = [
    ['streamfleet', commandLine(job, payload)],
    ['redis-cli', `redis-cli XADD ${shell(stream)} '*' ${fields.flat().map(shell).join(' ')}`],
    ['PHP', `$redis->xAdd(${php(stream)}, '*', [\n${pairs(php, ' =>')}]);`],
    ['Python', `client.xadd(${python(stream)}, {\n${pairs(python, ':')}})`],
    ['curl', curl(job)],
  ];
  return all.flatMap(([name, text]) => (text === undefined ? [] : [{ name, text }]));
}

/** The fields of the entry. */
function fieldsOf(job: Job, payload: string): [string, string][] {
  const { terms = {} } = job;
  const headers = copiedHeadersOf(job);
  const fields: [string, string][] = [['type', job.type]];
  if (payload) fields.push(['payload', payload]);
  if (job.encoding !== 'json') fields.push(['encoding', job.encoding!]);
  for (const [name, value] of Object.entries(headers)) fields.push([`h.${name}`, value]);
  if (isOwn(job.id)) fields.push(['id', job.id]);
  if (job.state === 'scheduled' && job.due_ms) fields.push(['run_at_ms', String(job.due_ms)]);
  for (const name of TERMS) if (terms[name] !== undefined) fields.push([name, terms[name]]);
  if (job.then) fields.push(['then', written(job.then, 0)]);
  return fields;
}

/** The headers. A payload that is shown decompressed is sent so. */
export function copiedHeadersOf({ headers = {}, encoding }: { headers?: Record<string, string>; encoding?: string }): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'codec' || encoding === 'raw'));
}

const instant = (ms: string) => new Date(Number(ms)).toISOString();

/** `undefined` if the command line would read a file or take the payload for an option, or has no option for a term. */
function commandLine(job: Job, payload: string): string | undefined {
  if (/^[@-]/.test(payload) || job.type.startsWith('-') || job.terms?.batch) return undefined;
  const { terms = {} } = job;
  const words = ['streamfleet enqueue', shell(job.type)];
  if (payload) words.push(shell(payload));
  words.push(`--queue ${shell(job.queue)}`);
  if (job.lane !== 'normal') words.push(`--lane ${job.lane}`);
  if (job.encoding !== 'json') words.push(`--encoding ${job.encoding}`);
  for (const [name, value] of Object.entries(copiedHeadersOf(job))) words.push(`--header ${shell(`${name}=${value}`)}`);
  if (isOwn(job.id)) words.push(`--id=${shell(job.id)}`);
  if (job.state === 'scheduled' && job.due_ms) words.push(`--at=${new Date(job.due_ms).toISOString()}`);
  if (terms.max_attempts) words.push(`--max-attempts=${shell(terms.max_attempts)}`);
  if (terms.timeout_ms) words.push(`--timeout=${shell(`${terms.timeout_ms}ms`)}`);
  if (terms.expires_at_ms) words.push(`--expires-at=${instant(terms.expires_at_ms)}`);
  if (terms.tracking === 'all') words.push('--track');
  if (terms.on_success) words.push(`--on-success=${shell(terms.on_success)}`);
  if (terms.on_failure) words.push(`--on-failure=${shell(terms.on_failure)}`);
  if (job.then) words.push(`--then=${shell(written(job.then, 0))}`);
  return words.join(' ');
}

/** `undefined` if the API has no member for a term. */
function curl(job: Job): string | undefined {
  const { terms = {} } = job;
  const headers = copiedHeadersOf(job);
  if (terms.batch) return undefined;
  const body: Record<string, unknown> = { type: job.type, payload: job.payload };
  if (job.encoding !== 'json') body.encoding = job.encoding;
  if (job.lane !== 'normal') body.lane = job.lane;
  if (Object.keys(headers).length) body.headers = headers;
  if (isOwn(job.id)) body.id = job.id;
  if (job.state === 'scheduled' && job.due_ms) body.at = new Date(job.due_ms).toISOString();
  if (terms.max_attempts) body.max_attempts = Number(terms.max_attempts);
  if (terms.timeout_ms) body.timeout = Number(terms.timeout_ms);
  if (terms.expires_at_ms) body.expires_at = instant(terms.expires_at_ms);
  if (terms.tracking === 'all') body.track = true;
  if (terms.on_success) body.on_success = terms.on_success;
  if (terms.on_failure) body.on_failure = terms.on_failure;
  if (job.then) body.then = job.then;
  const address = `"$CONSOLE"/api/v1/queues/${shell(encodeURIComponent(job.queue))}/jobs`;
  return `curl -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\\n  -d ${shell(written(body, 0))} \\\n  ${address}`;
}
