import { beforeEach, expect, test, vi } from 'vitest';
import { Failure, send } from './client';
import { session } from './session.svelte';

/** Who is logged in in the browser, by the cookie that all tabs share; nobody at first. */
let holder: { name: string; csrf_token: string } | null = null;
/** The changes that were made, with the name of who made them. */
let made: string[] = [];
const reload = vi.fn();

const answer = (status: number, body: unknown = {}) => new Response(JSON.stringify(body), { status });

/** A console with the accounts `ann` and `bob`, whose password is their name. */
async function fakeConsole(asked: string | Request, init?: RequestInit): Promise<Response> {
  const request = asked instanceof Request ? asked : new Request(new URL(asked, 'http://console/'), init);
  const isSession = new URL(request.url).pathname === '/api/v1/session';
  if (isSession && request.method === 'GET') return answer(200, { person: holder && { role: 'admin', queues: {}, can_log_out: true, ...holder } });
  if (!isSession && !holder) return answer(401);
  if (holder && request.headers.get('x-csrf-token') !== holder.csrf_token) return answer(403, { detail: 'no token of this session' });
  if (!isSession) {
    made.push(holder!.name);
    return answer(200);
  }
  const { name, password } = (await request.json()) as { name: string; password: string };
  if (name !== password) return answer(401);
  holder = { name, csrf_token: `${name}-here` };
  return answer(200);
}

const change = () => send(new Request('http://console/api/v1/queues/mail', { method: 'DELETE' }));

const until = (is: () => unknown) => vi.waitUntil(is, { timeout: 10_000, interval: 1 });

/** Lets everything happen that can happen without the person. */
const settled = () => new Promise((resolve) => setTimeout(resolve));

beforeEach(async () => {
  vi.stubGlobal('fetch', fakeConsole);
  vi.stubGlobal('location', { reload });
  reload.mockClear();
  made = [];
  session.person = undefined;
  holder = { name: 'ann', csrf_token: 'ann-first' };
  await session.load();
});

test('a request that waits for the login goes on as the same person', async () => {
  holder = null;
  const changed = change();
  await until(() => session.ended);
  expect(await session.logIn({ name: 'ann', password: 'wrong' })).toBe('wrong');
  expect(await session.logIn({ name: 'ann', password: 'ann' })).toBeUndefined();
  expect((await changed).status).toBe(200);
  expect(made).toEqual(['ann']);
  expect([session.ended, reload.mock.calls.length]).toEqual([false, 0]);
});

test('a change after another tab has logged in is sent again with the new token', async () => {
  holder = { name: 'ann', csrf_token: 'ann-elsewhere' };
  expect((await change()).status).toBe(200);
  expect(made).toEqual(['ann']);
});

test('a change that is not allowed is not sent again', async () => {
  vi.stubGlobal('fetch', async (asked: string | Request) => {
    if (!(asked instanceof Request)) return fakeConsole(asked);
    made.push('asked');
    return answer(403, { detail: 'ann is a viewer' });
  });
  await expect(change()).rejects.toThrow(new Failure(403, 'ann is a viewer'));
  expect(made).toEqual(['asked']);
});

test('the login works after another tab has logged in', async () => {
  holder = { name: 'ann', csrf_token: 'ann-elsewhere' };
  expect(await session.logIn({ name: 'ann', password: 'ann' })).toBeUndefined();
  expect(session.csrf).toBe('ann-here');
});

test('nothing is done as a person who has logged in in another tab', async () => {
  holder = { name: 'bob', csrf_token: 'bob-elsewhere' };
  void change();
  await until(() => reload.mock.calls.length);
  await settled();
  expect(made).toEqual([]);
});

// The last one: what waits here waits for ever.
test('nothing that one person began is done as another who logs in over the page', async () => {
  holder = null;
  void change();
  await until(() => session.ended);
  void session.logIn({ name: 'bob', password: 'bob' });
  await until(() => reload.mock.calls.length);
  await settled();
  expect([made, session.person?.name, session.ended]).toEqual([[], 'ann', true]);
});
