import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { bodyOf, commandOf, draftLike, emptyDraft, headersOf, nearest, sourceOf } from './draft';

test('a payload is sent as it is written', () => {
  const draft = { ...emptyDraft('mail', 'mail.send'), payload: '{"b": 12345678901234567890, "a": 1}' };
  expect(bodyOf(draft)).toBe('{"type":"mail.send","payload":{"b": 12345678901234567890, "a": 1}}');
  expect(bodyOf({ ...draft, encoding: 'raw', payload: 'a"b' })).toBe('{"type":"mail.send","encoding":"raw","payload":"a\\"b"}');
  expect(JSON.parse(bodyOf({ ...draft, unique: 'ann', track: true, headers: 'tenant: 9\nnothing', max_attempts: 3 }))).toMatchObject({ unique: 'ann', unique_scope: 'running', unique_mode: 'reject', track: true, headers: { tenant: '9' }, max_attempts: 3 });
  expect(headersOf('a: b: c\n\n d :e')).toEqual({ a: 'b: c', d: 'e' });
});

test('a command says the same', () => {
  const draft = { ...emptyDraft('mail', 'mail.send'), payload: '{\n  "a": 1\n}', lane: 'high', delay: '10s', headers: 'tenant: 9' };
  expect(commandOf(draft)).toBe(`streamfleet enqueue --queue mail --delay 10s --lane high --header tenant=9 -- mail.send '{ "a": 1 }'`);
});

test('a command carries any payload, or says that it needs a file', () => {
  const raw = (payload: string) => ({ ...emptyDraft('mail', 'mail.send'), encoding: 'raw', payload });
  // What the command would read: its last word, its input, or a file.
  const read = (payload: string) => {
    const script = commandOf(raw(payload)).replace('streamfleet enqueue --queue mail --encoding raw -- mail.send', 'take');
    return execFileSync('bash', ['-c', `take() { if [ "$1" = - ]; then cat; else printf %s "$1"; fi; }; ${script}`]).toString();
  };
  for (const payload of ['two\nlines \n', '-', '@/etc/passwd', '@it\'s "$HOME"', '--help', '\t\u001b[0m', 'größe']) expect(read(payload)).toBe(payload);
  expect(commandOf(raw('-'))).toBe('printf %s - | streamfleet enqueue --queue mail --encoding raw -- mail.send -');
  for (const payload of ['a\0b', 'x'.repeat(32_001), 'ü'.repeat(16_001)]) {
    expect(sourceOf(raw(payload)).kind).toBe('file');
    expect(commandOf(raw(payload))).toBe('streamfleet enqueue --queue mail --encoding raw -- mail.send @payload.txt');
  }
});

test('another job like one has all but what belongs to the one', () => {
  const job = { queue: 'mail', type: 'mail.send', lane: 'low', payload: { a: 1 }, payload_bytes: 7, encoding: 'json', headers: { tenant: '9', idempotency: 'x' }, terms: { timeout_ms: '500', batch: 'b', tracking: 'all' } };
  expect(draftLike(job)).toMatchObject({ queue: 'mail', payload: '{\n  "a": 1\n}', lane: 'low', timeout: '500ms', track: true, headers: 'tenant: 9', id: '' });
});

test('a misspelled name has a neighbour', () => {
  expect([nearest('bluk', ['bulk', 'mail']), nearest('mail.sned', ['mail.send']), nearest('x', ['mail']), nearest('mail', ['mail'])]).toEqual(['bulk', 'mail.send', undefined, undefined]);
});
