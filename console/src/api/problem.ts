// What the API says went wrong, in the language of the console.
import { duration } from '../words/format';
import { words } from '../words/words.svelte';
import type { Schemas } from './client';

type FieldError = Schemas['FieldError'];

const URN = 'urn:streamfleet:problem:';

/** Kinds whose words say all that a person needs to know. What the API writes of others has facts that only it knows. */
const WHOLE = new Set(['not-logged-in', 'not-from-this-console', 'it-has-changed', 'too-many-requests', 'the-body-is-too-slow', 'the-body-broke-off', 'the-method-is-not-allowed']);

/**
 * What went wrong, as one line. The API writes English, so in English its own text is the best, unless the words for this kind of
 * problem say all. In another language, these words come first. A kind without words is in the words of the API.
 */
export function problemText({ type, detail, errors = [] }: { type: string; detail: string; errors?: FieldError[] }, retryAfterMs = 1000): string {
  const kind = type.startsWith(URN) ? type.slice(URN.length) : type;
  const text = words.of('problem', kind, { time: duration(retryAfterMs) });
  if (text === kind) return detail;
  if (WHOLE.has(kind) || !detail) return text;
  if (words.language === 'en') return detail;
  return words.t('problem.with', { text, detail: errors.map((error) => ruleText(error) ?? error.detail).join(' ') || detail });
}

/** The words for the rule that a field breaks; `undefined` for one that only the API words. */
function ruleText({ code, values }: FieldError): string | undefined {
  const text = words.of('wrong', code ?? '', values);
  return text === (code ?? '') ? undefined : text;
}

/** What is wrong with a field. Of a rule without words, another language than English says only that the field is wrong before it. */
export const fieldText = (error: FieldError): string => ruleText(error) ?? (words.language === 'en' ? error.detail : words.t('problem.field', { detail: error.detail }));
