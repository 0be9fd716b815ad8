// What a program wrote when it failed, folded: the head says what went wrong where, and the tail why.
import { exception, withoutStatus } from '../../words/format';
import { t, words } from '../../words/words.svelte';

/** How many lines are shown of the head and of the tail. */
const HEAD = 8;
const TAIL = 14;

/** A text is folded only if that hides some lines. */
const LEAST = 4;

export interface Folded {
  head: string[];
  middle: string[];
  tail: string[];
}

export function folded(error: string): Folded {
  // Python's underlines say nothing that the lines above them do not.
  const lines = withoutStatus(error).replace(/\s+$/, '').split('\n').filter((line) => !/^\s*[~^]+$/.test(line));
  if (lines.length < HEAD + TAIL + LEAST) return { head: lines, middle: [], tail: [] };
  return { head: lines.slice(0, HEAD), middle: lines.slice(HEAD, -TAIL), tail: lines.slice(-TAIL) };
}

/** What a line is: the exception itself, a place in the code, or anything else. */
export function kindOf(line: string): 'thrown' | 'place' | 'plain' {
  if (/^\s*(caused by:? )?[\w.\\$]*(Error|Exception|Warning|Timeout)\b.*/.test(line)) return 'thrown';
  return /^\s*(File "|at |#\d+ |\.\.\. |in )/.test(line) ? 'place' : 'plain';
}

/** Whether the API hides errors from this person. */
export const isHidden = (error: string): boolean => error === '***';

/** What a letter or a group is called: its exception, or where that is not known, its type and why its jobs are dead. */
export function titleOf({ error, type, reason }: { error: string; type?: string | null; reason?: string | null }): string {
  const known = isHidden(error) ? '' : exception(error);
  return known || [type, reason && words.of('dead.reason', reason)].filter(Boolean).join(': ') || t('dead.no_error');
}

/** The name of an exception and what it says, if the line has both. */
export function parts(line: string): { name: string; text: string } {
  const [, name, text] = /^([\w.\\$]*(?:Error|Exception|Warning|Timeout)\w*): (.+)$/s.exec(line) ?? [];
  return name ? { name, text: text! } : { name: '', text: line };
}
