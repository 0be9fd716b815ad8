// What the palette can go to and act on: asked for when it opens.
import { api, ok, type Schemas } from '../api/client';
import { session } from '../api/session.svelte';
import type { Known, Offer } from '../actions';

type Place = Schemas['JobPlace'];

/** How long somebody types an id before it is looked up, in milliseconds. */
const TYPES_MS = 200;

class KnownThings {
  things = $state.raw<Known & { types?: string[] }>({});
  /** The jobs of the id that was typed. */
  jobs = $state.raw<Place[]>([]);
  #offers = $state.raw<(known: Known) => Offer[]>();
  #timer?: ReturnType<typeof setTimeout>;
  #asked?: AbortController;

  /** What one may do to it. Actions are loaded with the first opening. */
  get offers(): Offer[] {
    return this.#offers?.(this.things) ?? [];
  }

  /** Asks for everything anew. What cannot be read is not offered. */
  look(): void {
    void import('../actions').then(({ offers }) => (this.#offers = offers));
    this.#take(ok(api.GET('/api/v1/queues')), ({ items }) => ({ queue: items }));
    this.#take(ok(api.GET('/api/v1/workers')), ({ items }) => ({ worker: items }));
    this.#take(ok(api.GET('/api/v1/tasks', { params: { query: { limit: 50 } } })), ({ items }) => ({ task: items }));
    this.#take(ok(api.GET('/api/v1/incidents')), ({ items }) => ({ incident: items }));
    this.#take(ok(api.GET('/api/v1/gates', { params: { query: { limit: 500 } } })), ({ items }) => ({ gate: items }));
    this.#take(ok(api.GET('/api/v1/cron', { params: { query: { limit: 500 } } })), ({ items }) => ({ cron: items }));
    if (session.may('operator')) this.#take(ok(api.GET('/api/v1/alerts')), ({ sinks }) => ({ sink: sinks }));
    this.#take(ok(api.GET('/api/v1/suggestions')), ({ types }) => ({ types }));
  }

  #take<T>(asked: Promise<T>, of: (answer: T) => Partial<KnownThings['things']>): void {
    asked.then(
      (answer) => (this.things = { ...this.things, ...of(answer) }),
      () => undefined,
    );
  }

  /** Looks up a job by its id, once the person stops typing. */
  find(id: string): void {
    clearTimeout(this.#timer);
    this.#asked?.abort();
    this.jobs = [];
    // An id has no spaces, and few are this short.
    if (!/^\S{3,}$/.test(id)) return;
    this.#timer = setTimeout(() => {
      const asked = (this.#asked = new AbortController());
      const path = { id };
      ok(api.GET('/api/v1/jobs/{id}', { params: { path }, signal: asked.signal })).then(
        ({ items }) => asked.signal.aborted || (this.jobs = items),
        () => undefined,
      );
    }, TYPES_MS);
  }
}

export const known = new KnownThings();
