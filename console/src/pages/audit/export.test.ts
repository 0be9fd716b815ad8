import { afterEach, expect, test, vi } from 'vitest';
import { readAll } from './export';

const body = (...lines: unknown[]) => new Response(lines.map((line) => `${JSON.stringify(line)}\n`).join(''), { status: 200 });
afterEach(() => vi.unstubAllGlobals());

test('an export goes on where an answer ended, until there is no more', async () => {
  const asked: string[] = [];
  const answers = [body({ action: { entry: '2-0' } }, { progress: { found: 1, next: '2-0' } }), body({ action: { entry: '1-0' } }, { progress: { found: 1, next: null } })];
  vi.stubGlobal('location', new URL('http://console/'));
  vi.stubGlobal('fetch', async (request: Request) => (asked.push(new URL(request.url).search), answers.shift()!));
  vi.stubGlobal('Request', class extends Request {
    constructor(input: string, init?: RequestInit) {
      super(new URL(input, 'http://console/'), init);
    }
  });
  const counts: number[] = [];
  const notes = await readAll(new URLSearchParams('who=ann'), (count) => counts.push(count), new AbortController().signal);
  expect(notes).toEqual(['{"entry":"2-0"}', '{"entry":"1-0"}']);
  expect(asked).toEqual(['?who=ann', '?who=ann&after=2-0']);
  expect(counts.at(-1)).toBe(2);
});
