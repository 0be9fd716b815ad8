/**
 * Submits jobs to a streamfleet fleet, and handles them, in Node.
 *
 * The producer sends what docs/wire.md lets every language send: one XADD per job, no script, no key of its own. `Http` asks the HTTP API
 * for what needs a script, and `Cli` starts the program `streamfleet enqueue` for it. The worker takes jobs over standard input and
 * answers them over standard output, one JSON object per line. Only `Http` opens a connection.
 */
'use strict';

const { AsyncLocalStorage } = require('node:async_hooks');
const { spawn } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { EventEmitter } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const tty = require('node:tty');
const { inspect } = require('node:util');
const { isMainThread } = require('node:worker_threads');

const { version: VERSION } = require('./package.json');
const codecsOf = require('./codecs.js');
const fakes = require('./fakes.js');
const http = require('./http.js');
const sql = require('./sql.js');
const trace = require('./trace.js');
const PROTOCOL = 1;

/** The worker reads no longer line, if it does not say. */
const MOST_LINE_BYTES = 16 * 1024 * 1024;
const LEAST_LINE_BYTES = 1024;
/** The bytes of a line besides a text, and how many bytes JSON takes for a byte of a text. */
const AROUND_TEXT = 400;
const ESCAPED = 6;

/** What the worker has said about lines. */
let mostLineBytes = MOST_LINE_BYTES;
let mostTextBytes = MOST_LINE_BYTES;

function limitLines(most) {
  mostLineBytes = Number.isSafeInteger(most) ? Math.max(LEAST_LINE_BYTES, most) : MOST_LINE_BYTES;
  mostTextBytes = Math.floor((mostLineBytes - AROUND_TEXT) / ESCAPED);
}

// ---------------------------------------------------------------------------------------------------------------- JSON

/** Stands for a BigInt inside JSON text for a moment. Nobody outside of this process can know it. */
const MARK = `bigint-${randomBytes(12).toString('hex')}:`;
const MARKED = new RegExp(`"${MARK}(-?[0-9]+)"`, 'g');
/** The worker reads JSON that is nested up to 127 levels deep, and the line around a result is one of them. */
const MOST_LEVELS = 120;

/** Encodes a value; undefined if JSON has nothing for it. A BigInt becomes a number, and broken surrogates are replaced. */
function toJson(value) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // A BigInt, or a circle, which throws again.
    text = JSON.stringify(value, (_key, each) => (typeof each === 'bigint' ? MARK + in64Bits(each) : each));
    text = text.replace(MARKED, '$1');
  }
  if (text === undefined) return undefined;
  // JSON.stringify escapes only surrogates without a partner. Other languages refuse them.
  if (text.includes('\\ud')) text = text.replace(ESCAPE, (escape) => (SURROGATE.test(escape) ? '\\ufffd' : escape));
  checkDepth(text);
  return text;
}

/**
 * Encodes a payload. JSON.stringify makes `{}` of a map or a set, and the producer would learn of it only from its handler. Other values
 * are not walked through a second time.
 */
function payloadJson(value) {
  const text = toJson(value);
  if (text?.includes('{}')) JSON.stringify(value, withoutCollections);
  return text;
}

function withoutCollections(_key, value) {
  if (value instanceof Map || value instanceof Set) throw new TypeError(`JSON has no ${value.constructor.name}`);
  return typeof value === 'bigint' ? 0 : value;
}

const ESCAPE = /\\(?:u[0-9a-f]{4}|.)/g;
const SURROGATE = /^\\ud[89a-f]/;

/**
 * Encodes the result of a handler. JSON.stringify leaves out or changes NaN, functions, symbols, maps, sets, bytes inside of a value and
 * broken surrogates without a word. Here they are errors, as they are in other languages. An undefined property is no property.
 */
function resultJson(value) {
  let text = JSON.stringify(value, exactly);
  if (text === undefined) throw new TypeError('it is not a JSON value');
  if (text.includes(MARK)) text = text.replace(MARKED, '$1');
  if (text.includes('\\ud') && text.match(ESCAPE).some((escape) => SURROGATE.test(escape))) {
    throw new RangeError('it has a text that is not Unicode: a surrogate without a partner');
  }
  checkDepth(text);
  return text;
}

/** A replacer of JSON.stringify. `this` is the object around the value, which has it before its toJSON was called. */
function exactly(key, value) {
  if (typeof value === 'bigint') return MARK + in64Bits(value);
  if (typeof value === 'number' && !Number.isFinite(value)) throw new RangeError(`JSON has no ${value}`);
  if (typeof value === 'function' || typeof value === 'symbol') throw new TypeError(`JSON has no ${typeof value}`);
  if (value instanceof Map || value instanceof Set) throw new TypeError(`JSON has no ${value.constructor.name}`);
  if (asBytes(this[key]) !== undefined) throw new TypeError('it has bytes inside of a value; return them alone, or as text');
  return value;
}

function checkDepth(text) {
  if (text.length > 2 * MOST_LEVELS && isTooDeep(text)) {
    throw new RangeError(`it is nested more than ${MOST_LEVELS} levels deep`);
  }
}

function in64Bits(number) {
  if (number < -(2n ** 63n) || number >= 2n ** 64n) {
    throw new RangeError(`the number ${number} does not fit into 64 bits; send it as text`);
  }
  return number;
}

function isTooDeep(text) {
  let levels = 0;
  for (let at = 0; at < text.length; at += 1) {
    const c = text.charCodeAt(at);
    if (c === 34) at = endOfString(text, at) - 1;
    else if (c === 91 || c === 123) {
      levels += 1;
      if (levels > MOST_LEVELS) return true;
    } else if (c === 93 || c === 125) levels -= 1;
  }
  return false;
}

/** Returns the index behind the string that begins here. */
function endOfString(text, start) {
  let at = start + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let before = quote - 1;
    while (before > start && text.charCodeAt(before) === 92) before -= 1;
    if ((quote - before) % 2 === 1) return quote + 1;
    at = quote + 1;
  }
}

