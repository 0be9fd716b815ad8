/**
 * Submits jobs by the HTTP API of `streamfleet console`, which offers what a plain XADD cannot: ids that are accepted once, unique keys, a
 * limit of the queue's depth, durability, and waiting without polling. It starts no program and needs no Redis client.
 */
'use strict';

const { randomUUID } = require('node:crypto');
const { inspect } = require('node:util');

/** A request has at most this many jobs, and about this many bytes. */
const ROUND_JOBS = 500;
const ROUND_BYTES = 4 * 1024 * 1024;
/** The API waits no longer in one request. */
const LONGEST_WAIT_MS = 60_000;
const FIRST_PAUSE_MS = 100;
const LOOK_AGAIN_MS = 250;
const LONGEST_PAUSE_MS = 5000;
/** Another try may help: too many requests or a full queue, and answers of a proxy or of a console without Redis. */
const TEMPORARY = [429, 502, 503, 504];
/** The request never left: there is no connection. */
const NOT_CONNECTED =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_CERT_ALTNAME_INVALID|CERT_HAS_EXPIRED|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT_LOCALLY)$/;
const REMEDIES = {
  401: 'give `token` one that `streamfleet console token` has made and the console knows',
  403: 'give the token the role submitter for this queue, in the accounts of the console',
  421: 'use the address of `console.public_url`',
};

