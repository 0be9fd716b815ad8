// Whether a key is meant for the page: not while somebody types, and not behind a dialog.
export function isForPage(event: KeyboardEvent): boolean {
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return false;
  const target = event.target as HTMLElement;
  if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return false;
  return !document.querySelector('dialog:modal');
}
