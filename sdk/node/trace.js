/**
 * The trace of a job. If the application has set up OpenTelemetry, its API is in a place that all copies of that package share. This package
 * asks there, and needs none of it. Without it, a job that a handler submits has the trace of the handler's job.
 */
'use strict';

const API = Symbol.for('opentelemetry.js.api.1');
const NAMES = ['traceparent', 'tracestate'];
/** The W3C standard: a member of a `tracestate`, and the most characters and members of one. */
const MEMBER = /^([a-z0-9][a-z0-9_\-*/@]{0,255})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const MOST_CHARACTERS = 512;
const MOST_MEMBERS = 32;

/** A `tracestate` that keeps the standard. Another one is left out as a whole: undefined. */
function tracestate(text) {
  if (typeof text !== 'string' || text.length > MOST_CHARACTERS) return undefined;
  const members = text.split(',').map((member) => member.replace(/^[ \t]+|[ \t]+$/g, '')).filter((member) => member !== '');
  const keys = members.map((member) => MEMBER.exec(member)?.[1]);
  const holds = members.length > 0 && members.length <= MOST_MEMBERS && !keys.includes(undefined) && new Set(keys).size === keys.length;
  return holds ? text : undefined;
}

const SETTER = {
  set: (carrier, name, value) => {
    carrier[name.toLowerCase()] = value;
  },
};
const GETTER = { get: (carrier, name) => carrier[name.toLowerCase()], keys: (carrier) => Object.keys(carrier) };

/**
 * The options of a job, with the trace in which it is submitted, unless they name one: that of the active span, or of the job whose handler
 * submits it.
 */
function traced(options, job) {
  if (options?.traceparent !== undefined || options === null) return options;
  const { context, propagation } = globalThis[API] ?? {};
  const carrier = {};
  if (context !== undefined && propagation !== undefined) propagation.inject(context.active(), carrier, SETTER);
  if (typeof carrier.traceparent !== 'string') {
    if (typeof job?.traceparent !== 'string') return options;
    Object.assign(carrier, { traceparent: job.traceparent, tracestate: job.tracestate });
  }
  carrier.tracestate = tracestate(carrier.tracestate);
  return { ...options, ...Object.fromEntries(NAMES.filter((name) => carrier[name]).map((name) => [name, carrier[name]])) };
}

/** Runs a function in the trace of a job: spans that it makes are children of the attempt, or of what submitted the job. */
function continued(job, run) {
  const { context, propagation } = globalThis[API] ?? {};
  if (job.traceparent === undefined || context === undefined || propagation === undefined) return run();
  const carrier = { traceparent: job.traceparent };
  if (job.tracestate !== undefined) carrier.tracestate = job.tracestate;
  return context.with(propagation.extract(context.active(), carrier, GETTER), run);
}

module.exports = { traced, continued, tracestate };
