// Addresses: every page has one that can be shared, and Back works. Links are plain `<a href={to('jobs')}>`.
import { tick } from 'svelte';

/** The address of a page: its segments are encoded, so that no name of a queue or job leads elsewhere. */
export function to(...segments: string[]): string {
  // Browsers drop segments that are only dots, also encoded ones. A space, which no name has at its end, keeps them.
  const written = segments.map((segment) => (/^\.{1,2}$/.test(segment) ? `${segment}%20` : encodeURIComponent(segment)));
  return `/${written.join('/')}`;
}

/** The same, with a query. */
export function toWith(segments: string[], query: URLSearchParams | Record<string, string>): string {
  const text = new URLSearchParams(query).toString();
  return text ? `${to(...segments)}?${text}` : to(...segments);
}

/** The address that another one, which anybody may have written, has in this console; that of the overview if it leads elsewhere. */
export function inside(href: string, origin: string): string {
  try {
    const url = new URL(href, origin);
    // A path that begins with two slashes is the address of another host.
    return url.origin === origin ? url.pathname.replace(/^\/+/, '/') + url.search : '/';
  } catch {
    return '/';
  }
}

function segmentsOf(path: string): string[] {
  const parts = path.split('/').filter(Boolean);
  return parts.map((part) => {
    try {
      return decodeURIComponent(part).replace(/^(\.{1,2}) $/, '$1');
    } catch {
      return part;
    }
  });
}

class Router {
  #url = $state.raw(new URL(location.href));
  path = $derived(this.#url.pathname);
  /** The decoded segments of the path. They stay the same while only the query changes. */
  segments = $derived(segmentsOf(this.path));

  get query(): URLSearchParams {
    return this.#url.searchParams;
  }

  begin(): void {
    addEventListener('popstate', () => (this.#url = new URL(location.href)));
    document.addEventListener('click', (event) => this.#clicked(event));
  }

  /** Goes to an address of this console. */
  go(href: string, { replace = false } = {}): void {
    history[replace ? 'replaceState' : 'pushState'](null, '', href);
    const before = this.#url.pathname;
    this.#url = new URL(location.href);
    if (before === this.#url.pathname) return;
    scrollTo(0, 0);
    // A screen reader goes on at the new page, as it does after a document was loaded.
    void tick().then(() => document.getElementById('main')?.focus({ preventScroll: true }));
  }

  #clicked(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element).closest('a');
    if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
    if (link.pathname.startsWith('/api/')) return;
    event.preventDefault();
    this.go(link.href);
  }
}

export const router = new Router();
