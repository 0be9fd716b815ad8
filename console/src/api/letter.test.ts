import { expect, test } from 'vitest';
import { editsOf, pretty, valueOf, type LetterFields } from './letter';

const letter = (before: string) => ({ fields: [{ name: 'dead_before', form: 'utf8', value: before }, { name: 'payload', form: 'hex', value: 'ff' }] }) as unknown as LetterFields;

test('edits are what a letter was before them', () => {
  const edits = [{ letter: '7-0', fields: { payload: '{}', 'h.tenant': null } }];
  expect(editsOf(letter(JSON.stringify(edits)))).toEqual(edits);
  expect(editsOf(letter('[{"letter":"7-0","too_long":true}]'))).toHaveLength(1);
  for (const strange of ['', '{}', '[1, null, {}]', '{']) expect(editsOf(letter(strange))).toEqual([]);
  expect(valueOf(letter(''), 'payload')).toBeUndefined();
});

test('a payload keeps its digits, and what is not JSON stays as it is', () => {
  expect(pretty('{"id":123456789012345678}')).toBe('{\n  "id": 123456789012345678\n}');
  expect([pretty('{'), pretty(undefined)]).toEqual(['{', '']);
});
