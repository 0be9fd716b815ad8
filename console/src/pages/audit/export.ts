// The whole result of a search of the audit, as a file with one action per line.
import { Failure, send, type Schemas } from '../../api/client';
import { lines } from '../../api/lines';

type Line = { action?: unknown; progress?: { next: string | null }; problem?: Schemas['Problem'] };

/** Reads all actions that match, however long it takes. `progress` gets how many there are so far. */
export async function readAll(query: URLSearchParams, progress: (count: number) => void, signal: AbortSignal): Promise<string[]> {
  const notes: string[] = [];
  for (let next: string | null = ''; next !== null; ) {
    const asked: URLSearchParams = new URLSearchParams(query);
    if (next) asked.set('after', next);
    const headers = { accept: 'application/x-ndjson' };
    const response = await send(new Request(`/api/v1/audit?${asked}`, { headers, signal }));
    let last: string | null | undefined;
    for await (const { action, progress: far, problem } of lines<Line>(response)) {
      if (problem) throw Failure.from(problem);
      if (action) notes.push(JSON.stringify(action));
      if (far) last = far.next;
      progress(notes.length);
    }
    if (last === undefined) throw new Failure(0, 'the answer broke off');
    next = last;
  }
  return notes;
}
