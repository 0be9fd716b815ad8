import { expect, test } from 'vitest';
import { age, bytes, count, duration, exception, rate, short } from './format';

test('numbers fit their place', () => {
  expect([count(1_200_000), count(7), count(null)]).toEqual(['1\u202f200\u202f000', '7', '–']);
  expect([short(168_000), short(1_250_000), short(12), short(0.5)]).toEqual(['168k', '1.3M', '12', '0.5']);
  expect([bytes(512), bytes(1536), bytes(3 * 2 ** 30)]).toEqual(['512 B', '1.5 KiB', '3 GiB']);
});

test('a rate is in the unit that makes it at least one', () => {
  expect([rate(200), rate(1), rate(0.5), rate(1 / 3600), rate(0), rate(null)]).toEqual(['200/s', '1/s', '30/m', '1/h', '0/s', '–']);
});

test('durations have as many units as they need', () => {
  const cases: [number, string][] = [
    [340, '340ms'],
    [1500, '1.5s'],
    [61_000, '1m 1s'],
    [3_600_000, '1h'],
    [7_500_000, '2h 5m'],
    [90_000_000, '1d 1h'],
    [1_150_000, '19m'],
    [84_600_000, '23h'],
  ];
  for (const [ms, text] of cases) expect(duration(ms)).toBe(text);
  expect([age(340), age(4900), age(61_900)]).toEqual(['0s', '4s', '1m 1s']);
});

test('the exception is found in what a program wrote', () => {
  const python = 'exit status: 65: Traceback (most recent call last):\n  File "a.py", line 3, in run\n    send()\nsmtplib.SMTPRecipientsRefused: 550\nValueError: no such mailbox';
  expect(exception(python)).toBe('ValueError: no such mailbox');
  expect(exception('550 5.1.1 mailbox unavailable exit status: 65')).toBe('550 5.1.1 mailbox unavailable');
  const java = 'java.lang.RuntimeException: order 7\n\tat App.run(App.java:3)\nCaused by: java.sql.SQLException: deadlock\n\t... 3 more';
  expect(exception(java)).toBe('java.sql.SQLException: deadlock');
  expect(exception('exit status: 65')).toBe('exit status: 65');
  expect(exception(undefined)).toBe('');
});
