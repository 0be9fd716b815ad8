'use strict';

// Payloads that are encoded: the vectors that all packages share, keys, stores, and what a program of handlers makes of them.

const assert = require('node:assert/strict');
const { createHash, randomBytes } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { Codecs, CodecError, DirectoryClaims, InvalidSubmission, Keys, Producer, S3Claims } = require('..');
const { withProgram } = require('./program.js');

const VECTORS = JSON.parse(fs.readFileSync(path.join(__dirname, '../../../tests/codecs/vectors.json'), 'utf8'));
const bytesOf = (text) => Buffer.from(text, 'base64');
const KEYS = Object.fromEntries(Object.entries(VECTORS.keys).map(([name, key]) => [name, bytesOf(key)]));
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

class Claims extends Map {
  async put(name, bytes) {
    this.set(name, bytes);
  }
}

function vectorCodecs() {
  const claims = new Claims();
  for (const [name, data] of Object.entries(VECTORS.claims)) claims.set(name, data.zeros === undefined ? bytesOf(data) : Buffer.alloc(data.zeros));
  return new Codecs({ keys: new Keys(KEYS), claims, maxBytes: VECTORS.max_bytes });
}

async function thereAndBack(codecs, bytes) {
  const [header, sent] = await codecs.encodePayload('a', 'raw', bytes);
  return header === undefined ? ['raw', sent] : codecs.decodePayload('a', header, sent);
}

