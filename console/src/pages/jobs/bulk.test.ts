import { expect, test } from 'vitest';
import { read } from '../../parts/filter';
import { bodyOf, commandsOf, statesOf } from './bulk';

const filters = ['queue:a', 'state:waiting,dead', 'payload.x=1', 'type:mail.*'].map((text) => read(text)!);

test('a change is about what the page shows', () => {
  expect(bodyOf('cancel', filters)).toMatchObject({ filter: { where: ['payload.x=1'], type: 'mail.*' }, all: false, state: ['waiting'] });
  expect(bodyOf('move', [read('queue:a')!])).toMatchObject({ filter: {}, all: true, state: [] });
});

test('the command does the same', () => {
  const more = { to: 'b', rate: '', reason: 'it is late' };
  expect(commandsOf('move', ['a'], filters, more)).toBe(`streamfleet move --queue a --state waiting --where payload.x=1 --type 'mail.*' --to b --reason 'it is late' --yes`);
  expect(commandsOf('cancel', ['a', 'b'], [], { reason: '' })).toBe('streamfleet cancel --queue a --all --yes\nstreamfleet cancel --queue b --all --yes');
});

test('a change only works on some states', () => {
  expect(statesOf('run-now', filters)).toBeUndefined();
  expect(statesOf('run-now', [read('state:waiting,retrying')!])).toEqual(['retrying']);
  expect(statesOf('move', [])).toEqual([]);
});
