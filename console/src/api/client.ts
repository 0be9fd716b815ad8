// The typed client of the API. Every request of the console passes here, and every failure is a `Failure`.
import createClient, { type Middleware } from 'openapi-fetch';
import type { components, paths } from './schema';
import { session } from './session.svelte';

export type Schemas = components['schemas'];
export type Queue = Schemas['Queue'];
export type JobRow = Schemas['JobRow'];
export type Incident = Schemas['Incident'];
export type Task = Schemas['Task'];
export type Role = 'viewer' | 'submitter' | 'operator' | 'admin';

/** What went wrong with a request, in the words of the API or of the browser. `status` is 0 if nothing answered. */
export class Failure extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly errors: Schemas['FieldError'][] = [],
    readonly retryAfterMs?: number,
  ) {
    super(message);
  }

  /** What is wrong with one field, such as `/reason` of the body or `query.type`. */
  at(field: string): string | undefined {
    return this.errors.find((error) => error.at === field)?.detail;
  }

  /** Reads the answer of a request that failed. */
  static async of(response: Response): Promise<Failure> {
    const problem = (await response.json().catch(() => undefined)) as Schemas['Problem'] | undefined;
    const seconds = Number(response.headers.get('retry-after'));
    const text = problem?.detail ?? `${response.status} ${response.statusText}`;
    return new Failure(response.status, text, problem?.errors, seconds ? seconds * 1000 : undefined);
  }
}

/** Sends a request as this person. Asks for the login and sends it again if the session has ended. */
export async function send(request: Request): Promise<Response> {
  for (;;) {
    const sent = request.clone();
    if (request.method !== 'GET') sent.headers.set('X-CSRF-Token', session.csrf);
    const response = await fetch(sent).catch((error: unknown) => {
      if (request.signal.aborted) throw error;
      throw new Failure(0, error instanceof Error ? error.message : String(error));
    });
    if (response.ok) return response;
    if (response.status !== 401) throw await Failure.of(response);
    await session.renewed(request.signal);
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
