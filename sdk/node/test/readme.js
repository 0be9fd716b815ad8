'use strict';

// The code blocks of the README and of the project's pages, each with how it is run.

const fs = require('node:fs');
const path = require('node:path');
const { SDK } = require('./program.js');

const ROOT = path.join(SDK, '..', '..');
const SUBMIT_PAGE = path.join(ROOT, 'docs', 'submit.md');
const HANDLERS_PAGE = path.join(ROOT, 'docs', 'handlers-in-your-language.md');
// The project's pages with blocks for users of this package.
const PROJECT = [path.join(ROOT, 'README.md'), SUBMIT_PAGE, HANDLERS_PAGE];

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

module.exports = { HANDLERS_PAGE, PROJECT, SUBMIT_PAGE, blocks, quickStart };
