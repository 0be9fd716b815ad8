//! Draws the state: a title, a banner if figures are stale, rows, a line of answers and remarks, and a line of keys. Pure.

mod dialog;
mod pen;
mod rows;
#[cfg(test)]
mod tests;

use ratatui::buffer::Buffer;

use self::pen::{Pen, Tone};
use super::state::{Mode, State, View};
use crate::times::short;

/// The least size that shows anything: columns and lines.
const LEAST: (u16, u16) = (30, 8);

/// The help: keys, and what they do.
const HELP: [&str; 14] = [
    "1 queues 2 jobs 3 running 4 dead 5 workers 6 gates 7 tasks",
    "8 or a: the audit    :NAME [QUEUE] goes to a list    0 all",
    ":job ID [QUEUE] or /id=ID shows a job, also an old one",
    "Enter opens a row    Esc goes back    q quits",
    "/ filters: words; for jobs state=dead type=mail.* since=1h",
    "  payload.customer=9 error=timeout; who= action= target=",
    "s or o sorts by the next column (the page that is shown)",
    "n next page   N first page   g top   G end",
    "p pauses or resumes a queue, type, gate or task",
    "l limits a queue, type or gate  D drains, resumes a worker",
    "c cancels a job, stops a task   d decides about a step",
    "m moves the jobs of a queue, or those of the filter",
    "r replays a group, first some of it, or one dead job",
    "u undoes a move; edits of a letter, on the page of its job",
];

/// Draws everything.
pub(super) fn draw(state: &State, buffer: &mut Buffer, has_color: bool) {
    let mut pen = Pen::new(buffer, has_color);
    let (width, height) = pen.size();
    if width < LEAST.0 || height < LEAST.1 {
        pen.text((0, 0), "too small", width, Tone::Plain);
        return;
    }
    title(state, &mut pen);
    let mut top = 1;
    if let Some((age, why)) = state.stale() {
        let why = if why.is_empty() { "no answer yet" } else { why };
        pen.bar(top, &format!("stale for {}: {why}; tries again by itself", short(age)), Tone::Bad);
        top += 1;
    }
    if state.place.view == View::Queues
        && state.mode != Mode::Help
        && let Some((line, is_nearly_full)) = state.memory.line()
    {
        pen.text((0, top), &line, width, if is_nearly_full { Tone::Bad } else { Tone::Dim });
        top += 1;
    }
    match &state.mode {
        Mode::Help => {
            for (line, text) in HELP.iter().take(usize::from(height - top)).enumerate() {
                pen.text((0, top + line as u16), text, width, Tone::Plain);
            }
            return;
        }
        Mode::Rows | Mode::Filter(_) | Mode::Command(_) | Mode::Dialog(_) => {
            rows::draw(state, &mut pen, (top, height - 2));
        }
    }
    remark(state, &mut pen, height - 2);
    match &state.mode {
        Mode::Filter(line) => pen.typed(height - 1, "/", &line.0),
        Mode::Command(line) => pen.typed(height - 1, ":", &line.0),
        Mode::Dialog(dialog) => dialog::draw(dialog, &state.who, &mut pen),
        Mode::Rows | Mode::Help => {
            pen.text((0, height - 1), keys(state.place.view), width, Tone::Dim);
        }
    }
}

fn title(state: &State, pen: &mut Pen<'_>) {
    let (width, _) = pen.size();
    let end = pen.text((0, 0), &state.place.title(), width, Tone::Strong);
    let at = if state.page.rows.is_empty() { 0 } else { state.selected + 1 };
    let place = format!("{at}/{}  {}", state.page.rows.len(), state.address);
    // The title comes first; the address is what everybody knows.
    let left = width.saturating_sub(end + 2);
    pen.right(0, &place, left, Tone::Dim);
}

/// The line of answers and remarks.
fn remark(state: &State, pen: &mut Pen<'_>, line: u16) {
    let (told, is_error) = (&state.told.0, state.told.1);
    let (text, tone) = if !told.is_empty() {
        (told.as_str(), if is_error { Tone::Bad } else { Tone::Good })
    } else if state.acting > 0 {
        ("an action is under way …", Tone::Active)
    } else if !state.is_read {
        ("reading …", Tone::Dim)
    } else if state.page.rows.is_empty() && state.page.remark.is_empty() {
        ("nothing is here", Tone::Dim)
    } else {
        (state.page.remark.as_str(), Tone::Dim)
    };
    let more = if state.page.next.is_some() { "n: more  " } else { "" };
    let (width, _) = pen.size();
    pen.text((0, line), &format!("{more}{text}"), width, tone);
}

/// The most important keys of a view.
fn keys(view: View) -> &'static str {
    match view {
        View::Queues => "? help  Enter jobs  p pause  m move  a audit  q quit",
        View::Jobs => "? help  Enter job  c cancel  r replay  m move  / filter",
        View::Running => "? help  Enter job  c cancel  p pause  / filter  Esc back",
        View::Dead => "? help  Enter letters  r replay  p pause type  Esc back",
        View::Workers => "? help  Enter worker  D drain  Esc back  q quit",
        View::Gates => "? help  p pause  l limit  Enter jobs  Esc back",
        View::Tasks => "? help  p pause  c stop  u undo  Enter task  Esc back",
        View::Audit => "? help  / who=ann action=dead  n next page  Esc back",
        View::Detail => "? help  c cancel  r replay  d decide  u undo  Esc back",
    }
}
