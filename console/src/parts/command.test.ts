import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { command, CONTROLS, word } from './command';

const hostile = `'; echo taken; '\\'; echo taken; \\\n\u001b[0m"$(echo taken)\``;

/** What a shell makes of words, each on its own. */
const read = (shell: string, ...words: string[]) => execFileSync(shell, ['-c', `printf '%s\\0' ${words.map(word).join(' ')}`]).toString().split('\0').slice(0, -1);

test('a shell takes a word as it is', () => {
  const words = ['order-7', 'it is', "it's", hostile, 'a\\x27b\n', '\u202egnp.exe', '~', '*', '$HOME'];
  expect(read('bash', ...words)).toEqual(words);
});

test('no shell takes a part of a word for a command', () => {
  // To a shell that does not know `$'…'`, these are words in plain quotes.
  expect(word(hostile)).toMatch(/^\$'[^']*'$/);
  expect(word("\\'\n")).toBe("$'\\x5c\\x27\\x0a'");
  expect(read('sh', hostile, 'end')).toHaveLength(2);
});

test('a word shows what it has', () => {
  for (const character of '\u00ad\u061c\u200b\u200f\u2028\u202e\u2060\u2066\u206f\ufeff') expect(word(`a${character}b`).search(CONTROLS)).toBe(-1);
  expect(word('a\u202eb')).toBe("$'a\\xe2\\x80\\xaeb'");
  expect(word('größe 大')).toBe("'größe 大'");
});

test('an id is no flag', () => {
  expect(command('cancel', { queue: 'mail', reason: '' }, ['--all'])).toBe('streamfleet cancel --queue mail -- --all');
  expect(command('steps decide', { reason: '--all' }, ['it is', '-1', 'done'])).toBe("streamfleet steps decide --reason=--all -- 'it is' -1 done");
  expect(command('dead drop', { where: ['a=1', '-b=1'], all: true })).toBe('streamfleet dead drop --where a=1 --where=-b=1 --all');
});
