'use strict';

// The trace of a job, with the API of OpenTelemetry if check.sh has installed it.

const assert = require('node:assert/strict');
const { createRequire } = require('node:module');
const path = require('node:path');
const { describe, test } = require('node:test');
const { FakeProducer, Job, Producer, Worker } = require('..');

const FOLDER = process.env.STREAMFLEET_NODE_CLIENTS && path.join(process.env.STREAMFLEET_NODE_CLIENTS, 'otel');
const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = `00-${TRACE}-b7ad6b7169203331-01`;

const sent = [];
const producer = new Producer(async (args) => sent.push(args) && '1-0');
const fields = () => {
  const args = sent.pop().slice(3);
  return Object.fromEntries(args.flatMap((name, at) => (at % 2 === 0 ? [[String(name), String(args[at + 1])]] : [])));
};

test('without OpenTelemetry, a job has the trace that it is given', async () => {
  await producer.enqueue('a');
  assert.deepEqual(fields(), { type: 'a' });
  await producer.enqueue('a', undefined, { traceparent: PARENT, tracestate: 'shop=1,desk=2' });
  assert.deepEqual(fields(), { type: 'a', traceparent: PARENT, 'h.tracestate': 'shop=1,desk=2' });
  const job = new Job('a', 1, { message: { traceparent: PARENT }, headers: { tracestate: 'shop=1' } });
  assert.deepEqual([job.traceparent, job.tracestate], [PARENT, 'shop=1']);
  await new Worker().on('a', () => producer.enqueue('b')).outcome(job);
  assert.deepEqual(fields(), { type: 'b', traceparent: PARENT, 'h.tracestate': 'shop=1' });
});

test('a tracestate that breaks the standard is left out', async () => {
  const members = (count) => Array.from({ length: count }, (_, at) => `k${at}=1`).join(',');
  const long = `a=${'x'.repeat(250)},b=${'y'.repeat(250)},c=`;
  for (const good of ['a=1', 'a=1 , ,b=2', members(32), `${long}12`]) {
    await producer.enqueue('a', undefined, { traceparent: PARENT, tracestate: good });
    assert.equal(fields()['h.tracestate'], good);
  }
  for (const bad of ['', ',', 'a', 'a=', 'A=1', 'a=1,a=2', 'a=b=c', 'a=\u00fc', 'a=1\r\nx: y', members(33), `${long}123456789`, 7]) {
    await producer.enqueue('a', undefined, { traceparent: PARENT, tracestate: bad });
    assert.equal(fields()['h.tracestate'], undefined, String(bad));
    assert.equal(new Job('a', 1, { headers: { tracestate: String(bad) } }).tracestate, undefined);
  }
});

describe('OpenTelemetry', { skip: FOLDER === undefined && 'check.sh installs it' }, () => {
  const load = FOLDER === undefined ? undefined : createRequire(path.join(FOLDER, 'package.json'));
  const api = load?.('@opentelemetry/api');

  test('the active span goes into jobs, and spans of handlers belong to it', async () => {
    const { AsyncLocalStorageContextManager } = load('@opentelemetry/context-async-hooks');
    const { W3CTraceContextPropagator } = load('@opentelemetry/core');
    const { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } = load('@opentelemetry/sdk-trace-base');
    const exporter = new InMemorySpanExporter();
    api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    api.propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    api.trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }));
    const tracer = api.trace.getTracer('test');
    try {
      await producer.enqueue('a');
      assert.deepEqual(fields(), { type: 'a' });

      const state = api.createTraceState('shop=1');
      const remote = api.trace.setSpanContext(api.ROOT_CONTEXT, { traceId: TRACE, spanId: 'b7ad6b7169203331', traceFlags: 1, isRemote: true, traceState: state });
      await api.context.with(remote, async () => {
        await producer.enqueue('a', 1, { headers: { tenant: 9 } });
        assert.deepEqual(fields(), { type: 'a', payload: '1', traceparent: PARENT, 'h.tracestate': 'shop=1', 'h.tenant': '9' });
        await producer.enqueueMany([{ type: 'a' }]);
        assert.equal(fields().traceparent, PARENT);
        assert.ok(producer.command('a').includes(PARENT));
        await producer.enqueue('a', 1, { traceparent: PARENT.replace('01', '00') });
        assert.equal(fields()['h.tracestate'], undefined);
        const fake = new FakeProducer();
        await fake.enqueue('a');
        assert.equal(fake.jobs[0].headers.tracestate, 'shop=1');
      });

      const worker = new Worker().on('a', async () => {
        await new Promise(setImmediate);
        tracer.startSpan('inside').end();
        await producer.enqueue('b');
      });
      await worker.outcome(new Job('a', 1, { message: { traceparent: PARENT }, headers: { tracestate: 'shop=1' } }));
      const [span] = exporter.getFinishedSpans();
      assert.equal(span.spanContext().traceId, TRACE);
      assert.equal((span.parentSpanContext ?? { spanId: span.parentSpanId }).spanId, 'b7ad6b7169203331');
      assert.equal(span.spanContext().traceState.serialize(), 'shop=1');
      assert.deepEqual([fields()].map(({ traceparent, 'h.tracestate': given }) => [traceparent, given]), [[PARENT, 'shop=1']]);
    } finally {
      for (const each of [api.context, api.propagation, api.trace]) each.disable();
    }
  });
});
