import { expect, test } from 'vitest';
import { folded, kindOf, parts } from './stack';

test('a long text keeps its head and its tail', () => {
  const lines = Array.from({ length: 40 }, (_, nth) => `line ${nth}`);
  const { head, middle, tail } = folded(`exit status: 65: ${lines.join('\n')}\n`);
  expect([...head, ...middle, ...tail]).toEqual(lines);
  expect([head.length, tail.length]).toEqual([8, 14]);
  expect(folded('one\ntwo').middle).toEqual([]);
});

test('an exception has a name and a text', () => {
  expect(parts('smtplib.SMTPError: 550: no mailbox')).toEqual({ name: 'smtplib.SMTPError', text: '550: no mailbox' });
  expect(parts('App\\Errors\\GiftException: late')).toEqual({ name: 'App\\Errors\\GiftException', text: 'late' });
  expect(parts('550 5.1.1 mailbox unavailable')).toEqual({ name: '', text: '550 5.1.1 mailbox unavailable' });
  expect(['  File "a.py", line 3, in run', 'ValueError: x', '    send()'].map(kindOf)).toEqual(['place', 'thrown', 'plain']);
});
