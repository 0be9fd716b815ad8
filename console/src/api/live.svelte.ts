// Figures that renew themselves while their page is open and its tab is seen.
import { Failure } from './client';
import { session } from './session.svelte';

/** The longest pause between two tries, in milliseconds. */
const MOST_MS = 30_000;

/** How long an answer may take, in milliseconds: a Redis that hangs answers nothing. */
const PATIENCE_MS = 5000;

/** The status of a failure that no answer came in time. */
export const NO_ANSWER = 408;

/** What the shell says about the figures of the page: since when they are as they are, and why they are not newer. */
export const freshness = $state<{ atMs?: number; failure?: Failure }>({});

/** Those that failed last. They ask again as soon as one of them gets an answer. */
const failing = new Set<{ refresh: () => void }>();

/** An answer that is asked for again and again. Failures keep the last one, which is then stale. */
export class Live<T> {
  data = $state.raw<T>();
  failure = $state.raw<Failure>();
  /** When `data` was true, in milliseconds since 1970. */
  atMs = $state<number>();
  #failures = 0;
  #timer?: ReturnType<typeof setTimeout>;
  #patience?: ReturnType<typeof setTimeout>;
  #asked?: AbortController;

  /**
   * Begins with the component that creates it, and ends with it. What `ask` reads of the state begins it anew. How often it asks may
   * depend on the last answer.
   */
  constructor(
    private readonly ask: (signal: AbortSignal) => Promise<T>,
    private readonly everyMs: number | ((data?: T) => number) = 2000,
    /** Whether the header says how old it is. What stands beside the page is older or newer than the page. */
    private readonly isPage = true,
  ) {
    $effect(() => {
      this.#begin();
      const seen = () => document.visibilityState === 'visible' && this.refresh();
      document.addEventListener('visibilitychange', seen);
      return () => {
        document.removeEventListener('visibilitychange', seen);
        this.#stop();
        failing.delete(this);
      };
    });
  }

  get #pauseMs(): number {
    return typeof this.everyMs === 'number' ? this.everyMs : this.everyMs(this.data);
  }

  /** Whether the figures are old, as far as is known: if one request of the page gets no answer, the others will not either. */
  get isStale(): boolean {
    return this.data !== undefined && (this.failure ?? freshness.failure) !== undefined;
  }

  /** Asks at once, for example after an action. */
  refresh(): void {
    this.#stop();
    this.#begin();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#patience);
    this.#asked?.abort();
  }

  #wait(asked: AbortController): void {
    this.#patience = setTimeout(() => {
      // Nothing is missing while somebody logs in.
      if (session.ended) return this.#wait(asked);
      asked.abort();
      this.#failed(new Failure(NO_ANSWER, ''));
    }, PATIENCE_MS);
  }

  #begin(): void {
    const asked = new AbortController();
    this.#asked = asked;
    this.#wait(asked);
    this.ask(asked.signal).then(
      (data) => asked.signal.aborted || this.#took(data),
      (error: unknown) => asked.signal.aborted || this.#failed(error),
    );
  }

  #took(data: T): void {
    clearTimeout(this.#patience);
    this.data = data;
    this.failure = undefined;
    this.atMs = Date.now();
    this.#failures = 0;
    if (this.isPage) Object.assign(freshness, { atMs: this.atMs, failure: undefined });
    this.#again(this.#pauseMs);
    if (!failing.delete(this)) return;
    for (const other of failing) other.refresh();
  }

  #failed(error: unknown): void {
    clearTimeout(this.#patience);
    this.failure = error instanceof Failure ? error : new Failure(0, String(error));
    const { status } = this.failure;
    // A request that is wrong stays wrong, and says nothing about other figures.
    const isWrong = status >= 400 && status < 429 && status !== NO_ANSWER;
    if (this.isPage && !isWrong) freshness.failure = this.failure;
    this.#failures += 1;
    if (isWrong) return;
    failing.add(this);
    const pause = this.failure.retryAfterMs ?? this.#pauseMs * 2 ** this.#failures;
    this.#again(Math.min(pause, MOST_MS) * (0.75 + Math.random() / 2));
  }

  #again(ms: number): void {
    if (document.visibilityState === 'visible') this.#timer = setTimeout(() => this.#begin(), ms);
  }
}
