import { beforeAll, expect, test, vi } from 'vitest';
import document from '../../openapi.json';
import { causeText } from '../parts/Cause.svelte';
import { en } from '../words/en';
import { words } from '../words/words.svelte';
import { zh } from '../words/zh-CN';
import type { Schemas } from './client';
import { fieldText, problemText } from './problem';

const problem = (kind: string, detail: string, errors?: Schemas['FieldError'][]) => ({ type: `urn:streamfleet:problem:${kind}`, detail, errors });
const field = (code: string | null, values: Record<string, string>, detail = 'as the API says it') => ({ at: '/field', code, values, detail }) as Schemas['FieldError'];

beforeAll(() => {
  vi.stubGlobal('localStorage', { setItem: () => {} });
  vi.stubGlobal('document', { documentElement: {} });
});

test('English says what the API says, unless its words say all', async () => {
  await words.choose('en');
  expect(problemText(problem('conflict', 'bob has paused mail'))).toBe('bob has paused mail');
  expect(problemText(problem('too-many-requests', 'try again in 5 s'), 5000)).toBe('There is too much to do right now. Try again in 5s.');
});

test('another language comes before what only the API knows', async () => {
  await words.choose('zh-CN');
  expect(problemText(problem('conflict', 'bob has paused mail'))).toBe('当前状态下无法执行：bob has paused mail');
  expect(problemText(problem('it-has-changed', 'read it again'))).toBe(zh['problem.it-has-changed']);
  expect(problemText(problem('of-a-later-version', 'why'))).toBe('why');
  expect(fieldText(field('range', { least: '1', most: '9' }))).toBe('须在 1 到 9 之间。');
  expect(fieldText(field(null, {}))).toBe('此项无效：as the API says it');
  expect(problemText(problem('a-field-is-not-valid', '/field: as the API says it', [field('required', {}), field('of-a-later-version', {}, 'why')]))).toBe('有字段无效：此项必填。 why');
  await words.choose('en');
});

/** What has words for the values of a field, as `words.of` takes it. */
const WORDED: [shape: string, field: string, prefix: string][] = [
  ['Problem', 'type', 'problem'],
  ['FieldError', 'code', 'wrong'],
  ['Incident', 'kind', 'incident'],
  ['Task', 'kind', 'task.kind'],
  ['Task', 'state', 'state'],
  ['Job', 'state', 'state'],
  ['Job', 'lane', 'lane'],
  ['Gate', 'state', 'state'],
  ['DeadGroup', 'reason', 'dead.reason'],
  ['JobStep', 'state', 'step'],
  ['JobStep', 'kind', 'step_kind'],
  ['StepDecision', 'verdict', 'verdict'],
  ['AlertSink', 'kind', 'sink.kind'],
  ['Server', 'persistence', 'redis.keeps'],
];

type Shape = { enum?: string[]; oneOf?: Shape[]; items?: Shape; allOf?: Shape[]; properties?: Record<string, Shape> };

/** The values that a field may have, as the description of the API lists them. */
function valuesOf(shape: string, field: string): string[] {
  const whole = (document.components.schemas as unknown as Record<string, Shape>)[shape]!;
  const found = [whole, ...(whole.allOf ?? [])].map((part) => part.properties?.[field]).find(Boolean);
  return [found, ...(found?.oneOf ?? []), found?.items].flatMap((part) => part?.enum ?? []);
}

test('every cause of a queue has words', () => {
  const kinds = valuesOf('Cause', 'kind') as Schemas['Cause']['kind'][];
  expect(kinds.length).toBeGreaterThan(5);
  for (const kind of kinds) expect([kind, causeText({ kind, text: 'as the API says it' })]).not.toEqual([kind, 'as the API says it']);
});

test('every code of the API has words', () => {
  const missing = WORDED.flatMap(([shape, field, prefix]) => {
    const values = valuesOf(shape, field);
    expect([shape, field, values.length > 1]).toEqual([shape, field, true]);
    return values.map((value) => `${prefix}.${value.replace('urn:streamfleet:problem:', '')}`).filter((key) => !(key in en));
  });
  expect(missing).toEqual([]);
});

test('a text about a field has no value that its code lacks', () => {
  const known: Record<string, string[]> = document.components.schemas.FieldError['x-values'];
  for (const [key, text] of Object.entries(en).filter(([key]) => key.startsWith('wrong.'))) {
    const used = [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1]!);
    expect([key, used.filter((name) => !known[key.slice(6)]?.includes(name))]).toEqual([key, []]);
  }
});

test('English has words for the rule that a field breaks', async () => {
  await words.choose('en');
  expect(fieldText(field('one_of', { names: 'json or raw' }))).toBe('It must be one of these: json or raw.');
  expect(fieldText(field('of-a-later-version', {}))).toBe('as the API says it');
});
