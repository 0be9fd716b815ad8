// Prints the sizes of what the browser loads, and fails above the budget. Everything counts as gzip sends it.
import { readFileSync, readdirSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const FIRST_KB = 150;
const ALL_KB = 290;
const DIST = new URL('dist/', import.meta.url);

const files = ['index.html', ...readdirSync(new URL('assets/', DIST)).map((name) => `assets/${name}`)];
const size = new Map(files.map((name) => [name, gzipSync(readFileSync(new URL(name, DIST)), { level: 9 }).length]));

// The first page: the document, what it names, and the overview with what its modules import statically.
const first = new Set(['index.html']);
const follow = (name) => {
  if (first.has(name) || !size.has(name)) return;
  first.add(name);
  if (!name.endsWith('.js')) return;
  const text = readFileSync(new URL(name, DIST), 'utf8');
  for (const [, imported] of text.matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g)) follow(`assets/${imported}`);
};
const page = readFileSync(new URL('index.html', DIST), 'utf8');
for (const [, name] of page.matchAll(/(?:src|href)="[^"]*\/(assets\/[^"]+)"/g)) follow(name);
for (const name of files) if (/\/Overview\.[\w-]+\.js$/.test(name)) follow(name);

const kb = (bytes) => (bytes / 1000).toFixed(1).padStart(7);
for (const [name, bytes] of [...size].sort((one, other) => other[1] - one[1])) console.log(`${kb(bytes)} kB${first.has(name) ? ' first' : '      '} ${name}`);
const sum = (names) => [...names].reduce((all, name) => all + size.get(name), 0);
const [of, all] = [sum(first), sum(size.keys())];
console.log(`${kb(of)} kB first page, of ${FIRST_KB}\n${kb(all)} kB in all, of ${ALL_KB}`);
if (of > FIRST_KB * 1000 || all > ALL_KB * 1000) {
  console.error('above the budget');
  process.exit(1);
}
