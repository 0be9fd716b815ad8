import { expect, test, vi } from 'vitest';
import { session } from '../api/session.svelte';
import { Views } from './views.svelte';

test('a person sees only their own views', () => {
  const kept = new Map<string, string>();
  vi.stubGlobal('localStorage', { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, text: string) => kept.set(key, text) });
  const viewsOf = (name: string) => {
    session.person = { name } as typeof session.person;
    return new Views('jobs');
  };
  viewsOf('ann').save('mine', 'queue=mail');
  expect(viewsOf('bob').all).toEqual([]);
  expect(viewsOf('ann').all).toEqual([{ name: 'mine', query: 'queue=mail' }]);
});
