import { afterEach, expect, test, vi } from 'vitest';
import { Find } from './find.svelte';

interface Row {
  id: string;
}

/** Answers with these lines, at once. */
function answer(...lines: unknown[]): void {
  vi.stubGlobal('fetch', () => Promise.resolve(new Response(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))));
}

const progress = (next: string | null) => ({ progress: { found: 0, next, looked_at: 1, complete: next === null } });
const jobs = (...ids: string[]) => ids.map((id) => ({ job: { id } }));

afterEach(() => vi.unstubAllGlobals());

test('a job that is found in two places is listed once', async () => {
  answer(...jobs('a', 'b'), progress('x'), ...jobs('b', 'c'), progress(null));
  const find = new Find<Row>(({ id }) => id, 'http://localhost/jobs');
  find.begin(new URLSearchParams());
  await vi.waitFor(() => expect(find.state).toBe('complete'));
  expect(find.rows.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
});

test('a search that another one has replaced adds nothing', async () => {
  answer(...jobs('old'), progress('x'));
  const find = new Find<Row>(({ id }) => id, 'http://localhost/jobs');
  find.begin(new URLSearchParams());
  answer(...jobs('new'), progress(null));
  find.begin(new URLSearchParams());
  await vi.waitFor(() => expect(find.state).toBe('complete'));
  expect(find.rows.map(({ id }) => id)).toEqual(['new']);
});
