import { expect, test, vi } from 'vitest';

vi.hoisted(() => vi.stubGlobal('location', new URL('http://console/')));
const { inside } = await import('./router.svelte');

test('an address that anybody may have written leads nowhere else', () => {
  const cases: [string, string][] = [
    ['/jobs?queue=mail', '/jobs?queue=mail'],
    ['http://console/dead', '/dead'],
    ['http://console//elsewhere/x', '/elsewhere/x'],
    ['//elsewhere/x', '/'],
    ['http://elsewhere/', '/'],
    ['javascript:alert(1)', '/'],
    ['http://[', '/'],
  ];
  for (const [href, path] of cases) expect([href, inside(href, 'http://console')]).toEqual([href, path]);
});
