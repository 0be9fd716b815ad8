// Times in the zone of a schedule.

/** The weekday, the day and the time in this zone: `Mon 30 Nov, 03:00`. Seconds are shown if there are any. */
export function local(ms: number, zone: string | null | undefined): string {
  const at = new Date(ms);
  const form = (timeZone: string) =>
    new Intl.DateTimeFormat(document.documentElement.lang || 'en', {
      timeZone,
      weekday: 'short',
      day: 'numeric',
      month: 'short',
      hour: '2-digit',
      minute: '2-digit',
      second: at.getSeconds() ? '2-digit' : undefined,
      hourCycle: 'h23',
    }).format(at);
  try {
    return form(zone || 'UTC');
  } catch {
    // The browser does not know the zone.
    return `${form('UTC')} UTC`;
  }
}
