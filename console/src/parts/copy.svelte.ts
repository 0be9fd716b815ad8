// Copies texts, and says for a moment that it has.

/** How long it is said, in milliseconds. */
const SAID_MS = 1500;

export class Copy {
  isDone = $state(false);

  async take(text: string): Promise<void> {
    await navigator.clipboard.writeText(text);
    this.isDone = true;
    setTimeout(() => (this.isDone = false), SAID_MS);
  }
}