/** What this needs of the package around it. */
module.exports = ({ BulkError, Gone, InvalidSubmission, NotEnded, NotSent, Refused, Status, Unconfirmed, ...own }) => {
  const { batchOf, bulkLine, bytesOr, checked, fromJson, lengthMs, named, queued, rest, submission, submissionOf, traced } = own;

  class Http {
    #url;
    #token;
    #queue;
    #timeoutMs;
    #retries;

    constructor({ url, token, queue = 'default', timeout = '10s', retries = 4 } = {}) {
      this.#url = addressOf(url);
      if (typeof token !== 'function' && (typeof token !== 'string' || token === '')) {
        throw new TypeError('token must be a text that `streamfleet console token` has printed, or a function that returns one');
      }
      if (!Number.isInteger(retries) || retries < 0) throw new TypeError(`retries must be a whole number, at least 0, not ${inspect(retries)}`);
      this.#token = token;
      this.#queue = queued(queue);
      this.#timeoutMs = lengthMs(timeout, 'timeout');
      this.#retries = retries;
    }

    /** Submits a job. Says whether it is new. A request that is repeated submits nothing twice. */
    async enqueue(type, payload, options) {
      const job = this.#job((others) => submission(type, payload, others), options);
      const request = { method: 'POST', body: job.line, form: 'application/json', key: job.id === undefined ? randomUUID() : undefined };
      const { answer } = await this.#ask(`${this.#path(job.queue)}/jobs`, request);
      const isDebounced = answer.debounced === true;
      return { id: answer.id, state: answer.state, isNew: !answer.existing && !isDebounced, replaced: answer.replaced, isDebounced };
    }

    /** Submits many jobs in few requests, and returns their ids in the same order. They are no transaction. */
    async enqueueMany(jobs) {
      const all = Array.from(jobs, (job, index) => this.#job((others) => submissionOf(others, `jobs[${index}]`), job));
      const ids = new Array(all.length).fill(null);
      const errors = new Array(all.length).fill(null);
      let broken;
      for (const round of rounds(all, this.#queue)) {
        const fates = broken
          ? round.map(() => ({ error: new NotSent(`not sent after ${broken.message}`) }))
          : await this.#submitAll(all[round[0]].queue, round.map((index) => all[index].line)).catch((error) => {
              broken = error;
              return round.map(() => ({ error }));
            });
        round.forEach((index, nth) => {
          if (fates[nth].error === undefined) ids[index] = fates[nth].id;
          else errors[index] = fates[nth].error;
        });
      }
      if (errors.some((error) => error !== null)) throw new BulkError(ids, errors);
      return ids;
    }

    /**
     * Opens a batch: submits its members, and when all of them have succeeded, the job that follows. Returns the ids of the members. After
     * an error, call it again with the same members in the same order: none is accepted twice.
     */
    async batch(name, members, follow) {
      const { queue, last, lines } = batchOf(name, Array.from(members, traced), traced(follow), this.#queue, 'the HTTP API');
      const request = { method: 'PUT', body: `{"follow":${last},"members":[${lines.join(',')}]}`, form: 'application/json' };
      const { answer } = await this.#ask(`${this.#path(queue)}/batches/${partOf(name)}`, { ...request, names: 'batch' });
      return answer.ids;
    }

    /** Looks a job up. Null: it does not exist, or has left no record. */
    async status(id, { queue, signal } = {}) {
      const { status, answer } = await this.#ask(this.#jobPath(id, queue), { signal, allowed: [404] });
      return status === 404 ? null : statusOf(answer);
    }

    /** Returns the result of a job that is done, undefined if there is none yet, and throws JobFailed if there will be none. */
    async result(id, options = {}) {
      return (await this.status(id, options))?.value();
    }

    /** Waits for the end of a job. */
    async wait(id, { timeout, queue, signal } = {}) {
      const until = timeout === undefined ? Infinity : performance.now() + lengthMs(timeout, 'timeout');
      let state;
      for (;;) {
        signal?.throwIfAborted();
        const left = Math.ceil(Math.max(0, Math.min(LONGEST_WAIT_MS, until - performance.now())));
        const path = `${this.#jobPath(id, queue)}?wait=${left}ms`;
        const { status, answer } = await this.#ask(path, { signal, allowed: [404], extraMs: left });
        const found = status === 404 ? undefined : statusOf(answer);
        if (found?.ended) return found;
        if (found === undefined && state !== undefined) throw new Gone(id);
        state = found?.state;
        if (performance.now() >= until) throw new NotEnded(id, state);
        // It may be about to be submitted, as one that follows a batch.
        if (found === undefined) await rest(Math.min(LOOK_AGAIN_MS, until - performance.now()), signal);
      }
    }

    #path(queue) {
      return `/api/v1/queues/${queue === undefined ? this.#queue : queued(queue)}`;
    }

    #jobPath(id, queue) {
      return `${this.#path(queue)}/jobs/${partOf(named(id, 'id', 128))}`;
    }

    /** A job and its line. */
    #job(submit, given) {
      const { idempotentFor, durability, ...others } = traced(given) ?? {};
      const job = submit(others);
      let line = bulkLine(job, 'the HTTP API');
      if (idempotentFor !== undefined) line = `${line.slice(0, -1)},"idempotent_for":${checked(() => lengthMs(idempotentFor, 'idempotentFor'))}}`;
      if (durability !== undefined) line = `${line.slice(0, -1)},"durability":${JSON.stringify(String(durability))}}`;
      return { queue: job.queue, id: job.id, line };
    }

    /** Submits the lines of one queue, and returns what became of each. */
    async #submitAll(queue, lines) {
      const request = { method: 'POST', body: lines.join('\n'), form: 'application/x-ndjson', key: randomUUID() };
      // An answer that broke off, and jobs of which Redis has said nothing, are asked for again: the key and the ids keep them single.
      const isWhole = (text) => {
        const fates = text.split('\n');
        return fates.at(-1) === '' && JSON.parse(fates.at(-2) ?? '{}').done !== undefined && !text.includes('"status":503');
      };
      const { text } = await this.#ask(`${this.#path(queue)}/jobs`, { ...request, isWhole });
      const fates = new Array(lines.length).fill({ error: new Unconfirmed('the console has not said what became of the job') });
      for (const fate of text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line))) {
        if (fate.line !== undefined) fates[fate.line - 1] = fate.problem ? { error: this.#errorOf(fate.problem.status, fate.problem) } : { id: fate.id };
      }
      return fates;
    }

    /** Sends a request, again if that may help and cannot submit a job twice, and returns the answer. */
    async #ask(path, request) {
      let mayBeSent = false;
      for (let tries = 0; ; tries += 1) {
        const { error, isSent, ...found } = await this.#tried(path, request);
        if (error === undefined) return found;
        mayBeSent ||= isSent;
        const isLast = found.isFinal || tries >= this.#retries || (found.pauseMs ?? 0) > this.#timeoutMs;
        if (isLast) throw error instanceof Refused && mayBeSent && !found.isFinal ? new Unconfirmed(error.message) : error;
        const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** tries) * (0.5 + Math.random() / 2);
        await rest(found.pauseMs ?? pauseMs, request.signal);
        request.signal?.throwIfAborted();
      }
    }

    /** Sends a request once. An error says whether the request may have been carried out. */
    async #tried(path, { method = 'GET', body, form, key, signal, allowed = [], extraMs = 0, isWhole, names = 'id' }) {
      const headers = { accept: form === 'application/x-ndjson' ? `${form}, application/json` : 'application/json', authorization: `Bearer ${await this.#secret()}` };
      if (form !== undefined) headers['content-type'] = form;
      if (key !== undefined) headers['idempotency-key'] = key;
      const timer = AbortSignal.timeout(this.#timeoutMs + extraMs);
      let response;
      let text;
      try {
        response = await fetch(this.#url + path, { method, body, headers, redirect: 'manual', signal: anyOf(signal, timer) });
        text = await response.text();
      } catch (error) {
        signal?.throwIfAborted();
        const why = timer.aborted ? `it did not answer within ${this.#timeoutMs + extraMs} ms` : error.cause?.message || error.cause?.code || error.message;
        const isRefused = NOT_CONNECTED.test(error.cause?.code);
        const made = new (isRefused ? Refused : Unconfirmed)(`the console at ${this.#url} cannot be reached: ${why}`);
        return { error: made, isSent: !isRefused };
      }
      const { status } = response;
      if ((status >= 200 && status < 300) || allowed.includes(status)) {
        try {
          const answer = isWhole === undefined ? fromJson(text) : undefined;
          if (isWhole?.(text) ?? (status === 404 || typeof answer[names] === 'string')) return { status, answer, text };
        } catch {
          // Something else is at this address, or the answer broke off.
        }
        const what = isWhole === undefined ? 'names no job: is it the address of `streamfleet console`?' : 'broke off, or Redis has not said what became of some jobs';
        return { error: new Unconfirmed(`the answer of ${this.#url} ${what}`), isSent: true };
      }
      const problem = problemOf(text);
      // With a problem of the console, the job is accepted, and only its durability is not confirmed.
      const isFinal = !TEMPORARY.includes(status) || (status === 504 && problem !== undefined);
      const after = Number(response.headers.get('retry-after'));
      const pauseMs = after > 0 ? after * 1000 : undefined;
      return { error: this.#errorOf(status, problem ?? { detail: text.slice(0, 200) }), isSent: status !== 429, isFinal, pauseMs };
    }

    async #secret() {
      const token = typeof this.#token === 'function' ? await this.#token() : this.#token;
      return String(token).trim();
    }

    /** The error for a status, with the fields that are wrong and what to do. */
    #errorOf(status, { title, detail, errors = [] }) {
      const remedy = REMEDIES[status] === undefined ? '' : `; ${REMEDIES[status]}`;
      const message = `${detail || title || 'the console has said nothing else'} (${this.#url}: status ${status})${remedy}`;
      const is = (...all) => all.includes(status);
      const Kind = is(400, 413, 415, 422) ? InvalidSubmission : is(502, 503, 504) ? Unconfirmed : Refused;
      return Object.assign(new Kind(message), { status, fields: errors.map(({ at }) => at) });
    }
  }

  function statusOf(answer) {
    const { progress } = answer;
    const values = { state: answer.state, type: answer.type, created_ms: answer.created_ms ?? undefined, error: answer.error ?? undefined };
    const found = new Status(answer.id, { ...values, progress: progress?.percent ?? undefined, note: progress?.message ?? undefined });
    found.result = answer.result === null || answer.result === undefined ? undefined : bytesOr(answer.result);
    return found;
  }

  return { Http };
};

