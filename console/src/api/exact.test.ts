import { expect, test } from 'vitest';
import { exact, written } from './exact';

test('numbers keep all their digits', () => {
  for (const text of ['{"id":1234567890123456789,"share":0.12345678901234567,"n":[1,-2e3]}', '"1234567890123456789"', '{"a\\"1234567890123456":"\\\\"}', 'null']) {
    expect(written(exact(text), 0).replace('-2000', '-2e3')).toBe(text);
  }
  expect(exact('{"n":12,"deep":{"t":"x"}}')).toEqual({ n: 12, deep: { t: 'x' } });
  expect(() => exact('{')).toThrow();
});