async function withFolder(body) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'streamfleet-node-'));
  try {
    await body(folder);
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

test('every vector is opened', async () => {
  for (const { what, type, header, payload, encoding, plain } of VECTORS.opened) {
    assert.deepEqual(await vectorCodecs().decodePayload(type, header, bytesOf(payload)), [encoding, bytesOf(plain)], what);
  }
});

test('every wrong payload is refused with the reason', async () => {
  for (const { what, type, header, payload, encoding, error } of VECTORS.refused) {
    await assert.rejects(vectorCodecs().decodePayload(type, header, bytesOf(payload), encoding), (thrown) => {
      assert.ok(thrown instanceof CodecError && thrown.message.includes(error), `${what}: ${thrown}`);
      return true;
    });
  }
});

test('a header is read only if it follows the grammar', async () => {
  const codecs = new Codecs();
  for (const header of VECTORS.headers) await assert.rejects(codecs.decodePayload('a', header, Buffer.alloc(0)), (error) => !/not one that/.test(error.message));
  for (const header of VECTORS.no_headers) await assert.rejects(codecs.decodePayload('a', header, Buffer.alloc(0)), /not one that this version reads/, header);
});

test('each combination comes back as it was', async () => {
  for (const keys of [undefined, new Keys(KEYS)]) {
    for (const compress of [false, true]) {
      for (const claims of [undefined, new Claims()]) {
        const codecs = new Codecs({ keys, compress, claims, claimAbove: 2000 });
        for (const bytes of [Buffer.alloc(0), Buffer.from('1'), randomBytes(5000), Buffer.from('naive '.repeat(5000))]) {
          assert.deepEqual(await thereAndBack(codecs, bytes), ['raw', bytes]);
        }
      }
    }
  }
});

test('nothing is done that gains nothing', async () => {
  const codecs = new Codecs({ compress: true, claims: new Claims() });
  for (const bytes of [Buffer.alloc(1024, 'x'), randomBytes(5000)]) assert.deepEqual(await codecs.encodePayload('a', 'json', bytes), [undefined, bytes]);
  const [header, bytes] = await codecs.encodePayload('a', 'json', Buffer.alloc(1025, 'x'));
  assert.equal(header, 'json gzip');
  assert.ok(bytes.length < 100);
});

test('the first key encrypts, and all decrypt', async () => {
  const old = new Codecs({ keys: new Keys({ a: Buffer.alloc(32) }) });
  const both = new Codecs({ keys: new Keys([['b', Buffer.alloc(32, 1)], ['a', Buffer.alloc(32)]]) });
  let [header, bytes] = await old.encodePayload('t', 'json', Buffer.from('1'));
  assert.equal(header, 'json aes-256-gcm;key=a');
  assert.deepEqual(await both.decodePayload('t', header, bytes), ['json', Buffer.from('1')]);
  [header, bytes] = await both.encodePayload('t', 'json', Buffer.from('1'));
  await assert.rejects(old.decodePayload('t', header, bytes), /encrypted with the key b, which this program does not have/);
});

test('a producer encodes every job, once, and it may be large before', async () => {
  const sent = [];
  const claims = new Claims();
  const send = async (command) => (sent.push(command), '1-0');
  const producer = new Producer(send, { codecs: new Codecs({ keys: new Keys(KEYS), claims }) });
  await producer.enqueue('a', { secret: 1 }, { headers: { tenant: 9 } });
  await producer.enqueueMany([{ type: 'a', payload: { secret: 1 } }]);
  sent.push(producer.command('a', { secret: 1 }));
  for (const command of sent) {
    assert.ok(!Buffer.concat(command.map((part) => Buffer.from(part))).includes('secret'));
    assert.equal(command[command.indexOf('h.codec') + 1], 'json aes-256-gcm;key=2026-11');
    assert.equal(command[command.indexOf('encoding') + 1], 'raw');
  }
  const large = Buffer.alloc(9 * 1024 * 1024);
  await producer.enqueue('a', large);
  const claimed = sent.at(-1);
  assert.match(claimed[claimed.indexOf('h.codec') + 1], new RegExp(`^raw aes-256-gcm;key=2026-11 claim;sha256=${[...claims.keys()][0]}$`));
  assert.throws(() => producer.command('a', large), /this call cannot wait for that: use enqueue/);
  await assert.rejects(producer.enqueue('a', 1, { headers: { codec: 'json gzip' } }), /belongs to codecs/);
  await assert.rejects(new Producer(send, { codecs: new Codecs() }).enqueue('a', large), InvalidSubmission);
});

test('a job for what has no option codecs', async () => {
  const codecs = new Codecs({ compress: true });
  const job = await codecs.job('a', ['x'.repeat(2000)], { id: 'i', headers: { tenant: 9 } });
  assert.deepEqual([job.type, job.id, job.encoding, job.headers], ['a', 'i', 'raw', { tenant: 9, codec: 'json gzip' }]);
  assert.deepEqual(await codecs.decodePayload('a', job.headers.codec, job.payload), ['json', Buffer.from(JSON.stringify(['x'.repeat(2000)]))]);
  await assert.rejects(codecs.job('a', 'x'.repeat(2000), { unique: 'k', uniqueMode: 'debounce' }), /a debounce/);
  assert.deepEqual(await codecs.job('a', 1, { id: 'i' }), { type: 'a', payload: 1, id: 'i' });
});

test('a store that fails sends nothing', async () => {
  const claims = { put: async () => Promise.reject(new Error('the disk is full')) };
  await assert.rejects(new Codecs({ claims, claimAbove: 0 }).encodePayload('a', 'json', Buffer.from('1')), /so nothing was sent: the disk is full/);
});

test('keys are read from a file and a variable, and no error shows one', async () => {
  const [one, two] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  await withFolder(async (folder) => {
    const file = path.join(folder, 'keys');
    fs.writeFileSync(file, `# new\n2026-11:${one.toString('base64')}\n  # old\n\n2026-10:${two.toString('base64')}\n`);
    const keys = Keys.fromFile(file);
    assert.deepEqual([keys.first, keys.get('2026-10'), keys.get('x')], ['2026-11', two, undefined]);
  });
  const secret = Buffer.from('canary-canary-canary-canary-cana').toString('base64');
  for (const [text, why] of [
    [secret, /item 1 must be name:key/],
    [`a:${secret}!`, /item 1 is not base64/],
    [`a:${secret.slice(0, -4)}`, /must have 32 bytes, not/],
    [`a b:${secret}`, /item 1 must be name:key/],
    [`-a:${secret}`, /the name of a key/],
    [`a:${secret} a:${secret}`, /two keys/],
    ['', /has no key/],
  ]) {
    process.env.STREAMFLEET_TEST_KEYS = text;
    assert.throws(() => Keys.fromEnv('STREAMFLEET_TEST_KEYS'), (error) => why.test(error.message) && !error.message.includes(secret.slice(0, 10)), text);
  }
  process.env.STREAMFLEET_TEST_KEYS = `b:${two.toString('base64')},a:${secret}`;
  assert.equal(Keys.fromEnv('STREAMFLEET_TEST_KEYS').first, 'b');
  delete process.env.STREAMFLEET_TEST_KEYS;
  assert.throws(() => Keys.fromEnv('STREAMFLEET_TEST_KEYS'), /STREAMFLEET_TEST_KEYS is not set/);
  assert.throws(() => new Codecs({ keys: { a: one } }), /keys must be Keys/);
});

test('a directory keeps bytes by their hash, and renews their time', async () => {
  await withFolder(async (folder) => {
    const store = new DirectoryClaims(path.join(folder, 'payloads'));
    const bytes = Buffer.from('bytes');
    const name = sha256(bytes);
    assert.equal(await store.get(name, 100), undefined);
    await store.put(name, bytes);
    const file = path.join(folder, 'payloads', name.slice(0, 2), name.slice(2, 4), name);
    assert.deepEqual([fs.readFileSync(file), await store.get(name, 100)], [bytes, bytes]);
    fs.utimesSync(file, 1, 1);
    await store.put(name, bytes);
    assert.ok(fs.statSync(file).mtimeMs > Date.now() - 60_000);
    fs.writeFileSync(file, 'cut');
    await store.put(name, bytes);
    assert.deepEqual([await store.get(name, 100), (await store.get(name, 3)).length], [bytes, 4]);
    assert.deepEqual(fs.readdirSync(path.dirname(file)), [name]);
  });
});

test('nothing but a hash becomes a place', async () => {
  const client = { putObject() {}, getObject() {} };
  for (const wrong of ['', '../'.repeat(30), 'A'.repeat(64), '0'.repeat(63), `${'0'.repeat(64)}\n`]) {
    for (const store of [new DirectoryClaims('/nowhere'), new S3Claims(client, 'bucket')]) {
      await assert.rejects(store.get(wrong, 1), /64 hexadecimal digits/);
      await assert.rejects(store.put(wrong, Buffer.alloc(0)), /64 hexadecimal digits/);
    }
  }
});

test('a bucket is reached by the client of the application', async () => {
  const objects = new Map();
  const store = new S3Claims(
    {
      putObject: async ({ Bucket, Key, Body }) => objects.set(`${Bucket}/${Key}`, Body),
      getObject: async ({ Bucket, Key }) => {
        const bytes = objects.get(`${Bucket}/${Key}`);
        if (bytes === undefined) throw Object.assign(new Error('no such key'), { name: 'NoSuchKey' });
        return { ContentLength: bytes.length, Body: { transformToByteArray: async () => new Uint8Array(bytes) } };
      },
    },
    'payloads',
    { prefix: 'jobs/' },
  );
  const name = sha256('bytes');
  assert.equal(await store.get(name, 100), undefined);
  await store.put(name, Buffer.from('bytes'));
  assert.deepEqual([...objects.keys()], [`payloads/jobs/${name}`]);
  assert.deepEqual([(await store.get(name, 100)).toString(), (await store.get(name, 3)).length], ['bytes', 4]);
  assert.throws(() => new S3Claims({ send() {} }, 'payloads'), /S3Client does not/);
});

const HANDLERS = (uses) => `
  const worker = new Worker();
  const keys = new Keys(Object.entries(${JSON.stringify(VECTORS.keys)}).map(([name, key]) => [name, Buffer.from(key, 'base64')]));
  ${uses ? 'worker.codecs(new Codecs({ keys }));' : ''}
  worker.errors([[Error, 'fatal']]);
  let seen;
  worker.events.on('before', (job) => { seen = job.payload; });
  worker.on('mail.send', (job) => ({
    payload: Buffer.isBuffer(job.payload) ? { base64: job.payload.toString('base64') } : job.payload,
    encoding: job.encoding, headers: job.headers, seen: seen === job.payload,
  }));
  worker.run();`;

function ask(program, bytes, header, encoding = 'raw') {
  const headers = header === undefined ? { tenant: '9' } : { tenant: '9', codec: header };
  return program.ask('mail.send', undefined, { headers, encoding, payload_base64: bytes.toString('base64') });
}

test('a handler sees no difference', async () => {
  const codecs = new Codecs({ keys: new Keys(KEYS), compress: true });
  await withProgram(HANDLERS(true), async (program) => {
    await program.hello();
    const { result: plain } = await program.ask('mail.send', { to: 'ann' }, { headers: { tenant: '9' } });
    for (const value of [{ to: 'ann' }, null, ['é'.repeat(3000)]]) {
      const json = Buffer.from(value === null ? '' : JSON.stringify(value));
      const [header, bytes] = await codecs.encodePayload('mail.send', 'json', json);
      assert.deepEqual((await ask(program, bytes, header)).result, { ...plain, payload: value });
    }
    const packed = async (bytes) => {
      const [header, sent] = await codecs.encodePayload('mail.send', 'msgpack', bytes);
      return (await ask(program, sent, header)).result.payload;
    };
    for (const { bytes, json } of VECTORS.packed) {
      const want = json === null ? { base64: bytes } : JSON.parse(json);
      assert.deepEqual(await packed(bytesOf(bytes)), want, bytes);
    }
    const [raw, ff] = await codecs.encodePayload('mail.send', 'raw', Buffer.from([255]));
    assert.deepEqual((await ask(program, ff, raw)).result.payload, { base64: '/w==' });
    const [broken, bytes] = await codecs.encodePayload('mail.send', 'json', Buffer.from('{no json'));
    assert.equal((await ask(program, bytes, broken)).result.encoding, 'json');
  });
});

test('what cannot be decoded is retried, whatever the rules say', async () => {
  await withProgram(HANDLERS(true), async (program) => {
    await program.hello();
    const answer = await ask(program, Buffer.alloc(40), 'json aes-256-gcm;key=2027-01');
    assert.equal(answer.outcome, 'retry');
    assert.equal(answer.classes, undefined);
    assert.match(answer.error, /encrypted with the key 2027-01, which this program does not have/);
    assert.equal((await ask(program, Buffer.from('x'), 'json zip')).outcome, 'retry');
    assert.equal((await program.ask('mail.send', 1)).outcome, 'done');
  });
});

test('a program without codecs says so, and leaves other headers alone', async () => {
  await withProgram(HANDLERS(false), async (program) => {
    await program.hello();
    const answer = await ask(program, Buffer.from('x'), 'json gzip');
    assert.equal(answer.outcome, 'retry');
    assert.match(answer.error, /worker\.codecs/);
    assert.equal((await ask(program, Buffer.from('x'), 'h264')).result.headers.codec, 'h264');
  });
});
