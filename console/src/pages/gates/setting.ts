// Who set the limits of gates, and why: the audit has it, gates do not.
import { api, ok, type Schemas } from '../../api/client';
import type { Target } from './gate';

type Note = Schemas['AuditNote'];

/** How many notes of the audit are read. Of limits that were set before, it is only known that somebody has set them. */
const NOTES = 200;

const key = ({ queue, gate }: { queue: string; gate: string }) => `${queue} ${gate}`;

/** The limits of a gate as the audit writes them, in English whatever the language of the console. */
function written({ concurrency, rate, breaker }: Target): string {
  return [concurrency && `${concurrency} at once`, rate, breaker && `breaker ${breaker}`].filter(Boolean).join(', ');
}

/** The newest note about the limits of each gate. A note names the gate and, after the last colon and space, its limits. */
export function settingsOf(notes: Note[]): Map<string, Note> {
  const settings = new Map<string, Note>();
  for (const note of notes) {
    const end = note.target.lastIndexOf(': ');
    if (note.what !== 'gates set' || !note.queue || end < 0) continue;
    const name = key({ queue: note.queue, gate: note.target.slice(0, end) });
    if (!settings.has(name)) settings.set(name, note);
  }
  return settings;
}

/** Reads who set the limits of gates last: of a queue or of all, and only of gates with this in their names. */
export async function readSettings(of: { queue?: string; target?: string }, signal: AbortSignal): Promise<Map<string, Note>> {
  const query = { ...of, queue: of.queue === undefined ? undefined : [of.queue], action: 'gates set', limit: NOTES };
  const page = (await ok(api.GET('/api/v1/audit', { params: { query }, signal }))) as Schemas['AuditNoteList'];
  return settingsOf(page.items);
}

/** Who set the limits that a gate has. A note about other limits is of an earlier time: what set these wrote none. */
export function settingOf(settings: Map<string, Note> | undefined, gate: Target): Note | undefined {
  const note = gate.source === 'command' ? settings?.get(key(gate)) : undefined;
  return note?.target === `${gate.gate}: ${written(gate)}` ? note : undefined;
}
