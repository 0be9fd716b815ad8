// Numbers, sizes and times as people read them. Each quantity has one form in the whole console.
const grouping = new Intl.NumberFormat('en', { useGrouping: true });

/** A count with its thousands apart, by a narrow space, which no language takes for a decimal sign. */
export function count(value: number | null | undefined): string {
  return value == null ? '–' : grouping.format(value).replaceAll(',', '\u202f');
}

/** A count in little space: `168k`, `1.2M`. */
export function short(value: number | null | undefined): string {
  if (value == null) return '–';
  for (const [from, sign] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']] as const) {
    if (value >= from) return `${cut(value / from)}${sign}`;
  }
  return cut(value);
}

const cut = (value: number) => (value >= 100 || Number.isInteger(value) ? Math.round(value).toString() : value.toFixed(1).replace(/\.0$/, ''));

/** A size in bytes: `1.5 MiB`. */
export function bytes(value: number | null | undefined): string {
  if (value == null) return '–';
  for (const [from, unit] of [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']] as const) {
    if (value >= from) return `${cut(value / from)} ${unit}`;
  }
  return `${value} B`;
}

/** A rate, in the unit that makes it at least one: `200/s`, `12/m`, `1/h`. */
export function rate(perSecond: number | null | undefined): string {
  if (perSecond == null) return '–';
  const [seconds, unit] = perSecond >= 1 || !perSecond ? [1, 's'] : perSecond * 60 >= 1 ? [60, 'm'] : [3600, 'h'];
  return `${short(perSecond * seconds)}/${unit}`;
}

const UNITS: [number, string][] = [[86_400_000, 'd'], [3_600_000, 'h'], [60_000, 'm'], [1000, 's']];

/** A duration: `340ms`, `2h 5m`, `23h`. The second unit is left out where it says little. */
export function duration(ms: number | null | undefined): string {
  if (ms == null) return '–';
  if (ms < 1000) return `${Math.round(ms)}ms`;
  const nth = UNITS.findIndex(([size]) => ms >= size);
  const [size, unit] = UNITS[nth]!;
  const next = UNITS[nth + 1];
  const rest = next && ms < 10 * size ? Math.floor((ms % size) / next[0]) : 0;
  const whole = Math.floor(ms / size);
  if (unit === 's' && ms < 10_000) return `${cut(ms / 1000)}s`;
  return rest && next ? `${whole}${unit} ${rest}${next[1]}` : `${whole}${unit}`;
}

/** How long something has lasted, in whole seconds: `4s`. */
export function age(ms: number): string {
  return ms < 1000 ? '0s' : duration(ms - (ms % 1000));
}

/** The distances between durations that people count in: 1, 2 or 5 of a unit, and parts of an hour. In milliseconds. */
export const DURATION_STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].flatMap((count) => [count * 1000, count * 60_000]),
  ...[1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 720].map((hours) => hours * 3_600_000),
].sort((one, other) => one - other);

const pad = (value: number) => String(value).padStart(2, '0');

/** The time of the day here: `19:02:11`. */
export function clock(ms: number): string {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** Date and time here, with the zone. */
export function instant(ms: number): string {
  const at = new Date(ms);
  const minutes = -at.getTimezoneOffset();
  const zone = minutes === 0 ? 'UTC' : `UTC${minutes < 0 ? '−' : '+'}${pad(Math.floor(Math.abs(minutes) / 60))}:${pad(Math.abs(minutes) % 60)}`;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(ms)} ${zone}`;
}

/** What a program wrote, without the exit status around it. */
export function withoutStatus(error: string | null | undefined): string {
  const text = (error ?? '').replace(/^exit status:? \d+:\s*/i, '').replace(/\s*exit status:? \d+\s*$/i, '');
  return text || (error ?? '');
}

/** The line of an error that says most: the exception, without the exit status before it. */
export function exception(error: string | null | undefined): string {
  const known = withoutStatus(error).split('\n').map((line) => line.trim()).filter(Boolean);
  const named = known.filter((line) => !/^(File "|at |Traceback|#\d|\^+$|\.\.\.)/.test(line));
  // The last cause of a chain is the first that went wrong.
  const thrown = named.findLast((line) => /^(Caused by: )?[\w.\\$]*(Error|Exception|Warning|Timeout)\b/.test(line));
  return (thrown ?? named[0] ?? known[0] ?? '').replace(/^Caused by: /, '');
}
