import { expect, test } from 'vitest';
import { lines } from './lines';

test('lines are read whole, wherever the network cuts them', async () => {
  const bytes = new TextEncoder().encode('{"job":"ä"}\n{"job":"b"}\n\n{"progress":1}');
  for (const size of [1, 2, 7, bytes.length]) {
    const parts = Array.from({ length: Math.ceil(bytes.length / size) }, (_, nth) => bytes.slice(nth * size, (nth + 1) * size));
    const body = new ReadableStream({
      start(controller) {
        parts.forEach((part) => controller.enqueue(part));
        controller.close();
      },
    });
    const found: unknown[] = [];
    for await (const line of lines(new Response(body))) found.push(line);
    expect(found).toEqual([{ job: 'ä' }, { job: 'b' }, { progress: 1 }]);
  }
});
