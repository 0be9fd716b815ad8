import { expect, test } from 'vitest';
import { fit } from './fit';

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
