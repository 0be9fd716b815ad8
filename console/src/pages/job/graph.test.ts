import { expect, test } from 'vitest';
import { BOX, graphOf } from './graph';

const step = (name: string, ...after: string[]) => ({ step: name, after });

test('a step stands on the right of all that come before it', () => {
  const { boxes, lines } = graphOf([step('last', 'b', 'c'), step('c', 'b'), step('b', 'a'), step('a'), step('x')]);
  const column = Object.fromEntries(boxes.map((box) => [box.step.step, box.x / (BOX.width + 40)]));
  expect(column).toEqual({ a: 0, b: 1, c: 2, last: 3, x: 0 });
  expect(boxes.find((box) => box.step.step === 'x')!.y).toBeGreaterThan(0);
  expect(lines).toHaveLength(4);
});

test('a step whose predecessor is unknown still stands somewhere', () => {
  expect(graphOf([step('b', 'gone')]).boxes[0]).toMatchObject({ x: 0, y: 0 });
});
