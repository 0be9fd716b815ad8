// The same package for `import`: there is one copy of it, whichever way it is loaded.
import streamfleet from './index.js';

export const {
  Drop, Done, Fatal, Outcome, Retry, Snooze, Worker, currentJob, job, middleware, run, testJob, use,
  BulkError, Gone, JobFailed, NotEnded, Producer, Status, Submission,
} = streamfleet;
export default streamfleet;
