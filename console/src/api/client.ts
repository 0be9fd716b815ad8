// The typed client of the API. Every request of the console passes here, and every failure is a `Failure`.
import createClient, { type Middleware } from 'openapi-fetch';
import { fieldText, problemText } from './problem';
import type { components, paths } from './schema';
import { session } from './session.svelte';

export type Schemas = components['schemas'];
export type Queue = Schemas['Queue'];
export type JobRow = Schemas['JobRow'];
export type Incident = Schemas['Incident'];
export type Task = Schemas['Task'];
export type Role = 'viewer' | 'submitter' | 'operator' | 'admin';

/** What went wrong with a request, in the language of the console as far as it has words for it. `status` is 0 if nothing answered. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly errors: Schemas['FieldError'][] = [],
    readonly retryAfterMs?: number,
    /** What the API has written, in English: it may say more than the message. */
    readonly detail = '',
  ) {
    super(message);
  }

  /** What is wrong with one field, such as `/reason` of the body or `query.type`. */
  at(field: string): string | undefined {
    const found = this.errors.find((error) => error.at === field);
    return found && fieldText(found);
  }

  /** What a problem document says. */
  static from(problem: Schemas['Problem'], retryAfterMs?: number): Failure {
    return new Failure(problem.status, problemText(problem, retryAfterMs), problem.errors, retryAfterMs, problem.detail);
  }

  /** Reads the answer of a request that failed. */
  static async of(response: Response): Promise<Failure> {
    const problem = (await response.json().catch(() => undefined)) as Schemas['Problem'] | undefined;
    const seconds = Number(response.headers.get('retry-after'));
    const retryAfterMs = seconds ? seconds * 1000 : undefined;
    // What is in between, such as a proxy, answers in another form.
    if (!problem?.type) return new Failure(response.status, problem?.detail ?? `${response.status} ${response.statusText}`, problem?.errors, retryAfterMs);
    return Failure.from({ ...problem, status: response.status }, retryAfterMs);
  }
}

/** How often a request for figures is sent again if the console is too busy. */
const TRIES = 3;

/** Waits, unless the request is given up. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), reject(signal.reason)));
  });
}

/**
 * Sends a request as this person. If the session has ended, it asks for the login and goes on; a change that has the token of an
 * earlier session is sent again with that of the present one. What only reads waits for a console that is too busy.
 */
export async function send(request: Request): Promise<Response> {
  let isAgain = false;
  for (let busy = 0; ; ) {
    const sent = request.clone();
    const token = session.csrf;
    if (request.method !== 'GET') sent.headers.set('X-CSRF-Token', token);
    const response = await fetch(sent).catch((error: unknown) => {
      if (request.signal.aborted) throw error;
      throw new Failure(0, error instanceof Error ? error.message : String(error));
    });
    if (response.ok) return response;
    if (response.status === 401) {
      await session.renewed(request.signal);
      continue;
    }
    const failure = await Failure.of(response);
    if (response.status === 403 && request.method !== 'GET' && !isAgain) {
      isAgain = true;
      if (await session.hasOtherToken(token)) continue;
    }
    busy += 1;
    if (response.status !== 429 || request.method !== 'GET' || busy > TRIES) throw failure;
    await pause(failure.retryAfterMs ?? 1000, request.signal);
  }
}

const api = createClient<paths>({ baseUrl: '', fetch: send });
const unwrap: Middleware = {
  onRequest({ request }) {
    if (!request.headers.has('accept')) request.headers.set('accept', 'application/json');
  },
};
api.use(unwrap);

/** Returns what a request answered. `send` has thrown what failed. */
export async function ok<T>(asked: Promise<{ data?: T }>): Promise<T> {
  return (await asked).data as T;
}

export { api };