/** Decodes JSON. Whole numbers that a number cannot hold exactly become BigInts, instead of others nearby. */
function fromJson(text) {
  if (!/[0-9]{16}/.test(text)) return JSON.parse(text);
  const marked = markLongNumbers(text);
  if (marked === text) return JSON.parse(text);
  return JSON.parse(marked, (_key, value) =>
    typeof value === 'string' && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

function markLongNumbers(text) {
  let marked = '';
  let at = 0;
  for (;;) {
    const quote = text.indexOf('"', at);
    const plain = quote < 0 ? text.slice(at) : text.slice(at, quote);
    marked +=
      plain.length < 16
        ? plain
        : plain.replace(/(?<![0-9.eE+-])-?[0-9]{16,}(?![0-9.eE])/g, (digits) =>
            Number.isSafeInteger(Number(digits)) ? digits : `"${MARK}${digits}"`,
          );
    if (quote < 0) return marked;
    at = endOfString(text, quote);
    marked += text.slice(quote, at);
  }
}

/** Cuts a text to this many bytes of UTF-8 or fewer, between two characters. */
function cut(text, limit) {
  const most = Math.min(limit, mostTextBytes);
  if (text.length * 3 <= most) return text;
  const bytes = Buffer.from(text);
  if (bytes.length <= most) return text;
  let end = most - 4;
  while (end > 0 && (bytes[end] & 0xc0) === 0x80) end -= 1;
  return `${bytes.toString('utf8', 0, end)} …`;
}

/** Returns the bytes of a Buffer, a typed array or an ArrayBuffer, without a copy, and undefined for anything else. */
function asBytes(value) {
  if (Buffer.isBuffer(value)) return value;
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  if (value instanceof ArrayBuffer) return Buffer.from(value);
  return undefined;
}

// ---------------------------------------------------------------------------------------------------------------- Time

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
/** The first instant that is too late: the year 10000. */
const END_MS = 253_402_300_800_000;

/** Returns a length of time in whole milliseconds, which is all that the wire knows. */
function lengthMs(value, name) {
  let ms = value;
  if (typeof value === 'string') {
    const parts = [...value.matchAll(/([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)/g)];
    const isAll = parts.length > 0 && parts.map(([part]) => part).join('') === value;
    ms = isAll ? parts.reduce((sum, [, number, unit]) => sum + Number(number) * UNITS[unit], 0) : NaN;
  }
  if (typeof ms !== 'number' || !(ms >= 0 && ms < END_MS)) {
    throw new TypeError(`${name} must be a number of milliseconds, or a text such as '30s' or '2h', not ${inspect(value)}`);
  }
  return Math.round(ms);
}

function instantMs(value, name) {
  const ms = value instanceof Date ? value.getTime() : value;
  // As milliseconds, 100,000,000,000 is in 1973: smaller numbers are seconds by mistake.
  const least = value instanceof Date ? 0 : 100_000_000_000;
  if (typeof ms !== 'number' || !(ms >= least && ms < END_MS)) {
    throw new TypeError(`${name} must be a Date, or milliseconds since 1970 like those of Date.now(), not ${inspect(value)}`);
  }
  return Math.round(ms);
}

// ------------------------------------------------------------------------------------------------------------ Outcomes

/** Marks outcomes, also those of another copy of this package. */
const FIELDS = Symbol.for('streamfleet.outcome');
/** The names of an error's classes, if the configuration of the worker is to decide what follows. */
const CLASSES = Symbol('classes');
/** The fleet cuts errors at this length. */
const MOST_ERROR_BYTES = 4096;

/** How an attempt ended. A handler returns one, or throws it. */
class Outcome extends Error {
  constructor(message) {
    // Nobody reads the stack of an outcome, and it costs more than the rest of a short job.
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0;
    super(message);
    Error.stackTraceLimit = limit;
    this.name = new.target.name;
  }
}

/** Gives an outcome what was thrown, for listeners. */
function caused(outcome, error) {
  if (typeof error === 'object' && error !== null) outcome.cause = error;
}

/** The job is done. The result is a JSON value, or bytes. */
class Done extends Outcome {
  constructor(result) {
    super('done');
    this.result = result;
  }

  [FIELDS]() {
    const bytes = asBytes(this.result);
    if (bytes) return { outcome: 'done', result_base64: bytes.toString('base64') };
    return this.result === undefined ? { outcome: 'done' } : { outcome: 'done', result: this.result };
  }
}

/** The attempt failed. The next one is due by the type's policy, and no sooner than after the delay. */
class Retry extends Outcome {
  constructor(error, options = {}) {
    super(describe(error));
    const names = typeof options === 'object' && options !== null ? Object.keys(options) : undefined;
    if (names === undefined || names.some((name) => name !== 'delay')) {
      throw new TypeError(`the options of Retry must be an object such as { delay: '30s' }, not ${inspect(options)}`);
    }
    this.delayMs = options.delay === undefined ? undefined : lengthMs(options.delay, 'delay');
    caused(this, error);
  }

  [FIELDS]() {
    const error = cut(this.message, MOST_ERROR_BYTES);
    const room = mostLineBytes - AROUND_TEXT - Buffer.byteLength(JSON.stringify(error));
    return { outcome: 'retry', error, delay_ms: this.delayMs, classes: this[CLASSES] && fitting(this[CLASSES], room) };
  }
}

/**
 * The attempt failed, and nobody knows whether the work was done: an answer was lost. A `once` step becomes unknown, and a person
 * decides. Every other job is tried again, as after Retry.
 */
class Unknown extends Outcome {
  constructor(error) {
    super(describe(error));
    caused(this, error);
  }

  [FIELDS]() {
    return { outcome: 'retry', unknown: true, error: cut(this.message, MOST_ERROR_BYTES) };
  }
}

/** The job can never succeed: it becomes a dead letter at once. */
class Fatal extends Outcome {
  constructor(error) {
    super(describe(error));
    caused(this, error);
  }

  [FIELDS]() {
    return { outcome: 'fatal', error: cut(this.message, MOST_ERROR_BYTES) };
  }
}

/** Not now: the job runs again after this delay, and no attempt is spent. */
class Snooze extends Outcome {
  constructor(delay, reason = '') {
    super(String(reason));
    this.delayMs = lengthMs(delay, 'delay');
  }

  [FIELDS]() {
    const reason = this.message === '' ? undefined : cut(this.message, MOST_ERROR_BYTES);
    return { outcome: 'snooze', delay_ms: this.delayMs, reason };
  }
}

/** The job is no longer wanted: it ends as cancelled, with the reason, and is not a failure. */
class Drop extends Outcome {
  constructor(reason) {
    super(String(reason));
  }

  [FIELDS]() {
    return { outcome: 'drop', reason: cut(this.message, MOST_ERROR_BYTES) };
  }
}

/** Why a job's signal fired: `cancelled`, `timeout`, `shutdown` or `lost`. */
class Cancelled extends Error {
  constructor(reason) {
    super(`the attempt was interrupted: ${reason}`);
    this.name = 'Cancelled';
    this.reason = reason;
  }
}

/** Returns a text about anything that was thrown, even if its own getters throw. */
function describe(error) {
  try {
    return described(error);
  } catch {
    return 'an error that cannot be shown';
  }
}

/** The error first, because dead letters are grouped by it; then its causes; then the innermost frames of its stack. */
function described(error) {
  if (!(error instanceof Error)) {
    if (typeof error === 'string') return error;
    return isErrorLike(error) ? headOf(error) : cut(inspect(error, { depth: 2, breakLength: Infinity }), MOST_ERROR_BYTES);
  }
  let text = cut(headOf(error), MOST_ERROR_BYTES / 2);
  let cause = error.cause;
  for (let level = 0; level < 5 && cause !== undefined && cause !== null; level += 1) {
    text += `\ncaused by ${isErrorLike(cause) ? headOf(cause) : inspect(cause, { depth: 1, breakLength: Infinity })}`;
    cause = cause.cause;
  }
  text = cut(text, (MOST_ERROR_BYTES * 3) / 4);
  for (const frame of framesOf(error)) {
    if (Buffer.byteLength(text) + Buffer.byteLength(frame) + 1 > MOST_ERROR_BYTES) break;
    text += `\n${frame}`;
  }
  return text;
}

/** Errors of another realm, such as those of node:vm, are no instances of this realm's Error. */
function isErrorLike(value) {
  return value instanceof Error || (typeof value === 'object' && value !== null && typeof value.message === 'string' && 'stack' in value);
}

function headOf(error) {
  let message = String(error.message ?? '');
  if (message === '') {
    // A connection that fails on IPv4 and IPv6 is an AggregateError without a message.
    message = Array.isArray(error.errors) ? error.errors.slice(0, 3).map((each) => each?.message ?? each).join('; ') : '';
    message ||= String(error.code ?? '');
  }
  // What rules by class may name.
  const code = typeof error.code === 'string' && !message.includes(error.code) ? ` (${error.code})` : '';
  return message === '' ? nameOf(error) : `${nameOf(error)}: ${message}${code}`;
}

/** The name that an error or its class has set, or else the name of its class: `class Gone extends Error` sets none. */
function nameOf(error) {
  const isSet = [error, Object.getPrototypeOf(error)].some((level) => level !== null && Object.hasOwn(level, 'name'));
  return String((!isSet && error.constructor?.name) || error.name || 'Error');
}

function framesOf(error) {
  const lines = typeof error.stack === 'string' ? error.stack.split('\n') : [];
  return lines.filter((line) => /^\s+at /.test(line) && !line.includes(__filename) && !line.includes('(node:'));
}

// ---------------------------------------------------------------------------------------------------- Errors by class

/** The worker looks at no more names of classes, and at no longer ones. */
const MOST_CLASSES = 32;
const MOST_CLASS_BYTES = 200;
const WORDS = ['fatal', 'retry', 'unknown', 'drop'];

/** The codes of an error, of its causes and of the errors that it is made of: `fetch` hides that of a connection there. */
function codesOf(error, level = 0) {
  if (typeof error !== 'object' || error === null || level > 4) return [];
  const parts = Array.isArray(error.errors) ? error.errors.slice(0, 4) : [];
  return [error.code, ...[error.cause, ...parts].flatMap((each) => codesOf(each, level + 1))];
}

/** What an error is, the nearest first: its codes, its name, and the classes of its prototypes and their names. */
function kindsOf(error) {
  if (typeof error !== 'object' || error === null) return [];
  const kinds = new Set(codesOf(error));
  let hasName = false;
  // Without the last prototype: that of all objects, also of another realm.
  for (let level = error; Object.getPrototypeOf(level) !== null; level = Object.getPrototypeOf(level)) {
    if (Object.hasOwn(level, 'name')) {
      // A getter, such as that of DOMException, knows the name of the error itself.
      kinds.add(hasName ? Object.getOwnPropertyDescriptor(level, 'name').value : error.name);
      hasName = true;
    }
    const made = Object.hasOwn(level, 'constructor') ? level.constructor : undefined;
    kinds.add(made).add(made?.name);
  }
  return [...kinds].filter((kind) => typeof kind === 'function' || (typeof kind === 'string' && kind !== ''));
}

/** The names of classes for the worker. */
function classesOf(kinds) {
  const names = kinds.filter((kind) => typeof kind === 'string' && Buffer.byteLength(kind) <= MOST_CLASS_BYTES);
  return names.length > 0 ? names.slice(0, MOST_CLASSES) : undefined;
}

/** The first of these names, as many as fit into this many bytes. */
function fitting(names, room) {
  let left = room;
  return names.filter((name) => (left -= Buffer.byteLength(JSON.stringify(name)) + 1) >= 0);
}

/** Checks a rule, and returns it with its length in milliseconds. */
function ruled(kind, rule) {
  const isClass = typeof kind === 'function' && (kind === Error || kind.prototype instanceof Error);
  if (!isClass && (typeof kind !== 'string' || kind === '')) {
    throw new TypeError(`errors: ${inspect(kind)} is neither a class of errors nor the name or code of one`);
  }
  const name = isClass ? kind.name : kind;
  if (isClass && kind.prototype instanceof Outcome) throw new TypeError(`errors: ${name} is an outcome, which needs no rule`);
  if (WORDS.includes(rule)) return [kind, rule];
  try {
    return [kind, lengthMs(rule, 'a rule')];
  } catch {
    throw new TypeError(`errors: the rule of ${name} must be 'fatal', 'retry', 'unknown', 'drop', a number of milliseconds, or a text such as '30s', not ${inspect(rule)}`);
  }
}

/** Returns whether a step runs that must not run twice. */
function isOnce(job) {
  return job?.message.step_kind === 'once';
}

/**
 * The outcome of an attempt that threw this, by the rules of the program. The note follows the text of the error. 'drop' does not hold
 * for a step that must not run twice: the class does not say how far the handler came.
 */
function decided(rules, job, error, note = '') {
  let kinds = [];
  try {
    kinds = kindsOf(error);
  } catch {
    // Its own getters throw.
  }
  const kind = kinds.find((each) => rules.has(each));
  const rule = rules.get(kind);
  if (rule === 'drop' && !isOnce(job)) return new Drop(headOf(error));
  const text = `${describe(error)}${note}`;
  const made = { fatal: Fatal, unknown: Unknown }[rule];
  const outcome = made === undefined ? new Retry(text, typeof rule === 'number' ? { delay: rule } : {}) : new made(text);
  if (rule === undefined) outcome[CLASSES] = classesOf(kinds);
  caused(outcome, error);
  return outcome;
}

// ----------------------------------------------------------------------------------------------------------- Producer

const MOST_PAYLOAD_BYTES = 8 * 1024 * 1024;
const MOST_FIELDS = 1000;
const MOST_HEADER_BYTES = 8192;
const MOST_THEN = 64;
const MOST_THEN_BYTES = 64 * 1024;
const LONGEST_TIMEOUT_MS = 604_800_000;
/** A round trip has at most this many jobs, and about this many bytes. */
const ROUND_JOBS = 500;
const ROUND_BYTES = 4 * 1024 * 1024;
/** A job that was seen and then cannot be found for this long is gone. */
const MISSING_FOR_MS = 5000;
const LONGEST_PAUSE_MS = 250;

const TYPE = /^[a-z0-9][a-z0-9._-]{0,127}$/;
const QUEUE = /^[a-z0-9][a-z0-9_-]{0,63}$/;
const ENTRY = /^([0-9]+-[0-9]+)(?:-(high|low))?$/;
/** The fields of a job's record that programs may read. */
const RECORD = ['state', 'type', 'created_ms', 'result', 'error', 'progress', 'note'];
const OPTIONS = new Set(
  ('queue lane priority delay runAt expiresAt id headers maxAttempts timeout tracking onSuccess onFailure then batch ' +
    'traceparent tracestate encoding unique uniqueScope uniqueMode').split(' '),
);
/** What other queues call it. */
const RETENTION = 'use tracking; the configuration says for how long records and dead letters are kept';
const MEANT = {
  attempts: 'use maxAttempts',
  retries: 'use maxAttempts, which counts the first attempt too',
  jobId: 'use id',
  opts: 'use its fields',
  data: 'use payload',
  track: 'use tracking',
  backoff: 'it belongs to the type, in the configuration of the worker',
  repeat: 'recurring jobs are in [cron] of the configuration',
  removeOnComplete: RETENTION,
  removeOnFail: RETENTION,
  deduplication: 'use unique, with Http or Cli',
  debounce: "use unique and uniqueMode: 'debounce', with Http or Cli",
  parent: 'use then, or Cli.batch',
  children: 'use then, or Cli.batch',
  lifo: "use lane: 'high'",
};

/** A submission that breaks the wire contract. Nothing was sent. */
class InvalidSubmission extends TypeError {
  constructor(message) {
    super(message);
    this.name = 'InvalidSubmission';
  }
}

/** A rule that is a function is only called if it is broken: its text may show a large value. */
function check(holds, rule) {
  if (!holds) throw new InvalidSubmission(typeof rule === 'function' ? rule() : rule);
}

function typed(value, name) {
  check(typeof value === 'string' && TYPE.test(value), () => `${name} does not match ${TYPE.source}: ${inspect(value)}`);
  return value;
}

function queued(value) {
  check(typeof value === 'string' && QUEUE.test(value), () => `queue does not match ${QUEUE.source}: ${inspect(value)}`);
  return value;
}

function named(value, name, most) {
  const holds = typeof value === 'string' && !/[\s\p{Z}\p{Cc}\p{Cs}]/u.test(value) && value !== '' && Buffer.byteLength(value) <= most;
  check(holds, () => `${name} must be a text of 1 to ${most} bytes without white space and control characters, not ${inspect(value)}`);
  return value;
}

function whole(value, name, least, most) {
  check(Number.isInteger(value) && value >= least && value <= most, () => `${name} must be a whole number from ${least} to ${most}, not ${inspect(value)}`);
  return String(value);
}

/** Times and JSON that cannot be sent are invalid submissions too. */
function checked(make, name) {
  try {
    return make();
  } catch (error) {
    if (error instanceof InvalidSubmission) throw error;
    throw new InvalidSubmission(name === undefined ? error.message : `${name} cannot be sent as JSON: ${error.message}`);
  }
}

/** A job before it is sent: its queue, its lane, and the names and values of its entry, all of them text or bytes. */
function submission(type, payload, options, mostBytes = MOST_PAYLOAD_BYTES) {
  options ??= {};
  for (const name of Object.keys(options)) {
    const hint = Object.hasOwn(MEANT, name) ? `; ${MEANT[name]}` : '';
    check(OPTIONS.has(name), () => `there is no option '${name}'${hint}`);
  }
  const given = (name) => options[name] !== undefined && options[name] !== null;
  check(given('unique') || !(given('uniqueScope') || given('uniqueMode')), 'uniqueScope and uniqueMode need unique');
  const fields = ['type', typed(type, 'type')];
  const add = (field, name, value) => {
    if (given(name)) fields.push(field, value(options[name]));
  };
  const { bytes, encoding } = encoded(payload, options.encoding ?? undefined, mostBytes);
  if (bytes !== undefined) fields.push('payload', bytes);
  if (encoding !== 'json') fields.push('encoding', encoding);
  add('id', 'id', (id) => {
    check(!ENTRY.test(id), () => `an id of your own must not look like that of a stream entry: ${inspect(id)}`);
    return named(id, 'id', 128);
  });
  check(!(given('delay') && given('runAt')), 'a job may have a delay or a runAt, but not both');
  add('delay_ms', 'delay', (delay) => checked(() => String(lengthMs(delay, 'delay'))));
  add('run_at_ms', 'runAt', (at) => checked(() => String(instantMs(at, 'runAt'))));
  add('expires_at_ms', 'expiresAt', (at) => checked(() => String(instantMs(at, 'expiresAt'))));
  add('max_attempts', 'maxAttempts', (most) => whole(most, 'maxAttempts', 1, 4_294_967_295));
  add('timeout_ms', 'timeout', (timeout) =>
    whole(checked(() => lengthMs(timeout, 'timeout')), 'timeout in milliseconds', 1, LONGEST_TIMEOUT_MS),
  );
  add('tracking', 'tracking', (tracking) => {
    check(['all', 'failures', 'none'].includes(tracking), () => `tracking must be all, failures or none, not ${inspect(tracking)}`);
    return tracking;
  });
  add('on_success', 'onSuccess', (name) => typed(name, 'onSuccess'));
  add('on_failure', 'onFailure', (name) => typed(name, 'onFailure'));
  add('then', 'then', chained);
  add('batch', 'batch', (name) => named(name, 'batch', 100));
  add('traceparent', 'traceparent', (value) => named(value, 'traceparent', 128));
  // It travels as a header. One that breaks the standard is left out, as the standard says.
  const state = trace.tracestate(options.tracestate);
  if (state !== undefined) fields.push(...header('tracestate', state));
  for (const [name, value] of Object.entries(options.headers ?? {})) fields.push(...header(name, value));
  // Texts are waiting, running, or a length.
  const scope = typeof options.uniqueScope === 'number' ? `${checked(() => lengthMs(options.uniqueScope, 'uniqueScope'))}ms` : options.uniqueScope;
  check(fields.length / 2 <= MOST_FIELDS, `a job may have at most ${MOST_FIELDS} fields, not ${fields.length / 2}`);
  return {
    queue: given('queue') ? queued(options.queue) : undefined,
    lane: laneOf(options.lane ?? undefined, options.priority ?? undefined),
    id: options.id ?? undefined,
    unique: { unique: options.unique, 'unique-scope': scope, 'unique-mode': options.uniqueMode },
    fields,
    size: fields.reduce((size, each) => size + each.length, 0),
  };
}

/** One of several jobs, given as an object. Errors name it. */
function submissionOf(job, name, mostBytes) {
  check(typeof job === 'object' && job !== null, () => `${name} must be an object with a type, not ${inspect(job)}`);
  const { type, payload, ...options } = job;
  try {
    return submission(type, payload, options, mostBytes);
  } catch (error) {
    throw error instanceof InvalidSubmission ? new InvalidSubmission(`${name}: ${error.message}`) : error;
  }
}

function encoded(payload, encoding, mostBytes) {
  check(encoding === undefined || ['json', 'msgpack', 'raw'].includes(encoding), () => `encoding must be json, msgpack or raw, not ${inspect(encoding)}`);
  let bytes = asBytes(payload);
  if (bytes === undefined) {
    check(encoding === undefined || encoding === 'json', () => `a payload with the encoding ${encoding} must be a Buffer`);
    const text = checked(() => payloadJson(payload), 'the payload');
    check(text !== undefined || payload === undefined, () => `the payload is not a JSON value: ${inspect(payload)}`);
    bytes = text === undefined ? undefined : Buffer.from(text);
    encoding = 'json';
  }
  checkSize(bytes, mostBytes);
  return { bytes, encoding: encoding ?? 'raw' };
}

function checkSize(bytes, most = MOST_PAYLOAD_BYTES) {
  const length = bytes?.length ?? 0;
  check(length <= most, () => `the payload has ${length} bytes; the most is ${most}: store it elsewhere, and send its address, or let Codecs do so`);
}

function header(name, value) {
  const isPlain = ['string', 'number', 'bigint', 'boolean'].includes(typeof value);
  check(isPlain, () => `the header '${name}' must be a text, a number or a boolean, not ${inspect(value)}`);
  const text = String(value);
  const fits = name !== '' && Buffer.byteLength(name) <= 128 && Buffer.byteLength(text) <= MOST_HEADER_BYTES;
  check(fits, () => `the header '${cut(name, 200)}' is too long: a name has 1 to 128 bytes, a value at most ${MOST_HEADER_BYTES}`);
  return [`h.${name}`, text];
}

function chained(jobs) {
  check(Array.isArray(jobs) && jobs.length <= MOST_THEN, () => `then must be an array of at most ${MOST_THEN} jobs`);
  const chain = jobs.map(({ type, payload, onFailure, queue, ...others }) => {
    const [other] = Object.keys(others);
    check(other === undefined, () => `a job in then may have type, payload, onFailure and queue, but not '${other}'`);
    typed(type, 'the type of a job in then');
    if (onFailure !== undefined) typed(onFailure, 'onFailure of a job in then');
    if (queue !== undefined) queued(queue);
    return { type, payload, on_failure: onFailure, queue };
  });
  const text = checked(() => payloadJson(chain), 'then');
  check(Buffer.byteLength(text) <= MOST_THEN_BYTES, () => `then has more than ${MOST_THEN_BYTES} bytes`);
  return text;
}

function laneOf(lane, priority) {
  if (priority !== undefined) {
    check(lane === undefined, 'a job may have a lane or a priority, but not both');
    whole(priority, 'priority', 1, 10);
    return priority >= 8 ? 'high' : priority >= 4 ? 'normal' : 'low';
  }
  check([undefined, 'high', 'normal', 'low'].includes(lane), () => `lane must be high, normal or low, not ${inspect(lane)}`);
  return lane ?? 'normal';
}

/** Some jobs of enqueueMany were not accepted, or nobody knows whether they were. */
class BulkError extends Error {
  constructor(ids, errors) {
    const failed = errors.filter((error) => error !== null);
    super(`${failed.length} of ${errors.length} jobs were not confirmed: ${failed[0].message}`);
    this.name = 'BulkError';
    this.ids = ids;
    this.errors = errors;
  }
}

/** The job was not sent, because the connection had failed before. */
class NotSent extends Error {
  constructor(message) {
    super(message);
    this.name = 'NotSent';
  }
}

/** The job did not end in time. It still runs, or waits. */
class NotEnded extends Error {
  constructor(id, state) {
    super(
      state === undefined
        ? `the job ${id} has no record: it has not ended, or it has succeeded and left none. \`streamfleet status ${id}\` says which. To wait for such a job, submit it with tracking: 'all' or an id of its own`
        : `the job ${id} has not ended; its state is ${state}`,
    );
    this.name = 'NotEnded';
    this.id = id;
    this.state = state;
  }
}

/** The job was known and is no longer: it left no record. Submit it with tracking: 'all'. */
class Gone extends Error {
  constructor(id) {
    super(`the job ${id} is no longer known; it left no record`);
    this.name = 'Gone';
    this.id = id;
  }
}

/** The job is dead or cancelled, so it has no result. */
class JobFailed extends Error {
  constructor(status) {
    super(`the job ${status.id} is ${status.state}: ${status.error ?? 'no error was recorded'}`);
    this.name = 'JobFailed';
    this.status = status;
  }
}

/** What a job's record says. */
class Status {
  constructor(id, values) {
    this.id = id;
    this.state = values.state;
    this.type = values.type;
    this.createdMs = values.created_ms === undefined ? undefined : Number(values.created_ms);
    this.error = values.state === 'done' ? undefined : values.error;
    this.progress = values.progress === undefined ? undefined : Number(values.progress);
    this.note = values.note;
    this.result = values.result === undefined ? undefined : resultOf(values.result);
  }

  get ended() {
    return ['done', 'dead', 'cancelled'].includes(this.state);
  }

  /** Returns the result of a job that is done, and throws JobFailed for one that is dead or cancelled. */
  value() {
    if (this.state === 'dead' || this.state === 'cancelled') throw new JobFailed(this);
    return this.state === 'done' ? this.result : undefined;
  }
}

function resultOf(text) {
  let value;
  try {
    value = fromJson(text);
  } catch {
    return text;
  }
  return bytesOr(value);
}

/** Bytes are kept as an object with their encoding. */
function bytesOr(value) {
  const isBytes = value !== null && typeof value === 'object' && value.encoding === 'base64' && typeof value.data === 'string';
  return isBytes && Object.keys(value).length === 2 ? Buffer.from(value.data, 'base64') : value;
}

/** Submits jobs and looks them up, with a client of yours. */
class Producer {
  #redis;
  #queue;
  #namespace;
  #codecs;

  constructor(client, { queue = 'default', namespace = 'sf', codecs } = {}) {
    this.#redis = adapted(client);
    this.#queue = queued(queue);
    this.#namespace = namespace;
    this.#codecs = codecs;
  }

  /** Submits a job and returns its id. Once the promise is fulfilled, the job is accepted. */
  async enqueue(type, payload, options = {}) {
    const job = await this.#encoded(submission(type, payload, traced(options), this.#mostBytes()));
    return idOf(job, await this.#redis.send(this.#xadd(job)));
  }

  /** Returns the command that submits a job, for a MULTI of yours. */
  command(type, payload, options = {}) {
    const job = submission(type, payload, traced(options), this.#mostBytes());
    return this.#xadd(this.#codecs === undefined ? job : withCodec(job, this.#codecs.encodePayloadNow(...plainOf(job))));
  }

  /** What codecs encode may be larger before. */
  #mostBytes() {
    return this.#codecs === undefined ? MOST_PAYLOAD_BYTES : Infinity;
  }

  /** The job as it is sent. */
  async #encoded(job) {
    return this.#codecs === undefined ? job : withCodec(job, await this.#codecs.encodePayload(...plainOf(job)));
  }

  /** Submits many jobs in few round trips and returns their ids in the same order. They are no transaction. */
  async enqueueMany(jobs) {
    const submissions = Array.from(jobs, (job, index) => submissionOf(traced(job), `jobs[${index}]`, this.#mostBytes()));
    for (const [index, job] of submissions.entries()) submissions[index] = await this.#encoded(job);
    const ids = new Array(submissions.length).fill(null);
    const errors = new Array(submissions.length).fill(null);
    let broken;
    for (const round of this.#rounds(submissions)) {
      const replies = broken
        ? round.map(() => ({ error: new NotSent(`not sent after ${broken.message}`) }))
        : await this.#redis.sendAll(round.map((index) => this.#xadd(submissions[index])));
      round.forEach((index, nth) => {
        const { error, value } = accepted(submissions[index], replies[nth]);
        if (error === undefined) ids[index] = value;
        else errors[index] = error;
        if (error !== undefined && !isRefusal(error)) broken ??= error;
      });
    }
    if (errors.some((error) => error !== null)) throw new BulkError(ids, errors);
    return ids;
  }

  /**
   * Tells the relay of the outbox that rows were committed, so that it does not wait until it looks again. Call it after the commit. Nothing
   * depends on it: if it fails, the rows are found a little later.
   */
  async wakeOutbox() {
    await this.#redis.send(['XADD', `${this.#namespace}:outbox:{outbox}:wake`, 'MAXLEN', '1', '*', 'wake', '1']);
  }

  /** Reads a job's record. Null: it left none, it has none before its first attempt, or it never existed. */
  async status(id, { queue } = {}) {
    return this.#look(id, queue);
  }

  /** Returns the result of a job that is done, undefined if there is none yet, and throws JobFailed if there will be none. */
  async result(id, { queue } = {}) {
    return (await this.#look(id, queue))?.value();
  }

  /** Waits for the end of a job that leaves a record: tracking 'all', or an id of its own. */
  async wait(id, { timeout, queue, signal } = {}) {
    const until = timeout === undefined ? Infinity : performance.now() + lengthMs(timeout, 'timeout');
    let pause = 5;
    let state;
    let missingSince;
    for (;;) {
      signal?.throwIfAborted();
      const status = await this.#look(id, queue);
      if (status?.ended) return status;
      const now = performance.now();
      if (status) [state, missingSince] = [status.state, undefined];
      else if (state !== undefined) {
        missingSince ??= now;
        if (now - missingSince > MISSING_FOR_MS) throw new Gone(id);
      }
      if (now >= until) throw new NotEnded(id, state);
      await rest(Math.min(pause, until - now), signal);
      pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS);
    }
  }

  #key(queue, name) {
    return `${this.#namespace}:{${queue === undefined ? this.#queue : queued(queue)}}:${name}`;
  }

  #xadd(job) {
    check(job.unique.unique == null, 'a unique key is a lock, and a plain XADD cannot take it: submit this job with Http or Cli');
    const lane = job.lane === 'normal' ? 'jobs' : `jobs:${job.lane}`;
    return ['XADD', this.#key(job.queue, lane), '*', ...job.fields];
  }

  /** The indexes of the submissions by round trip. In a cluster, a round trip is about one queue. */
  *#rounds(submissions) {
    const open = new Map();
    for (const [index, job] of submissions.entries()) {
      const queue = this.#redis.isCluster ? (job.queue ?? this.#queue) : '';
      const round = open.get(queue) ?? { size: 0, jobs: [] };
      if (round.jobs.length > 0 && (round.jobs.length >= ROUND_JOBS || round.size + job.size > ROUND_BYTES)) {
        yield round.jobs;
        open.set(queue, { size: job.size, jobs: [index] });
      } else {
        round.jobs.push(index);
        round.size += job.size;
        open.set(queue, round);
      }
    }
    for (const round of open.values()) yield round.jobs;
  }

  async #look(id, queue) {
    const record = await this.#redis.send(['HMGET', this.#key(queue, `job:${named(id, 'id', 128)}`), ...RECORD]);
    const values = {};
    RECORD.forEach((name, nth) => {
      if (record[nth] !== null && record[nth] !== undefined) values[name] = String(record[nth]);
    });
    return values.state === undefined ? null : new Status(id, values);
  }
}

/** The type, the encoding and the bytes of a job's payload. */
function plainOf(job) {
  const fields = fieldsOf(job);
  return [fields.get('type'), fields.get('encoding') ?? 'json', fields.get('payload') ?? Buffer.alloc(0)];
}

/** The job with a payload that codecs have encoded. */
function withCodec(job, encodedPayload) {
  const fields = codecs.encodedFields(job.fields, encodedPayload);
  checkSize(fieldsOf({ fields }).get('payload'));
  check(fields.length / 2 <= MOST_FIELDS, `a job may have at most ${MOST_FIELDS} fields, not ${fields.length / 2}`);
  return { ...job, fields, size: fields.reduce((size, each) => size + each.length, 0) };
}

function accepted(job, { error, value }) {
  if (error !== undefined) return { error };
  try {
    return { value: idOf(job, value) };
  } catch (unexpected) {
    return { error: unexpected };
  }
}

function idOf(job, reply) {
  const entry = String(reply);
  if (!/^[0-9]+-[0-9]+$/.test(entry)) throw new Error(`XADD was answered with ${inspect(reply)}, which is not the id of an entry`);
  return job.id ?? (job.lane === 'normal' ? entry : `${entry}-${job.lane}`);
}

/** Returns whether Redis said no, as opposed to a connection that failed: its errors begin with a word in capitals. */
function isRefusal(error) {
  return /^-?[A-Z][A-Z0-9]+ /.test(error.message);
}

function rest(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}

/** Returns what a producer needs of a client: ioredis, node-redis, or a function that sends a command. */
function adapted(client) {
  if (typeof client === 'function') return each(client);
  if (typeof client?.call === 'function' && typeof client.pipeline === 'function') return ioredis(client);
  if (typeof client?.sendCommand === 'function') return each(nodeRedis(client), typeof client.getSlotRandomNode === 'function');
  throw new TypeError('the client is neither ioredis nor node-redis; give a function that sends a command: (args) => reply');
}

function each(send, isCluster = false) {
  const sendAll = async (commands) => {
    const settled = await Promise.allSettled(commands.map(async (command) => send(command)));
    return settled.map(({ reason, value }) => (reason === undefined ? { value } : { error: reason }));
  };
  return { isCluster, send, sendAll };
}

function ioredis(client) {
  // ioredis puts it before the keys of call() too, and then no worker finds the jobs.
  const prefix = client.options?.keyPrefix;
  if (prefix !== undefined && prefix !== null && prefix.length > 0) {
    throw new TypeError(`the client has the keyPrefix '${prefix}', but a fleet's keys have none: use client.duplicate({ keyPrefix: '' })`);
  }
  const sendAll = async (commands) => {
    const pipeline = client.pipeline();
    for (const command of commands) pipeline.call(...command);
    let replies;
    try {
      replies = await pipeline.exec();
    } catch (error) {
      replies = commands.map(() => [error]);
    }
    return replies.map(([error, value]) => (error ? { error } : { value }));
  };
  return { isCluster: client.isCluster === true, send: (command) => client.call(...command), sendAll };
}

/** Clients, pools, clusters and sentinels of node-redis take different arguments. */
function nodeRedis(client) {
  if (client.options?.legacyMode === true) return (command) => client.v4.sendCommand(command);
  if (typeof client.getSlotRandomNode === 'function') return (command) => client.sendCommand(command[1], false, command);
  if (client.sendCommand.length === 3) return (command) => client.sendCommand(false, command);
  return (command) => client.sendCommand(command);
}

// ------------------------------------------------------------------------------------------------------- Command line

/** Linux gives a program at most 2 MiB of arguments and variables together. */
const MOST_ARGUMENT_BYTES = 1024 * 1024;
const MOST_OUTPUT_BYTES = 64 * 1024 * 1024;
const EXIT_USAGE = 2;
const EXIT_FULL = 7;
const EXIT_NOT_STARTED = [126, 127];
/** How the errors of the program begin if it has sent nothing, and the job is not to blame. */
const NOTHING_SENT = /^error: (?:the configuration has|cannot reach redis) /;

/**
 * The job was not accepted, and is not to blame: the queue is full, Redis cannot be reached, the configuration is wrong, or the program
 * could not be started. Try again later.
 */
class Refused extends Error {
  constructor(message) {
    super(message);
    this.name = 'Refused';
  }
}

/** Nobody knows whether the job was accepted. If it has an id, send it again. */
class Unconfirmed extends Error {
  constructor(message) {
    super(message);
    this.name = 'Unconfirmed';
  }
}

/**
 * Submits jobs by the program `streamfleet enqueue`, which offers what a plain XADD cannot: ids that are accepted once, unique keys,
 * a limit of the queue's depth, and durability. The program is started without a shell.
 */
class Cli {
  #command;
  #queue;
  #env;
  #timeoutMs;

  constructor({ command = ['streamfleet'], queue = 'default', env = {}, timeout = '90s' } = {}) {
    if (!Array.isArray(command) || command.length === 0) {
      throw new TypeError('command must be an array: the program and its global arguments, such as --config');
    }
    this.#command = command.map(String);
    this.#queue = queued(queue);
    this.#env = env;
    this.#timeoutMs = lengthMs(timeout, 'timeout');
  }

  /** Submits a job. Says whether it is new. */
  async enqueue(type, payload, options) {
    const { idempotentFor, durability, ...others } = traced(options) ?? {};
    const job = submission(type, payload, others);
    const [args, input] = argumentsOf(job, this.#queue);
    if (idempotentFor !== undefined) args.push(`--idempotent-for=${checked(() => lengthMs(idempotentFor, 'idempotentFor'))}ms`);
    if (durability !== undefined) args.push(`--durability=${durability}`);
    const told = await this.#told(args, input);
    const isDebounced = told.debounced === true;
    return { id: told.id, state: told.state, isNew: !told.existing && !isDebounced, replaced: told.replaced, isDebounced };
  }

  /**
   * Opens a batch: submits its members, and when all of them have succeeded, the job that follows. Returns the ids of the members. After
   * an error, call it again with the same members in the same order: none is accepted twice.
   */
  async batch(name, members, follow) {
    const { queue, last, lines } = batchOf(name, Array.from(members, traced), traced(follow), this.#queue, 'streamfleet enqueue --bulk');
    const args = ['enqueue', '--bulk', `--queue=${queue}`, `--batch=${name}`, `--follow=${last}`, '--output=json'];
    return (await this.#told(args, lines.join('\n'))).ids;
  }

  /** Runs the program, and returns what it says about an accepted submission. */
  async #told(args, input) {
    check(!args.some((each) => each.includes('\0')), 'streamfleet enqueue takes no text with a NUL');
    const size = args.reduce((sum, each) => sum + Buffer.byteLength(each) + 1, 0);
    check(size <= MOST_ARGUMENT_BYTES, () => `the headers and other options have ${size} bytes; streamfleet enqueue takes ${MOST_ARGUMENT_BYTES}`);
    const { code, output, errors } = await this.#run(args, input);
    const [program] = this.#command;
    if (NOTHING_SENT.test(errors)) throw new Refused(errors);
    // Without what only helps somebody who has typed the command.
    check(code !== EXIT_USAGE, errors.split(/\n\n(?:Usage:|For more)/)[0]);
    if (code === EXIT_FULL) throw new Refused(errors);
    if (EXIT_NOT_STARTED.includes(code)) throw new Refused(`the program ${program} could not be started`);
    let told;
    try {
      told = code === 0 ? JSON.parse(output) : undefined;
    } catch {
      // It is not what this program says.
    }
    if (typeof (told?.id ?? told?.batch) !== 'string') throw new Unconfirmed(`${program} ended with ${code}: ${errors}`);
    return told;
  }

  /** Runs the program, and returns how it ended and what it wrote. */
  #run(args, input) {
    const [program, ...globals] = this.#command;
    const child = spawn(program, [...globals, ...args], { env: { ...process.env, ...this.#env }, stdio: 'pipe', shell: false });
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        child.kill('SIGKILL');
        reject(new Unconfirmed(`${program} did not end within ${this.#timeoutMs} ms`));
      }, this.#timeoutMs);
      child.on('error', (error) => {
        clearTimeout(timer);
        reject(new Refused(`the program ${program} could not be started: ${error.message}`));
      });
      const written = [child.stdout, child.stderr].map(collected);
      child.on('close', (code, signal) => {
        clearTimeout(timer);
        const [output, errors] = written.map((text) => text());
        resolve({ code: code ?? signal, output, errors: errors.trim() });
      });
      // If the program ends early, it says why on standard error.
      child.stdin.on('error', () => {});
      child.stdin.end(input);
    });
  }
}

/** Returns a function that returns what a stream has had so far, up to a bound. */
function collected(stream) {
  const chunks = [];
  let size = 0;
  stream.on('data', (chunk) => {
    if (size < MOST_OUTPUT_BYTES) chunks.push(chunk);
    size += chunk.length;
  });
  return () => Buffer.concat(chunks).toString();
}

/** The arguments of `streamfleet enqueue` for a job, and its standard input. */
function argumentsOf(job, queue) {
  const fields = fieldsOf(job);
  const taken = (name) => {
    const value = fields.get(name);
    fields.delete(name);
    return value;
  };
  const type = taken('type');
  const payload = taken('payload');
  const tracking = taken('tracking');
  checkFields(fields, tracking, 'streamfleet enqueue');
  const args = ['enqueue', type, `--queue=${job.queue ?? queue}`, `--lane=${job.lane}`, '--output=json'];
  // By standard input, because an argument has at most 128 KiB, and everybody on the machine can read it.
  if (payload !== undefined && payload.length > 0) args.push('-');
  if (tracking !== undefined) args.push('--track');
  for (const [name, value] of fields) args.push(argumentOf(name, value));
  for (const [name, value] of Object.entries(job.unique)) {
    if (value !== undefined && value !== null) args.push(`--${name}=${value}`);
  }
  return [args, payload ?? ''];
}

/** The queue of a batch, and its jobs as lines. */
function batchOf(name, members, follow, ownQueue, door) {
  named(name, 'batch', 100);
  const last = submissionOf(follow, 'follow');
  const isDelayed = ['delay_ms', 'run_at_ms'].some((field) => fieldsOf(last).has(field));
  check(!isDelayed, 'the job that follows a batch cannot have a delay');
  const queue = last.queue ?? ownQueue;
  const lines = members.map((member, index) => {
    const job = submissionOf(member, `members[${index}]`);
    check((job.queue ?? queue) === queue, () => `a batch has one queue, and this one has '${queue}' and '${job.queue}'`);
    return bulkLine(job, door);
  });
  check(lines.length > 0, 'a batch needs a member');
  return { queue, last: bulkLine(last, door), lines };
}

/** The fields of a job by their names. */
function fieldsOf(job) {
  const fields = new Map();
  for (let at = 0; at < job.fields.length; at += 2) fields.set(job.fields[at], job.fields[at + 1]);
  return fields;
}

function checkFields(fields, tracking, door) {
  check(!fields.has('batch') && (tracking ?? 'all') === 'all', () => `${door} has no field batch, and no tracking but all: submit this job with Producer`);
  check(fields.get('encoding') !== 'msgpack', () => `${door} takes JSON or raw bytes, and no MessagePack`);
}

/** The names of fields in a line of `streamfleet enqueue --bulk`. */
const KEYS = { delay_ms: 'delay', timeout_ms: 'timeout', run_at_ms: 'at', expires_at_ms: 'expires_at' };

/** A job as a line of `streamfleet enqueue --bulk`, and as the HTTP API takes it. */
function bulkLine(job, door = 'streamfleet enqueue --bulk') {
  const line = { lane: job.lane };
  const headers = {};
  // JSON as it is: numbers of any size stay exact. Outside of texts, which have none, an end of a line is only white space.
  let parts = '';
  const fields = fieldsOf(job);
  checkFields(fields, fields.get('tracking'), door);
  for (const [name, value] of fields) {
    if (name.startsWith('h.')) headers[name.slice(2)] = value;
    else if (name === 'tracking') line.track = true;
    else if (name === 'payload' && fields.get('encoding') === 'raw') line.payload = utf8(value, door);
    else if (name === 'payload') parts += value.length > 0 ? `,"payload":${value.toString().replace(/[\r\n]/g, ' ')}` : '';
    else if (name === 'then') parts += `,"then":${value}`;
    else if (name === 'run_at_ms' || name === 'expires_at_ms') line[KEYS[name]] = new Date(Number(value)).toISOString();
    else line[KEYS[name] ?? name] = name.endsWith('_ms') || name === 'max_attempts' ? Number(value) : value;
  }
  if (Object.keys(headers).length > 0) line.headers = headers;
  for (const [name, value] of Object.entries(job.unique)) {
    if (value !== undefined && value !== null) line[name.replace('-', '_')] = value;
  }
  return `${toJson(line).slice(0, -1)}${parts}}`;
}

function utf8(bytes, door) {
  const text = bytes.toString();
  check(bytes.equals(Buffer.from(text)), () => `${door} takes raw payloads only if they are UTF-8`);
  return text;
}

function argumentOf(name, value) {
  if (name.startsWith('h.')) {
    check(!name.includes('='), () => `streamfleet enqueue takes no header whose name has a '=': ${name.slice(2)}`);
    return `--header=${name.slice(2)}=${value}`;
  }
  if (name === 'run_at_ms' || name === 'expires_at_ms') {
    return `--${name === 'run_at_ms' ? 'at' : 'expires-at'}=${new Date(Number(value)).toISOString()}`;
  }
  if (name.endsWith('_ms')) return `--${name.slice(0, -3)}=${value}ms`;
  return `--${name.replaceAll('_', '-')}=${value}`;
}

// -------------------------------------------------------------------------------------------------------------- Pipes

/** While the worker does not read, log lines beyond this many characters are left out, and counted. */
const MOST_UNREAD = 1024 * 1024;

/** Standard input and output, once they belong to the protocol; they are the same for the rest of the process. */
let pipes;

/**
 * Takes standard input and output from everything else: whatever else is printed, by this process or by a program that it
 * starts, goes to standard error, and whatever else reads finds nothing.
 */
function claim() {
  if (pipes) return pipes;
  const input = moved(0, fs.constants.O_RDONLY, ['/dev/null']);
  const output = moved(1, fs.constants.O_WRONLY, ['/dev/fd/2', '/dev/null']);
  pipes = {
    input: input === 0 ? process.stdin : new net.Socket({ fd: input, readable: true, writable: false, manualStart: true }),
    output: output === 1 ? new Output(process.stdout, 1) : new Output(new net.Socket({ fd: output, readable: false, writable: true }), output),
  };
  // Node follows no symbolic link to a package if the last file that it looked at was a pipe. Then an application may get a package twice.
  fs.statSync('/');
  pipes.input.pause();
  process.stdout.write = process.stderr.write.bind(process.stderr);
  // A program that a handler starts is not started by the worker.
  delete process.env.STREAMFLEET_POOL;
  delete process.env.STREAMFLEET_PROTOCOL;
  return pipes;
}

/**
 * Moves a pipe to another descriptor and puts something else in its place. Node has no dup2, but a file that is opened
 * gets the lowest descriptor that is free. Returns the old descriptor if that is impossible, as for sockets.
 */
function moved(fd, flags, substitutes) {
  let own;
  try {
    if (!fs.fstatSync(fd).isFIFO()) return fd;
    own = fs.openSync(`/dev/fd/${fd}`, flags);
  } catch {
    return fd;
  }
  fs.closeSync(fd);
  for (const path of substitutes) {
    try {
      // A lower descriptor may be free, too.
      while (fs.openSync(path, flags) < fd);
      break;
    } catch {
      // Standard error may be a socket, which cannot be opened.
    }
  }
  return own;
}

/** Writes whole lines, as many at once as there are. */
class Output {
  #stream;
  #fd;
  #write;
  #lines = '';
  #isScheduled = false;
  #isFull = false;
  #isEnded = false;
  #roomy = [];
  #lost = 0;

  constructor(stream, fd, write = stream.write.bind(stream)) {
    this.#stream = stream;
    this.#fd = fd;
    this.#write = write;
    stream.on('drain', () => this.#drained());
    // The worker is gone, and it takes its programs with it.
    stream.on('error', () => process.exit(1));
  }

  get isFull() {
    return this.#isFull;
  }

  /** Is fulfilled once the worker has read enough. */
  room() {
    return this.#isFull ? new Promise((resolve) => this.#roomy.push(resolve)) : Promise.resolve();
  }

  /** Writes lines that end with a line end, at the end of the current turn of the event loop. */
  send(lines) {
    if (this.#isEnded) return;
    this.#lines += lines;
    if (this.#isScheduled || this.#isFull) return;
    this.#isScheduled = true;
    process.nextTick(() => this.flush());
  }

  /** Writes a line that may be left out if the worker does not read. */
  sendLog(line) {
    if (this.#isFull && this.#lines.length + line.length > MOST_UNREAD) this.#lost += 1;
    else this.send(line);
  }

  /** Writes at once, so that a handler that keeps the event loop busy is heard. */
  flush() {
    this.#isScheduled = false;
    if (this.#lines === '' || this.#isFull) return;
    const lines = this.#lines;
    this.#lines = '';
    this.#isFull = !this.#write(lines);
  }

  #drained() {
    this.#isFull = false;
    if (this.#lost > 0) {
      const message = `${this.#lost} log lines were left out, because the worker did not read`;
      this.#lines += lineOf({ type: 'log', level: 'warn', message });
      this.#lost = 0;
    }
    this.flush();
    if (!this.#isFull) for (const resolve of this.#roomy.splice(0)) resolve();
  }

  /** Writes everything, and then calls back. */
  end(then) {
    const lines = this.#lines;
    this.#lines = '';
    this.#isEnded = true;
    this.#write(lines, () => then());
  }

  close() {
    this.#stream.destroy();
  }

  /** Writes everything while the process exits, when nothing can be waited for. */
  writeNow(lines) {
    if (this.#stream.writableLength > 0) return;
    let bytes = Buffer.from(this.#lines + lines);
    const until = performance.now() + 100;
    while (bytes.length > 0 && performance.now() < until) {
      try {
        bytes = bytes.subarray(fs.writeSync(this.#fd, bytes));
      } catch (error) {
        if (error.code !== 'EAGAIN') return;
      }
    }
  }
}

/** Splits chunks into lines; a line, and a character, may be spread over many chunks. */
class Lines {
  #parts = [];

  *split(chunk) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      let line = chunk.subarray(start, end);
      if (this.#parts.length > 0) {
        line = Buffer.concat([...this.#parts, line]);
        this.#parts = [];
      }
      start = end + 1;
      if (line.length > 0) yield line.toString('utf8');
    }
    // What follows the last line end is no line yet. At the end of the input it was cut off, and is dropped.
    if (start < chunk.length) this.#parts.push(chunk.subarray(start));
  }
}

function lineOf(message) {
  return `${toJson(message)}\n`;
}

// ------------------------------------------------------------------------------------------------------------- Worker

const MOST_TEXT_BYTES = 8192;
/** Reports of progress that follow each other more quickly are merged: the worker stores about two per second. */
const PROGRESS_EVERY_MS = 100;
/** For jobs that arrive while this process stops. */
const LATER_MS = 1000;
/** Why the worker takes a job back that it believes has not begun. If it has, that is no reason to end it. */
const TAKEN_BACK = 'withdrawn';
/** How long such a job waits for its answer. It is answered slowly, because the worker sends another one at once. */
const HOLD_MS = 500;
/** After this long, other things than the start of jobs have a turn. */
const SLICE_MS = 5;
/** How long the program's own code has to close connections after the last job. */
const EXIT_GRACE_MS = 2000;
const CRASH_GRACE_MS = 2000;
/** How long a handler may go on after a rejection that nobody handled has failed its job. */
const SETTLE_MS = 2000;
/** An attempt begins; it has ended without a failure; it has failed and the job runs again; it has failed for good. */
const EVENTS = ['before', 'after', 'retry', 'failed'];
/** Reasons of the worker to end an attempt that are no failure of the job. */
const NO_FAILURE = ['cancelled', 'shutdown', 'lost'];

/** The attempt that code runs for. */
const CONTEXT = new AsyncLocalStorage();

/** The options of a job, with the trace in which it is submitted. */
function traced(options) {
  return trace.traced(options, CONTEXT.getStore()?.job);
}
const LEVELS = ['debug', 'info', 'warn', 'error'];

/** Whether this program is only asked what it handles (docs/pools.md). */
const DESCRIBES = process.env.STREAMFLEET_DESCRIBE === '1';

/** What only this module may reach. */
const INTERNAL = Symbol('internal');
const REPORT = Symbol('report');
const END = Symbol('end');

/** The attempt that a handler runs. Tests create one with a type and a payload. */
class Job {
  #output;
  #deadline;
  #controller;
  #cancelled;
  #reported = -Infinity;
  #unsent;
  #timer;

  constructor(type, payload, options = {}) {
    this.type = type;
    this.payload = payload;
    this.id = options.id ?? 'test';
    this.queue = options.queue ?? 'default';
    this.attempt = options.attempt ?? 1;
    this.maxAttempts = options.maxAttempts;
    this.createdMs = options.createdMs;
    this.headers = options.headers ?? {};
    this.encoding = options.encoding ?? 'json';
    this.message = options.message ?? {};
    this.ref = this.message.ref;
    this.step = options.step ?? this.message.step;
    this.results = options.results ?? {};
    this.fence = options.fence ?? this.message.fence;
    this.traceparent = this.message.traceparent;
    this.tracestate = trace.tracestate(this.headers.tracestate);
    this.#deadline = options.timeout === undefined ? Infinity : performance.now() + options.timeout;
    this.#output = options[INTERNAL];
  }

  /** How many milliseconds are left of the attempt's timeout. */
  get remaining() {
    return Math.max(0, this.#deadline - performance.now());
  }

  /** Why the attempt should end; undefined if it should not. */
  get cancelled() {
    return this.#cancelled;
  }

  /** Fires when the attempt should end. */
  get signal() {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#cancelled !== undefined) this.#controller.abort(new Cancelled(this.#cancelled));
    }
    return this.#controller.signal;
  }

  /** Asks the attempt to end, as the worker does. */
  cancel(reason = 'cancelled') {
    if (this.#cancelled !== undefined) return;
    this.#cancelled = reason;
    this.#controller?.abort(new Cancelled(reason));
  }

  /** Reports progress: 0 to 100, and a short text. */
  progress(percent, message) {
    if (percent !== undefined && percent !== null && typeof percent !== 'number') {
      throw new TypeError(`the percent of progress must be a number from 0 to 100, not ${inspect(percent)}`);
    }
    const line = { type: 'progress', ref: this.ref };
    if (Number.isFinite(percent)) line.percent = Math.round(Math.min(100, Math.max(0, percent)) * 100) / 100;
    if (message !== undefined) line.message = cut(String(message), MOST_TEXT_BYTES);
    if (!this.#output) return;
    this.#unsent = line;
    const early = this.#reported + PROGRESS_EVERY_MS - performance.now();
    if (early > 0) this.#timer ??= setTimeout(() => this[REPORT](true), early);
    else this[REPORT](true);
  }

  /** Logs a line that the job's record keeps. */
  log(message, level = 'info', fields = {}) {
    if (!LEVELS.includes(level)) throw new TypeError(`level must be debug, info, warn or error, not ${inspect(level)}`);
    if (!this.#output) return Promise.resolve();
    const line = { type: 'log', ref: this.ref, level, message: cut(String(message), MOST_TEXT_BYTES) };
    if (Object.keys(fields).length > 0) line.fields = plain(fields);
    let text = lineOf(line);
    const size = Buffer.byteLength(text);
    if (size > mostLineBytes) text = lineOf({ ...line, fields: { left_out: `${size} bytes` } });
    this[REPORT](false);
    this.#output.sendLog(text);
    this.#output.flush();
    return this.#output.room();
  }

  /** Writes the last report of progress. */
  [REPORT](isAlone) {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (!this.#unsent) return;
    this.#output.send(lineOf(this.#unsent));
    this.#unsent = undefined;
    this.#reported = performance.now();
    if (isAlone) this.#output.flush();
  }

  /** Writes it for good: what the handler says after its end is about nothing. */
  [END]() {
    if (this.#unsent) this[REPORT](false);
    this.#output = undefined;
  }
}

/** Log fields that JSON can express; what it cannot becomes text. */
function plain(fields) {
  const kept = {};
  for (const [name, value] of Object.entries(fields)) {
    let text;
    try {
      text = isErrorLike(value) ? undefined : toJson(value);
    } catch {
      // It becomes text.
    }
    const fits = text !== undefined && text.length <= MOST_TEXT_BYTES;
    kept[name] = fits ? value : cut(isErrorLike(value) ? describe(value) : inspect(value), MOST_TEXT_BYTES);
  }
  return kept;
}

/** Runs handlers for a streamfleet worker, which starts this program and gives it jobs. */
class Worker {
  #handlers = new Map();
  #options = {};
  #middleware = [];
  #calls = new Map();
  #rules = new Map();
  /** The attempts by ref: the job, until the end; and the outcome of an attempt that has failed and whose handler goes on. */
  #running = new Map();
  #waiting = [];
  #late = [];
  #lateTimer;
  #started = 0;
  #maxJobs = Infinity;
  #codecs;
  #inflight;
  #isGreeted = false;
  #isPumping = false;
  #isStopping = false;
  #inputEnded = false;
  #isOver = false;
  #output;
  #input;
  #ended;

  /** Tells what happens to jobs: `before` (job), and `after`, `retry` or `failed` (job, outcome). */
  events = new EventEmitter();

  /**
   * Handles the jobs of a type. What the handler returns is an outcome, or else the result of a success. The options are what the type
   * needs in the configuration of the worker, which `describe` prints.
   */
  on(type, handler, options = {}) {
    typed(type, 'type');
    const described = typeOptions(type, options);
    if (typeof handler !== 'function') throw new TypeError(`the handler of ${type} must be a function, not ${inspect(handler)}`);
    if (this.#handlers.has(type)) throw new TypeError(`${type} has two handlers`);
    this.#handlers.set(type, handler);
    this.#options[type] = described;
    return this;
  }

  /** The same as `on`. */
  handle(type, handler, options) {
    return this.on(type, handler, options);
  }

  /** The line that says which types this program handles, and what belongs into the configuration of the worker for each. */
  describe() {
    return lineOf({ type: 'handlers', protocol: PROTOCOL, types: this.#options });
  }

  /** Adds a function around all handlers: (job, next). The first one is the outermost. */
  use(middleware) {
    if (typeof middleware !== 'function') throw new TypeError(`middleware must be a function, not ${inspect(middleware)}`);
    this.#middleware.push(middleware);
    return this;
  }

  /** Says what follows errors of these classes, names or codes, if a handler throws them. The nearest one decides. */
  errors(rules) {
    if (typeof rules !== 'object' || rules === null) {
      throw new TypeError(`errors takes an array of [class, rule], a Map, or an object by names and codes, not ${inspect(rules)}`);
    }
    const given = Symbol.iterator in rules ? rules : Object.entries(rules);
    for (const [kind, rule] of Array.from(given, ([kind, rule]) => ruled(kind, rule))) this.#rules.set(kind, rule);
    return this;
  }

  /** Decodes payloads before handlers, middleware and listeners see them: see docs/codecs.md. */
  codecs(codecs) {
    this.#codecs = codecs;
    return this;
  }

  /** Takes jobs until the worker wants no more, or this program has had enough. The process exits soon afterwards. */
  async run({ inflight, maxJobs } = {}) {
    if (this.#handlers.size === 0) throw new TypeError('no handler is registered');
    for (const [name, value] of Object.entries({ inflight, maxJobs })) {
      if (value !== undefined && !(Number.isInteger(value) && value >= 1)) throw new TypeError(`${name} must be a whole number, at least 1, not ${inspect(value)}`);
    }
    const unknown = this.events.eventNames().find((name) => !EVENTS.includes(name));
    if (unknown !== undefined) throw new TypeError(`there is no event ${inspect(unknown)}: use before, after, retry or failed`);
    if (DESCRIBES) {
      fs.writeSync(1, this.describe());
      process.exit(0);
    }
    if (!pipes && tty.isatty(0)) {
      process.stderr.write('This program takes jobs from a streamfleet worker: name it as the command of a pool.\n');
      process.exit(64);
    }
    if (this.#output) throw new Error('the worker is already running');
    ({ input: this.#input, output: this.#output } = claim());
    this.#inflight = inflight;
    this.#maxJobs = maxJobs ?? Infinity;
    for (const [type, handler] of this.#handlers) this.#calls.set(type, this.#wrapped(handler));
    process.on('SIGTERM', () => {
      this.#isStopping = true;
      this.#pump();
    });
    process.on('uncaughtException', (error, origin) => this.#crash(error, origin));
    process.on('unhandledRejection', (error) => this.#rejected(error));
    process.on('exit', (code) => this.#onExit(code));
    const ended = new Promise((resolve) => {
      this.#ended = resolve;
    });
    this.#read();
    await ended;
  }

  /** Runs the handler of a job, with middleware and rules, and returns the outcome that the fleet would get. For tests. */
  async outcome(job) {
    const handler = this.#handlers.get(job.type);
    if (handler === undefined) throw new TypeError(`the worker has no handler for ${job.type}; it serves ${[...this.#handlers.keys()].sort().join(', ')}`);
    let outcome;
    try {
      outcome = outcomeOf(await CONTEXT.run({ job, id: job.id, type: job.type }, () => trace.continued(job, () => this.#wrapped(handler)(job))));
    } catch (error) {
      outcome = this.#outcomeOf(error, job);
    }
    return this.#answerOf('1', outcome)[0];
  }

  #wrapped(handler) {
    return this.#middleware.reduceRight((next, middleware) => (job) => middleware(job, () => next(job)), (job) => handler(job));
  }

  #read() {
    const lines = new Lines();
    this.#input.on('data', (chunk) => {
      for (const line of lines.split(chunk)) this.#take(line);
      this.#pump();
    });
    const end = () => {
      this.#inputEnded = true;
      this.#pump();
    };
    this.#input.on('end', end);
    this.#input.on('error', end);
    this.#input.resume();
  }

  #take(line) {
    let message;
    try {
      message = fromJson(line);
    } catch (error) {
      const ref = /^\{"type":"job","ref":"([0-9]+)"/.exec(line)?.[1];
      if (ref === undefined) process.stderr.write(`a line of the worker is not JSON: ${error.message}\n`);
      else this.#answer(ref, new Fatal(`Node cannot read the job: ${error.message}`));
      return;
    }
    if (message?.type === 'hello') this.#greet(message);
    else if (message?.type === 'job') this.#waiting.push(message);
    else if (message?.type === 'cancel') this.#cancel(String(message.ref), String(message.reason ?? 'cancelled'));
  }

  #greet(hello) {
    if (this.#isGreeted) return;
    this.#isGreeted = true;
    limitLines(hello.max_line);
    const offered = Math.max(1, Number(hello.inflight ?? 1));
    this.#output.send(
      lineOf({
        type: 'ready',
        protocol: PROTOCOL,
        types: [...this.#handlers.keys()].sort(),
        inflight: Math.min(offered, this.#inflight ?? offered),
        sdk: `streamfleet-node ${VERSION}`,
      }),
    );
    if (hello.protocol !== PROTOCOL) {
      process.stderr.write(`the worker speaks version ${hello.protocol} of the pool protocol, and this program version ${PROTOCOL}\n`);
      this.#isOver = true;
      this.#output.end(() => process.exit(1));
    }
  }

  #cancel(ref, reason) {
    const isTakenBack = reason === TAKEN_BACK;
    const attempt = isTakenBack ? undefined : this.#running.get(ref);
    if (attempt?.finish !== undefined) attempt.finish();
    else attempt?.job.cancel(reason);
    for (const list of [this.#waiting, this.#late]) {
      const at = list.findIndex((message) => String(message.ref) === ref);
      if (at >= 0) {
        list.splice(at, 1);
        const text = new Cancelled(reason).message;
        if (isTakenBack) this.#giveBack(ref, text);
        else this.#answer(ref, new Retry(text));
      }
    }
  }

  /** Whether no more jobs are started. */
  #isFull() {
    return this.#isStopping || this.#started >= this.#maxJobs;
  }

  /** Starts the jobs that wait. A handler may keep the event loop busy, so others have their turn now and then. */
  async #pump() {
    if (this.#isPumping || this.#isOver) return;
    this.#isPumping = true;
    let since = performance.now();
    while (this.#waiting.length > 0 && !this.#isFull() && !this.#isOver) {
      if (this.#output.isFull) await this.#output.room();
      else if (performance.now() - since > SLICE_MS) {
        await new Promise(setImmediate);
        since = performance.now();
      } else this.#attempt(this.#waiting.shift());
    }
    this.#isPumping = false;
    if (this.#isFull()) this.#postpone();
    this.#endIfIdle();
  }

  #attempt(message) {
    const job = jobOf(message, this.#output);
    // What the job leaves open, such as a connection, keeps the attempt, but not the job.
    const attempt = { job, id: job.id, type: job.type, failure: undefined };
    this.#started += 1;
    this.#running.set(job.ref, attempt);
    CONTEXT.run(attempt, () => this.#run(attempt, job));
  }

  async #run(attempt, job) {
    let outcome;
    try {
      if (job.headers.codec !== undefined) await codecs.open(this.#codecs, job);
      this.#tell('before', job);
      const call = this.#calls.get(job.type);
      const returned = call ? await trace.continued(job, () => call(job)) : this.#unknown(job);
      outcome = outcomeOf(returned);
    } catch (error) {
      outcome = this.#outcomeOf(error, job);
    }
    this.#end(attempt, attempt.failure ?? outcome);
  }

  #outcomeOf(error, job) {
    if (typeof error?.[FIELDS] === 'function') return error;
    if (job.cancelled === undefined) return decided(this.#rules, job, error);
    // What is thrown because of an interruption says nothing about the job.
    const outcome = new Retry(`${new Cancelled(job.cancelled).message}\n${describe(error)}`);
    caused(outcome, error);
    return outcome;
  }

  /** Answers an attempt, unless it has been answered: by a crash, or because of a rejection that nobody handled. */
  #end(attempt, outcome) {
    const { job } = attempt;
    if (job === undefined || attempt.line !== undefined || !this.#running.has(job.ref)) return;
    clearTimeout(attempt.timer);
    const [written, line] = this.#answerOf(job.ref, outcome);
    // Nothing changes it any more. What listeners print and log belongs to this job, so they are told first.
    attempt.line = line;
    const finish = () => {
      if (!this.#running.delete(job.ref)) return;
      attempt.job = undefined;
      job[END]();
      this.#output.send(line);
      this.#pump();
    };
    // If the job is cut short meanwhile, its answer goes at once.
    attempt.finish = finish;
    const told = this.#tellEnd(job, written);
    if (told.length === 0) finish();
    else Promise.all(told).then(finish);
  }

  #unknown(job) {
    const types = [...this.#calls.keys()].sort().join(', ');
    return new Retry(`this program has no handler for ${job.type}; it serves ${types}`);
  }

  #answer(ref, outcome) {
    if (!this.#isOver) this.#output.send(this.#answerOf(ref, outcome)[1]);
  }

  #giveBack(ref, why) {
    if (!this.#isOver) this.#output.send(lineOfUnbegun(ref, why));
  }

  /** Returns the outcome that is written, and its line. */
  #answerOf(ref, outcome) {
    try {
      return [outcome, answerLine(ref, outcome)];
    } catch (error) {
      // Another attempt would do the work again, and return the same.
      const never = new Fatal(`the handler's result cannot be sent: ${error?.message ?? error}`);
      return [never, answerLine(ref, never)];
    }
  }

  #tellEnd(job, outcome) {
    const { outcome: what } = outcome[FIELDS]();
    const isFailure = what === 'fatal' || (what === 'retry' && !NO_FAILURE.includes(job.cancelled));
    // An `auto` step has a limit of its own, which the worker does not tell. A `once` step is never retried.
    const hasNoneLeft = job.step === undefined ? job.attempt >= job.maxAttempts : isOnce(job);
    const isLast = what === 'fatal' || hasNoneLeft;
    return this.#tell(!isFailure ? 'after' : isLast ? 'failed' : 'retry', job, outcome);
  }

  /** Calls the listeners of an event, and returns what to wait for. What they throw is reported, and changes nothing. */
  #tell(event, job, ...facts) {
    const told = [];
    if (this.events.listenerCount(event) === 0) return told;
    const report = (error) => process.stderr.write(`a listener of '${event}' failed for the job ${job.id}: ${describe(error)}\n`);
    for (const listener of this.events.rawListeners(event)) {
      try {
        const returned = listener.call(this.events, job, ...facts);
        if (typeof returned?.then === 'function') told.push(Promise.resolve(returned).catch(report));
      } catch (error) {
        report(error);
      }
    }
    return told;
  }

  /** Answers the jobs that are not started, some time later. If this process ends first, another one has them at once. */
  #postpone() {
    this.#late.push(...this.#waiting.splice(0));
    if (this.#late.length === 0) return;
    this.#lateTimer ??= setTimeout(() => {
      this.#lateTimer = undefined;
      for (const message of this.#late.splice(0)) this.#giveBack(String(message.ref), 'the program is stopping');
    }, HOLD_MS);
  }

  #endIfIdle() {
    const isDone = this.#isFull() || (this.#inputEnded && this.#waiting.length === 0);
    if (!isDone || this.#isOver || this.#running.size > 0) return;
    this.#isOver = true;
    clearTimeout(this.#lateTimer);
    this.#input.destroy();
    // What has no answer was not started: the worker gives it to another program.
    this.#output.send(lineOf({ type: 'bye' }));
    this.#output.end(() => {
      this.#output.close();
      this.#ended();
      setTimeout(() => process.exit(), EXIT_GRACE_MS).unref();
    });
  }

  /** Fails the job that a rejection that nobody handled belongs to, and no other. */
  #rejected(error) {
    const attempt = CONTEXT.getStore();
    if (attempt === undefined) {
      // If the program has a listener of its own, it decides what follows, as in any other program.
      if (process.listenerCount('unhandledRejection') === 1) this.#crash(error, 'unhandledRejection');
      return;
    }
    const how = howOf('unhandledRejection');
    const { job } = attempt;
    if (job === undefined || attempt.line !== undefined || attempt.failure !== undefined) {
      this.#reportLate(attempt, how, `: ${describe(error)}`);
      return;
    }
    process.stderr.write(`${how} in the job ${attempt.id} (${attempt.type}): ${error?.stack ?? inspect(error)}\n`);
    attempt.failure = this.#brokenOff(job, error, `\n(${how})`);
    job.cancel('failed');
    attempt.timer = setTimeout(() => this.#end(attempt, attempt.failure), SETTLE_MS);
  }

  /** Reports what a job that has ended still does: not on standard error, which may become part of the error of a job that runs. */
  #reportLate(attempt, how, error) {
    const message = cut(`${how}; it belongs to ${attempt.id} (${attempt.type}), which had ended${error}`, MOST_TEXT_BYTES);
    if (this.#isOver) process.stderr.write(`${message}\n`);
    else this.#output.sendLog(lineOf({ type: 'log', level: 'error', message }));
  }

  /** What follows an error that the handler has not thrown: of a `once` step, nobody knows how far it came. */
  #brokenOff(job, error, note) {
    const outcome = decided(this.#rules, job, error, note);
    if (!isOnce(job) || !(outcome instanceof Retry)) return outcome;
    const unknown = new Unknown(outcome.message);
    caused(unknown, error);
    return unknown;
  }

  /** Ends the program after an error that nobody caught: nobody knows in what state it is. */
  #crash(error, origin) {
    const how = howOf(origin);
    // If only one job ran, it is to blame, unless the error belongs to another one, which has ended.
    const guilty = CONTEXT.getStore() ?? (this.#running.size === 1 ? [...this.#running.values()][0] : undefined);
    if (hasEnded(guilty)) this.#reportLate(guilty, how, `: ${describe(error)}`);
    else process.stderr.write(`${how}: ${error?.stack ?? inspect(error)}\n`);
    if (this.#isOver) process.exit(1);
    this.#giveUp(guilty === undefined ? [] : [guilty], this.#brokenOff(guilty?.job, error, `\n(${how}; the program ended)`), (lines) => {
      this.#output.send(lines);
      this.#output.end(() => process.exit(1));
      setTimeout(() => process.exit(1), CRASH_GRACE_MS);
    });
  }

  /** Answers the running jobs while the process exits. */
  #onExit(code) {
    if (this.#isOver || !this.#isGreeted) return;
    const guilty = CONTEXT.getStore();
    if (hasEnded(guilty)) this.#reportLate(guilty, `process.exit(${code ?? 0}) was called`, '');
    const error = `the handler called process.exit(${code ?? 0}), or nothing kept the program alive`;
    // If no job has called it, none of them would ever end.
    const blamed = guilty === undefined ? [...this.#running.values()] : [guilty];
    // Nobody knows how far they came.
    this.#giveUp(blamed, new Unknown(error), (lines) => this.#output.writeNow(lines));
  }

  /**
   * Answers the jobs that are to blame, those that have failed before, and those that have not begun. The worker counts others as lost,
   * and has to know if the one to blame has been answered before.
   */
  #giveUp(blamed, outcome, write) {
    let lines = '';
    const ended = [];
    for (const [ref, attempt] of this.#running) {
      if (attempt.line !== undefined) {
        // One of its listeners ends the program.
        this.#running.delete(ref);
        lines += attempt.line;
        continue;
      }
      const isBlamed = blamed.includes(attempt);
      const own = attempt.failure ?? (isBlamed ? outcome : undefined);
      if (own === undefined) continue;
      this.#running.delete(ref);
      lines += answerLine(ref, own, isBlamed ? { crash: true } : {});
      ended.push([attempt.job, own]);
    }
    for (const { ref } of [...this.#waiting, ...this.#late]) {
      lines += lineOfUnbegun(ref, 'the program ended');
    }
    this.#isOver = true;
    // It says that what has no answer was not started.
    if (this.#running.size === 0) lines += lineOf({ type: 'bye' });
    else if (blamed.some(hasEnded)) lines += lineOf({ type: 'bye', crash: true });
    this.#running.clear();
    write(lines);
    for (const [job, own] of ended) this.#tellEnd(job, own);
  }
}

/** The options of a handler, as the configuration of the worker has them. */
function typeOptions(type, options) {
  const kept = {};
  const texts = { onSuccess: 'on_success', onFailure: 'on_failure' };
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    const what = `${name} of ${type}`;
    if (name === 'maxAttempts') kept.max_attempts = Number(whole(value, what, 1, 4_294_967_295));
    else if (name === 'concurrency') kept.concurrency = Number(whole(value, what, 1, 4_294_967_295));
    else if (name === 'timeout') kept.timeout = `${whole(lengthMs(value, what), `${what} in milliseconds`, 1, LONGEST_TIMEOUT_MS)}ms`;
    else if (name === 'tracking') {
      check(['all', 'failures', 'none'].includes(value), () => `${what} must be all, failures or none, not ${inspect(value)}`);
      kept.tracking = value;
    } else if (name === 'backoff') {
      check(typeof value === 'object' && value !== null, () => `${what} must be as the configuration has it, such as { fixed: '1s' }, not ${inspect(value)}`);
      kept.backoff = value;
    } else if (name === 'jitter') {
      check(typeof value === 'number' && value >= 0 && value <= 1, () => `${what} must be a number from 0 to 1, not ${inspect(value)}`);
      kept.jitter = value;
    } else if (name in texts) kept[texts[name]] = typed(value, what);
    else throw new TypeError(`a handler has no option '${name}': ${type} may have maxAttempts, backoff, jitter, timeout, concurrency, tracking, onSuccess and onFailure`);
  }
  return kept;
}

/** What a handler has returned: an outcome, or else the result of a success. */
function outcomeOf(returned) {
  return typeof returned?.[FIELDS] === 'function' ? returned : new Done(returned);
}

/** Returns whether this is an attempt that has been answered. */
function hasEnded(attempt) {
  return attempt !== undefined && attempt.job === undefined;
}

function howOf(origin) {
  return origin === 'unhandledRejection' ? 'a promise was rejected, and nobody handled it' : 'an error was thrown, and nobody caught it';
}

/** The line that gives a job back that has not begun. */
function lineOfUnbegun(ref, why) {
  return answerLine(ref, new Snooze(LATER_MS, why), { begun: false });
}

/** The line that ends an attempt. */
function answerLine(ref, outcome, more = {}) {
  const { result, ...fields } = outcome[FIELDS]();
  let text = toJson({ type: 'result', ref, ...fields, ...more });
  if (result !== undefined) text = `${text.slice(0, -1)},"result":${resultJson(result)}}`;
  const size = Buffer.byteLength(text);
  if (size > mostLineBytes) {
    throw new RangeError(`its line has ${size} bytes, and the pool's max_line is ${mostLineBytes}`);
  }
  return `${text}\n`;
}

function jobOf(message, output) {
  const { payload, payload_base64: base64, headers } = message;
  return new Job(String(message.job_type), base64 === undefined ? (payload ?? null) : Buffer.from(base64, 'base64'), {
    id: String(message.id),
    queue: String(message.queue),
    attempt: Number(message.attempt ?? 1),
    maxAttempts: message.max_attempts,
    createdMs: message.created_ms,
    timeout: message.timeout_ms === undefined ? undefined : Number(message.timeout_ms),
    headers: headers ?? {},
    encoding: message.encoding,
    results: Object.fromEntries(Object.entries(message.results ?? {}).map(([step, result]) => [step, bytesOr(result)])),
    message,
    [INTERNAL]: output,
  });
}

const codecs = codecsOf({ InvalidSubmission, Retry, encodedPayload: encoded, fromJson });

module.exports = {
  Producer,
  Status,
  InvalidSubmission,
  BulkError,
  NotSent,
  NotEnded,
  Gone,
  JobFailed,
  Cli,
  Refused,
  Unconfirmed,
  Worker,
  Job,
  Cancelled,
  Outcome,
  Done,
  Retry,
  Unknown,
  Fatal,
  Snooze,
  Drop,
  ...http({
    BulkError, Gone, InvalidSubmission, NotEnded, NotSent, Refused, Status, Unconfirmed,
    batchOf, bulkLine, bytesOr, checked, fromJson, lengthMs, named, queued, rest, submission, submissionOf, traced,
  }),
  ...fakes({ FIELDS, Gone, Job, NotEnded, Status, Worker, asBytes, bytesOr, fromJson, fieldsOf, queued, resultJson, submission, submissionOf, traced }),
  ...sql({ InvalidSubmission, Outcome, fromJson, resultJson, submission, submissionOf, traced }),
  done: (result) => new Done(result),
  retry: (error, options) => new Retry(error, options),
  unknown: (error) => new Unknown(error),
  fatal: (error) => new Fatal(error),
  snooze: (delay, reason) => new Snooze(delay, reason),
  drop: (reason) => new Drop(reason),
  Codecs: codecs.Codecs,
  CodecError: codecs.CodecError,
  DirectoryClaims: codecs.DirectoryClaims,
  Keys: codecs.Keys,
  S3Claims: codecs.S3Claims,
  version: VERSION,
};

// The worker started this program: nothing that is printed from now on may reach it, not even while modules are loaded.
if (DESCRIBES) process.stdout.write = process.stderr.write.bind(process.stderr);
else if (isMainThread && process.env.STREAMFLEET_PROTOCOL !== undefined) claim();
