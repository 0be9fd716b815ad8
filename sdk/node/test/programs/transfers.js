'use strict';

// A program that is killed: it makes transfers, each as a job. At each point where it may be killed, it prints a line and waits for one.

const assert = require('node:assert/strict');
const readline = require('node:readline');
const { Job, once } = require('../..');
const { CLIENTS } = require('../databases.js');

const [, , client, place, attempt, count] = process.argv;
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function point(name) {
  process.stdout.write(`${name}\n`);
  await lines.next();
}

async function main() {
  const connection = await CLIENTS[client].open(place);
  for (let number = 0; number < Number(count); number += 1) {
    await point('begin');
    const job = new Job('pay', null, { id: `transfer-${number}`, fence: `${attempt}-${number}` });
    const done = await once(connection.db, job, async () => {
      await connection.exec("UPDATE accounts SET balance = balance - 1 WHERE name = 'ann'");
      await point('half');
      await connection.exec("UPDATE accounts SET balance = balance + 1 WHERE name = 'bob'");
      await connection.exec(`INSERT INTO transfers VALUES (${number})`);
      await point('worked');
      return number;
    });
    assert.equal(done, number);
    await point('done');
  }
  await connection.close();
  process.stdin.destroy();
}

main();
