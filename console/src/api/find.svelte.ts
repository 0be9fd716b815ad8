// A search: rows arrive while it looks, it says how far it is, and it can be stopped and continued.
import { untrack } from 'svelte';
import { Failure, send, type JobRow, type Schemas } from './client';
import { lines } from './lines';
import { freshness } from './live.svelte';

type Progress = Partial<Schemas['JobSearchFacts']> & { found: number; next: string | null };
type Line = { progress: Progress } | { problem: Schemas['Problem'] };

/** How many rows a search finds before it stops and waits to be continued. */
const MOST = 5000;

/** How often the rows on the screen change at most, in milliseconds. */
const SHOWN_MS = 100;

export class Find<Row = JobRow> {
  rows = $state.raw<Row[]>([]);
  state = $state<'idle' | 'looking' | 'stopped' | 'complete' | 'failed'>('idle');
  lookedAt = $state(0);
  of = $state<number | null>(null);
  failure = $state.raw<Failure>();
  unread = $state.raw<string[]>([]);
  #query = new URLSearchParams();
  #next: string | null = null;
  #before = 0;
  #asked?: AbortController;
  // A job that goes from one place to another while a search looks is found in both.
  #seen = new Set<string>();

  /** Finds what this list has, each once by its key and in a line under `name`, and stops after so many. */
  constructor(
    private readonly key: (row: Row) => string,
    private readonly list = '/api/v1/jobs',
    private readonly name = 'job',
    private readonly most = MOST,
  ) {}

  /** Whether there is more to look at. */
  get canContinue(): boolean {
    return this.state !== 'looking' && this.state !== 'complete' && this.#next !== null;
  }

  /** Begins a new search, with the parameters of the list. */
  begin(query: URLSearchParams): void {
    this.#asked?.abort();
    Object.assign(this, { rows: [], lookedAt: 0, of: null, unread: [] });
    this.#query = query;
    this.#next = null;
    this.#before = 0;
    this.#seen.clear();
    // The effect that begins a search does not depend on what it finds.
    untrack(() => void this.#look());
  }

  /** Goes on where it stopped. */
  continue(): void {
    this.#before = this.lookedAt;
    void this.#look();
  }

  /** Stops. The rows stay. */
  stop(): void {
    this.#asked?.abort();
    if (this.state === 'looking') this.state = 'stopped';
  }

  async #look(): Promise<void> {
    const asked = new AbortController();
    this.#asked = asked;
    this.state = 'looking';
    this.failure = undefined;
    const query = new URLSearchParams(this.#query);
    if (this.#next) query.set('after', this.#next);
    // Rows since the last progress: continuing finds them again, so they are shown when the progress is known.
    let found: Row[] = [];
    let ready: Row[] = [];
    let shownAt = 0;
    const show = () => {
      if (ready.length) this.rows = this.rows.concat(ready);
      ready = [];
      shownAt = performance.now();
    };
    let last: Progress | undefined;
    const most = this.rows.length + this.most;
    try {
      const headers = { accept: 'application/x-ndjson' };
      const response = await send(new Request(`${this.list}?${query}`, { headers, signal: asked.signal }));
      for await (const line of lines<Line>(response)) {
        // Lines that have come before another search replaced this one.
        if (this.#asked !== asked) return;
        if ('problem' in line) throw Failure.from(line.problem);
        if (!('progress' in line)) {
          found.push((line as Record<string, Row>)[this.name]!);
          continue;
        }
        last = line.progress;
        this.#took(last);
        ready = ready.concat(found.filter((row) => this.#isNew(row)));
        found = [];
        if (performance.now() - shownAt > SHOWN_MS) show();
        if (this.rows.length + ready.length >= most && last.next) break;
      }
      this.state = last && (last.complete ?? last.next === null) ? 'complete' : 'stopped';
      Object.assign(freshness, { atMs: Date.now(), failure: undefined });
    } catch (error) {
      if (!asked.signal.aborted) {
        this.failure = error instanceof Failure ? error : new Failure(0, String(error));
        this.state = 'failed';
      }
    }
    // A search that another one has replaced shows nothing more.
    if (this.#asked === asked) show();
  }

  #isNew(row: Row): boolean {
    const { size } = this.#seen;
    return this.#seen.add(this.key(row)).size > size;
  }

  #took(progress: Progress): void {
    this.#next = progress.next;
    this.lookedAt = this.#before + (progress.looked_at ?? progress.found);
    this.of = progress.of ?? null;
    this.unread = progress.unread ?? [];
  }
}
