// A file that the browser keeps where it keeps downloads.

/** How long the browser may take to read the text, in milliseconds. */
const READ_WITHIN = 10_000;

/** Gives the browser a text to keep under this name. */
export function keep(name: string, text: string, type = 'text/plain'): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = Object.assign(document.createElement('a'), { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), READ_WITHIN);
}
