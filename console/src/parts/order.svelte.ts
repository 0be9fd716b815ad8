// Rows in the order of a column. Many rows are sorted in pieces, so that the page never stands still meanwhile.

export type SortKey = number | string | null | undefined;

interface Wish<Row> {
  rows: Row[];
  /** What to sort by. Without it, the rows stay as they are. */
  by?: (row: Row) => SortKey;
  down: boolean;
}

interface Keyed<Row> {
  row: Row;
  key: SortKey;
}

type Compare<Row> = (one: Keyed<Row>, other: Keyed<Row>) => number;

/** How many rows are sorted, merged or chosen between two places to pause. */
export const PIECE = 500;

/** How long to sort without a pause, in milliseconds. */
const BUSY_MS = 8;

/** Sorts, and yields wherever it may pause. Equal rows keep their order; what is not known comes last, in either direction. */
export function* sorting<Row>(rows: Row[], by: (row: Row) => SortKey, down: boolean): Generator<void, Row[]> {
  const sign = down ? -1 : 1;
  const compare: Compare<Row> = ({ key: a }, { key: b }) => {
    if (a == null || b == null) return a == null ? (b == null ? 0 : 1) : -1;
    return (a < b ? -1 : a > b ? 1 : 0) * sign;
  };
  let runs: Keyed<Row>[][] = [];
  for (let at = 0; at < rows.length; at += PIECE) {
    const piece = rows.slice(at, at + PIECE).map((row) => ({ row, key: by(row) }));
    runs.push(piece.sort(compare));
    yield;
  }
  while (runs.length > 1) {
    const merged: Keyed<Row>[][] = [];
    for (let at = 0; at < runs.length; at += 2) merged.push(yield* merge(runs[at]!, runs[at + 1] ?? [], compare));
    runs = merged;
  }
  return (runs[0] ?? []).map(({ row }) => row);
}

function* merge<Row>(one: Keyed<Row>[], other: Keyed<Row>[], compare: Compare<Row>): Generator<void, Keyed<Row>[]> {
  const all: Keyed<Row>[] = [];
  let nth = 0;
  for (const each of one) {
    while (nth < other.length && compare(other[nth]!, each) < 0) all.push(other[nth++]!);
    all.push(each);
    if (all.length % PIECE === 0) yield;
  }
  return all.concat(other.slice(nth));
}

export class Order<Row> {
  /** The rows in the order that was last complete. */
  rows = $state.raw<Row[]>([]);

  /** Begins with the component that creates it, and ends with it. What `wish` reads of the state sorts anew. */
  constructor(wish: () => Wish<Row>) {
    $effect.pre(() => {
      const { rows, by, down } = wish();
      const steps = by && sorting(rows, by, down);
      let timer: ReturnType<typeof setTimeout>;
      const go = (): void => {
        const until = performance.now() + BUSY_MS;
        for (let step = steps?.next(); ; step = steps?.next()) {
          if (!step) this.rows = rows;
          else if (step.done) this.rows = step.value;
          else if (performance.now() < until) continue;
          else timer = setTimeout(go);
          return;
        }
      };
      go();
      return () => clearTimeout(timer);
    });
  }
}
