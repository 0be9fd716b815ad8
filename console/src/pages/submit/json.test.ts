import { expect, test } from 'vitest';
import { placeOf, wrongWith } from './json';

test('a value is found where it stands', () => {
  const text = '{ "to": ["a", {"b\\/c": 12 , "d~": null}], "n": -1.5e3, "to2": "x, }" }';
  const at = (pointer: string) => {
    const place = placeOf(text, pointer);
    return place && text.slice(place.from, place.to);
  };
  expect([at('/to/0'), at('/to/1/b~1c'), at('/to/1/d~0'), at('/n'), at('/to2')]).toEqual(['"a"', '12', 'null', '-1.5e3', '"x, }"']);
  expect(at('/to/1/missing')).toBe('{"b\\/c": 12 , "d~": null}');
  expect(at('')).toBe(text);
  expect(placeOf('{oops', '/a')).toBeUndefined();
});

test('no text is no mistake', () => {
  expect(wrongWith('  ')).toBeUndefined();
  expect(wrongWith('{"a":1}')).toBeUndefined();
  expect(wrongWith('{"a":')).toBeTypeOf('string');
});