function addressOf(url) {
  let parsed;
  try {
    parsed = new URL(String(url));
  } catch {
    throw new TypeError(`url must be the address of \`streamfleet console\`, such as http://127.0.0.1:9470, not ${inspect(url)}`);
  }
  const { protocol, username, password, search, hash } = parsed;
  if (!['http:', 'https:'].includes(protocol)) throw new TypeError(`url must begin with http:// or https://, not ${protocol}`);
  if (username + password + search + hash !== '') throw new TypeError('url must have no login, query or fragment: the token goes into `token`');
  return parsed.href.replace(/\/+$/, '');
}

/** A name as a part of a path. Clients take a part of dots alone out of it. */
function partOf(name) {
  return encodeURIComponent(name).replace(/^\.{1,2}$/, '$&%20');
}

/** The indexes of the jobs by request, each about one queue. */
function* rounds(jobs, queue) {
  const open = new Map();
  for (const [index, job] of jobs.entries()) {
    const name = job.queue ?? queue;
    let round = open.get(name) ?? { size: 0, indexes: [] };
    if (round.indexes.length > 0 && (round.indexes.length >= ROUND_JOBS || round.size + job.line.length > ROUND_BYTES)) {
      yield round.indexes;
      round = { size: 0, indexes: [] };
    }
    round.indexes.push(index);
    round.size += job.line.length;
    open.set(name, round);
  }
  for (const { indexes } of open.values()) yield indexes;
}

/** A signal that fires when one of these does. AbortSignal.any is missing before Node 20. */
function anyOf(signal, timer) {
  if (signal === undefined) return timer;
  if (typeof AbortSignal.any === 'function') return AbortSignal.any([signal, timer]);
  const both = new AbortController();
  for (const each of [signal, timer]) {
    if (each.aborted) both.abort(each.reason);
    else each.addEventListener('abort', () => both.abort(each.reason), { once: true });
  }
  return both.signal;
}

/** What the console says about a failure; undefined if it is not the console that answers. */
function problemOf(text) {
  try {
    const problem = JSON.parse(text);
    return typeof problem?.detail === 'string' || typeof problem?.title === 'string' ? problem : undefined;
  } catch {
    return undefined;
  }
}
