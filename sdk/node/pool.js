#!/usr/bin/env node
// `node pool.js FILE …`, installed as `streamfleet-pool`: loads files with handlers, and runs them. Standard output is taken before
// the files are loaded, so even what they print while they are loaded does no harm.
'use strict';

const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { _claim, run } = require('./index.js');

async function main() {
  const files = process.argv.slice(2);
  if (files.length === 0 || process.stdin.isTTY) {
    console.error('usage: streamfleet-pool FILE …, as the command of a pool of a streamfleet worker');
    process.exit(2);
  }
  _claim();
  for (const file of files) await import(pathToFileURL(path.resolve(file)).href);
  run();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
