import { expect, test } from 'vitest';
import { BOX, graphOf, spansOf } from './graph';

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

test('bars show when each step last ran, and which ran at the same time', () => {
  const ran = (name: string, state: string, begun_ms?: number, since_ms?: number, at_ms?: number) => ({ step: name, state, begun_ms, since_ms, decision: at_ms ? { at_ms } : null });
  const spans = spansOf([ran('a', 'done', 1000, 3000), ran('b', 'started', 2000, 2000), ran('decided', 'done', 2000, 4000, 4000), ran('never', 'pending')], 5000);
  expect(Object.fromEntries(spans)).toEqual({ a: { from: 0, to: 0.5 }, b: { from: 0.25, to: 1 }, decided: { from: 0.25, to: 0.25 } });
  expect(spansOf([ran('never', 'pending')], 5000).size).toBe(0);
  expect(spansOf([ran('a', 'done', 1000, 1000)], 5000).get('a')).toEqual({ from: 0, to: 0 });
});
