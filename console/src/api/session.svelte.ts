// Who is logged in, what they may do, and the token of their changes.
import type { Role, Schemas } from './client';

const ORDER: Role[] = ['viewer', 'submitter', 'operator', 'admin'];
const rank = (role: string | null | undefined) => ORDER.indexOf(role as Role);

class Session {
  known = $state.raw<Schemas['Session']>();
  /** Who is logged in. While the login stands over the page, it is who was. */
  person = $state.raw<Schemas['SessionPerson']>();
  /** True while the login stands over the page. */
  ended = $state(false);
  #renewal?: { promise: Promise<void>; resolve: () => void };

  get csrf(): string {
    return this.person?.csrf_token ?? '';
  }

  /** Whether they may do this on a queue, or on every queue if none is named. */
  may(role: Role, queue?: string | null): boolean {
    const ofQueue = queue ? this.person?.queues[queue] : undefined;
    return Math.max(rank(ofQueue), rank(this.person?.role)) >= rank(role);
  }

  /** Whether they may do this on some queue. */
  mayAnywhere(role: Role): boolean {
    return this.may(role) || Object.values(this.person?.queues ?? {}).some((has) => rank(has) >= rank(role));
  }

  /**
   * Asks who is logged in. Returns false if nobody is. If it is another person than before, the page begins anew, and this never
   * returns: what the former one has begun is not done with the rights of the new one.
   */
  async load(): Promise<boolean> {
    const response = await fetch('/api/v1/session', { headers: { accept: 'application/json' } });
    if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
    const known = (await response.json()) as Schemas['Session'];
    if (this.person && known.person && known.person.name !== this.person.name) {
      location.reload();
      return new Promise(() => {});
    }
    this.known = known;
    this.person = known.person ?? this.person;
    return Boolean(known.person);
  }

  /** Whether another tab has begun another session of the same person since this token was taken, so that it is worth another try. */
  async hasOtherToken(token: string): Promise<boolean> {
    return (await this.load().catch(() => false)) && this.csrf !== token;
  }

  /** Begins or ends the session; `undefined` if nothing answers. */
  async #change(method: 'POST' | 'DELETE', body?: string): Promise<Response | undefined> {
    const token = this.csrf;
    const headers = { 'content-type': 'application/json', 'X-CSRF-Token': token };
    const response = await fetch('/api/v1/session', { method, headers, body }).catch(() => undefined);
    return response?.status === 403 && (await this.hasOtherToken(token)) ? this.#change(method, body) : response;
  }

  /** Shows the login, and waits for it to succeed or for the request to be given up. */
  async renewed(signal?: AbortSignal): Promise<void> {
    if (!this.#renewal) {
      let resolve = () => {};
      const promise = new Promise<void>((done) => (resolve = done));
      this.#renewal = { promise, resolve };
      this.ended = true;
    }
    const aborted = new Promise<never>((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    await Promise.race([this.#renewal.promise, aborted]);
  }

  /**
   * Logs in with a name and a password, or with the key of a printed link, and lets all requests go on that wait for it. Returns why
   * not, if it fails.
   */
  async logIn(sent: { name: string; password: string } | { key: string }): Promise<'wrong' | 'wait' | 'failed' | undefined> {
    const response = await this.#change('POST', JSON.stringify(sent));
    if (response?.status === 401 || response?.status === 422) return 'wrong';
    if (response?.status === 429) return 'wait';
    if (!response?.ok || !(await this.load())) return 'failed';
    this.ended = false;
    this.#renewal?.resolve();
    this.#renewal = undefined;
  }

  /** Ends the session, and leads to the login. */
  async logOut(): Promise<void> {
    await this.#change('DELETE');
    location.reload();
  }
}

export const session = new Session();
