// Reads answers of the type application/x-ndjson, line by line, as they arrive.

/** How long lines are parsed without a pause for the page, in milliseconds. */
const BUSY_MS = 8;

/** Yields each line of a body, parsed. Returning from the loop ends the request. */
export async function* lines<T>(response: Response): AsyncGenerator<T> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let pausedAt = performance.now();
  try {
    for (;;) {
      // What has already arrived is read without a pause of its own.
      if (performance.now() - pausedAt > BUSY_MS) {
        await new Promise((resolve) => setTimeout(resolve));
        pausedAt = performance.now();
      }
      const { done, value } = await reader.read();
      const parts = (rest + (value ?? '')).split('\n');
      rest = done ? '' : (parts.pop() ?? '');
      for (const part of parts) if (part) yield JSON.parse(part) as T;
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
