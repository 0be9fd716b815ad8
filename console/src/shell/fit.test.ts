import { expect, test } from 'vitest';
import { fit, waysToFind } from './fit';

test('what begins as it was typed fits best', () => {
  expect(fit('mail', 'Queue', 'mail')).toBe(0);
  expect(fit('mail.send', 'Type', 'mail')).toBe(1);
  expect(fit('Pause mail…', 'Action', 'mail')).toBe(2);
  expect(fit('Pause mail…', 'Action', 'mail pa')).toBe(2);
  expect(fit('gmail', 'Queue', 'mail')).toBe(3);
  expect(fit('orders', 'Queue', 'queue ord')).toBe(2);
  expect(fit('orders', 'Queue', 'mail')).toBeUndefined();
  expect(fit('a(b', 'Type', '(b')).toBe(3);
});

test('an address is looked for in payloads first, and a text with spaces only there', () => {
  expect(waysToFind('order-7')).toEqual(['id', 'text']);
  expect(waysToFind('ann@example.com')).toEqual(['text', 'id']);
  expect(waysToFind('@deploy')).toEqual(['id', 'text']);
  expect(waysToFind('time out')).toEqual(['text']);
});
