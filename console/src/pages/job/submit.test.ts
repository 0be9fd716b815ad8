import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { word } from '../../parts/command';
import type { Job } from './job';
import { php, python, waysOf } from './submit';

const job = (more: Partial<Job> = {}): Job =>
  ({ id: 'order-7', queue: 'mail', type: 'mail.send', lane: 'high', state: 'done', payload: { to: 'ann' }, payload_bytes: 12, payload_cut: false, encoding: 'json', headers: { tenant: "it's" }, terms: {}, attempts: [], ...more }) as Job;
const way = (of: Job, name: string) => waysOf(of, 'sf').find((each) => each.name === name)?.text;

test('each command contains the whole job', () => {
  expect(waysOf(job(), 'sf').map(({ name }) => name)).toEqual(['streamfleet', 'redis-cli', 'PHP', 'Python', 'curl']);
  for (const { text } of waysOf(job(), 'sf')) expect(text).toMatch(/mail\.send[^]*ann/);
  expect(way(job(), 'redis-cli')).toBe(`redis-cli XADD 'sf:{mail}:jobs:high' '*' type mail.send payload '{"to":"ann"}' h.tenant 'it'\\''s' id order-7`);
});

test('each command keeps the terms, or is left out', () => {
  const terms = { max_attempts: '3', tracking: 'all', timeout_ms: '1500' };
  expect(way(job({ terms }), 'streamfleet')).toMatch(/--id=order-7 --max-attempts=3 --timeout=1500ms --track$/);
  expect(way(job({ terms }), 'curl')).toContain('"max_attempts":3,"timeout":1500');
  expect(waysOf(job({ terms: { batch: 'b' } }), 'sf').map(({ name }) => name)).toEqual(['redis-cli', 'PHP', 'Python']);
  expect(waysOf(job({ payload: { encoding: 'base64' }, encoding: 'raw' }), 'sf')).toEqual([]);
});

test('a payload that is decompressed is sent so, and one that nobody can see is not sent', () => {
  for (const { text } of waysOf(job({ headers: { codec: 'json gzip', tenant: '9' } }), 'sf')) expect(text).not.toContain('gzip');
  expect(way(job({ payload: 'x', encoding: 'raw', headers: { codec: 'h264' } }), 'redis-cli')).toContain('h.codec h264');
  expect(waysOf(job({ payload: '', encoding: 'raw', payload_unseen: 'encrypted with the key a, 12 bytes: not shown' }), 'sf')).toEqual([]);
});

test('no command reads what a payload names', () => {
  for (const payload of ['@/etc/passwd', '-', '--help']) expect(way(job({ payload, encoding: 'raw' }), 'streamfleet')).toBeUndefined();
});

test('what a job contains stays in its quotes', () => {
  const hostile = '"\'; rm -rf /; `x` $(y) $z \\ \u001b[0m\u009b\n';
  const script = way(job({ payload: hostile, encoding: 'raw' }), 'redis-cli')!.replace('redis-cli', "printf '%s\\0'");
  const words = execFileSync('bash', ['-c', script]).toString().split('\0');
  expect(words[6]).toBe(hostile);
  for (const { text } of waysOf(job({ payload: hostile, encoding: 'raw' }), 'sf')) expect(text).not.toMatch(/[\u001b\u009b]/);
  expect(php("a'\\")).toBe("'a\\'\\\\'");
  expect(php('$x\n')).toBe('"\\$x\\x0a"');
  expect(python('a"\n')).toBe('"a\\"\\n"');
  expect(word('it is')).toBe("'it is'");
});
