// Where the steps of a job stand in their graph: a step stands on the right of all that come before it.

export const BOX = { width: 160, height: 48 };
const GAP = { x: 40, y: 16 };

export interface Placed<Step> {
  step: Step;
  x: number;
  y: number;
}

export interface Graph<Step> {
  width: number;
  height: number;
  boxes: Placed<Step>[];
  /** The path of each line, and the step that it comes from. */
  lines: { path: string; from: Step }[];
}

/** Places steps that have a name and name those before them. */
export function graphOf<Step extends { step: string; after: string[] }>(steps: Step[]): Graph<Step> {
  const columns = new Map<string, number>();
  // Without cycles, each round places at least one step for good.
  for (const _ of steps) {
    for (const { step, after } of steps) columns.set(step, Math.max(0, ...after.map((name) => (columns.get(name) ?? -1) + 1)));
  }
  const used = new Map<number, number>();
  const boxes = steps.map((step) => {
    const column = columns.get(step.step)!;
    const row = used.get(column) ?? 0;
    used.set(column, row + 1);
    return { step, x: column * (BOX.width + GAP.x), y: row * (BOX.height + GAP.y) };
  });
  const places = new Map(boxes.map((box) => [box.step.step, box]));
  const lines = boxes.flatMap((box) =>
    box.step.after.flatMap((name) => {
      const from = places.get(name);
      return from ? [{ path: line(from, box), from: from.step }] : [];
    }),
  );
  const width = Math.max(0, ...boxes.map((box) => box.x)) + BOX.width;
  const height = Math.max(0, ...boxes.map((box) => box.y)) + BOX.height;
  return { width, height, boxes, lines };
}

function line(from: { x: number; y: number }, to: { x: number; y: number }): string {
  const [x1, y1] = [from.x + BOX.width, from.y + BOX.height / 2];
  const [x2, y2] = [to.x, to.y + BOX.height / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`;
}

interface Ran {
  step: string;
  state: string;
  begun_ms?: number | null;
  since_ms?: number | null;
  decision?: { at_ms: number } | null;
}

/** When each step last ran, as the share of the time from the first begin to the last end: from 0 to 1. Steps that did not run are missing. */
export function spansOf(steps: Ran[], now: number): Map<string, { from: number; to: number }> {
  const runs = steps.flatMap(({ step, state, begun_ms: begun, since_ms: since, decision }) => {
    if (!begun) return [];
    // What a person decided is no end of a run.
    const ended = state === 'started' ? Math.max(now, begun) : decision && decision.at_ms >= begun ? begun : (since ?? begun);
    return [{ step, begun, ended }];
  });
  const first = Math.min(...runs.map(({ begun }) => begun));
  const all = Math.max(1, Math.max(...runs.map(({ ended }) => ended)) - first);
  return new Map(runs.map(({ step, begun, ended }) => [step, { from: (begun - first) / all, to: (ended - first) / all }]));
}
