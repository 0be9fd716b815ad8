'use strict';

// The code blocks of the README, each with how it is run.

const fs = require('node:fs');
const path = require('node:path');
const { SDK } = require('./program.js');

const PROJECT = path.join(SDK, '..', '..', 'README.md');

function blocks(how, page = path.join(SDK, 'README.md')) {
  const text = fs.readFileSync(page, 'utf8');
  const found = [...text.matchAll(/(?:^<!-- run: (.*) -->\n)?^```(\w+)\n([^]*?)^```$/gm)];
  return found.map(([, run = '', language, code]) => ({ how: run, language, code })).filter((block) => how === undefined || block.how === how);
}

/** Makes a folder with the packages and the files of the quick start, for a server on this port. */
function quickStart(folder, port) {
  const modules = path.join(folder, 'node_modules');
  fs.mkdirSync(modules);
  fs.symlinkSync(SDK, path.join(modules, 'streamfleet'));
  if (process.env.STREAMFLEET_NODE_CLIENTS !== undefined) {
    fs.symlinkSync(path.join(process.env.STREAMFLEET_NODE_CLIENTS, 'redis-5', 'node_modules', 'redis'), path.join(modules, 'redis'));
  }
  for (const { how, code } of blocks()) {
    if (how.startsWith('file ')) fs.writeFileSync(path.join(folder, how.slice(5)), code.replaceAll('6390', String(port)));
  }
}

module.exports = { PROJECT, blocks, quickStart };
