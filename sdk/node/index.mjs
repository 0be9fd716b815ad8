import streamfleet from './index.js';

export const {
  Producer,
  Status,
  InvalidSubmission,
  BulkError,
  NotSent,
  NotEnded,
  Gone,
  JobFailed,
  Worker,
  Job,
  Cancelled,
  Outcome,
  Done,
  Retry,
  Fatal,
  Snooze,
  Drop,
  done,
  retry,
  fatal,
  snooze,
  drop,
  version,
} = streamfleet;
export default streamfleet;
