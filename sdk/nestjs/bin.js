#!/usr/bin/env node
// The program of a pool: streamfleet-nest MODULE [EXPORT] boots the application whose module the file exports, and runs its processors.
'use strict';

require('streamfleet');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { runPool } = require('./pool.js');

async function main([file, name]) {
  if (file === undefined) throw new Error('name the file that exports the module of the application: streamfleet-nest dist/app.module.js');
  const exported = await loaded(path.resolve(file));
  const found = name === undefined ? (exported.AppModule ?? exported.default?.AppModule ?? exported.default) : (exported[name] ?? exported.default?.[name]);
  if (typeof found !== 'function') throw new Error(`${file} exports no module ${name ?? 'AppModule'}: name its export after the file`);
  await runPool(found, { configure: exported.configurePool ?? exported.default?.configurePool });
}

/** Loads a file of either kind. A module that waits at its top cannot be required. */
async function loaded(file) {
  try {
    return require(file);
  } catch (error) {
    if (!['ERR_REQUIRE_ESM', 'ERR_REQUIRE_ASYNC_MODULE'].includes(error.code)) throw error;
    return import(pathToFileURL(file).href);
  }
}

main(process.argv.slice(2)).catch((error) => {
  process.stderr.write(`${error?.stack ?? error}\n`);
  process.exit(1);
});
