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
