//! The dialog, over the last rows.

use super::pen::{Pen, Tone, wrapped};
use crate::top::state::Dialog;

/// How many lines the description and the warning take, at most.
const MOST: usize = 3;

/// How far names stand from the left, below the value that they complete.
const GAP: u16 = 2;

/// Draws the dialog of somebody.
pub(super) fn draw(dialog: &Dialog, who: &str, pen: &mut Pen<'_>) {
    let (width, height) = pen.size();
    let mut lines: Vec<(String, Tone)> = vec![("─".repeat(usize::from(width)), Tone::Dim)];
    let add = |lines: &mut Vec<(String, Tone)>, text: &str, tone: Tone| {
        lines.extend(wrapped(text, width).into_iter().take(MOST).map(|line| (line, tone)));
    };
    add(&mut lines, &dialog.action.told(), Tone::Strong);
    add(&mut lines, &format!("by {who}; the audit notes it"), Tone::Dim);
    add(&mut lines, &dialog.warning, Tone::Bad);
    let names = dialog.matches();
    let fields = 1 + u16::from(dialog.value.is_some()) + u16::from(!names.is_empty());
    let used = u16::try_from(lines.len()).unwrap_or(height) + fields + 1;
    let top = height.saturating_sub(used);
    pen.clear(top, used);
    let mut y = top;
    for (text, tone) in &lines {
        pen.text((0, y), text, width, *tone);
        y += 1;
    }
    if let Some((label, value)) = &dialog.value {
        field(pen, y, label, &value.0, !dialog.is_at_reason);
        y += 1;
    }
    if !names.is_empty() {
        pen.text((GAP, y), &names.join("  "), width.saturating_sub(GAP), Tone::Dim);
        y += 1;
    }
    field(pen, y, "reason", &dialog.reason.0, dialog.is_at_reason);
    let tab = if names.is_empty() { "other field" } else { "completes" };
    pen.text((0, y + 1), &format!("Enter confirms  Tab {tab}  Esc does nothing"), width, Tone::Dim);
}

fn field(pen: &mut Pen<'_>, y: u16, label: &str, text: &str, is_current: bool) {
    let label = format!("{label}: ");
    if is_current {
        pen.typed(y, &label, text);
    } else {
        let (width, _) = pen.size();
        let x = pen.text((0, y), &label, width, Tone::Dim);
        pen.text((x, y), text, width, Tone::Plain);
    }
}
