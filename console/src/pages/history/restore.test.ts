import { beforeEach, expect, test, vi } from 'vitest';

const { answers, sent } = vi.hoisted(() => ({ answers: [] as unknown[], sent: [] as Record<string, unknown>[] }));
vi.mock('../../api/client', () => ({
  Failure: class Failure extends Error {
    constructor(
      readonly status: number,
      message: string,
    ) {
      super(message);
    }
  },
  ok: async (asked: Promise<unknown>) => asked,
  api: {
    POST: async (_path: string, { body }: { body: Record<string, unknown> }) => {
      sent.push(body);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer;
    },
  },
}));

import { Restoring } from './restore.svelte';

const page = (filed: number, next: string | null, kept: Record<string, number> = {}) => {
  const looked = Object.values(kept).reduce((sum, count) => sum + count, filed);
  return { looked, filed, kept, group: 'f00d', next };
};
beforeEach(() => void (answers.length = sent.length = 0));

test('pages follow each other in one group until there are no more', async () => {
  answers.push(page(100, 'a', { exists: 2 }), page(0, 'b'), page(3, null, { exists: 1, masked: 1 }));
  const restoring = new Restoring('mail', { state: 'dead' }, 1000, 'why');
  await restoring.begin();
  expect([restoring.state, restoring.filed]).toEqual(['running', 100]);
  await restoring.goOn();
  expect([restoring.state, restoring.filed, restoring.kept]).toEqual(['done', 103, { exists: 3, masked: 1 }]);
  expect(sent.map(({ group, after, limit }) => [group, after, limit])).toEqual([[undefined, undefined, 100], ['f00d', 'a', 100], ['f00d', 'b', 100]]);
});

test('no more are brought back than were asked for', async () => {
  answers.push(page(99, 'a', { no_payload: 1 }), page(20, 'b'));
  const restoring = new Restoring('mail', {}, 120, 'why');
  await restoring.begin();
  await restoring.goOn();
  expect([restoring.state, restoring.looked, sent[1]?.limit]).toEqual(['done', 120, 20]);
});

test('a failure stops it, and it goes on where it was', async () => {
  answers.push(page(100, 'a'), new Error('away'), page(1, null));
  const restoring = new Restoring('mail', {}, 1000, 'why');
  await restoring.begin();
  await restoring.goOn();
  expect([restoring.state, restoring.failure?.message]).toEqual(['failed', 'Error: away']);
  await restoring.goOn();
  expect([restoring.state, restoring.filed, sent.at(-1)?.after, restoring.failure]).toEqual(['done', 101, 'a', undefined]);
});

test('what cannot begin is thrown', async () => {
  answers.push(new Error('not allowed'));
  await expect(new Restoring('mail', {}, 10, 'why').begin()).rejects.toThrow('not allowed');
});
