//! The rows of a page, in columns that fit the terminal, with the line below a row that says why.

use super::pen::{Pen, Tone, length};
use crate::top::state::{Column, Row, State};

/// The space between two columns.
const GAP: u16 = 2;

/// The least width to which a column of texts is cut.
const LEAST: u16 = 8;

/// A column that is shown: which one, and its width.
struct Shown {
    nth: usize,
    width: u16,
}

/// Draws headings and rows from one line to another, which is left out.
pub(super) fn draw(state: &State, pen: &mut Pen<'_>, (top, end): (u16, u16)) {
    let (columns, rows) = (state.page.columns, &state.page.rows[..]);
    let shown = fit(columns, rows, pen.size().0);
    let is_stale = state.stale().is_some();
    let mut x = 0;
    for Shown { nth, width } in &shown {
        let column = &columns[*nth];
        let mark = match state.place.sort {
            Some((by, true)) if by == *nth => "↓",
            Some((by, false)) if by == *nth => "↑",
            Some(_) | None => "",
        };
        let heading = format!("{}{mark}", column.heading);
        cell(pen, (x, top), (heading.as_str(), *width), column.is_figure, Tone::Dim);
        x += width + GAP;
    }
    let mut y = top + 1;
    for (nth, row) in rows.iter().enumerate().skip(first(rows, state.selected, end.saturating_sub(y))) {
        if y >= end {
            break;
        }
        line(pen, y, (columns, &shown[..]), row, is_stale);
        let lines = row.height().min(end - y);
        if lines > 1 {
            let width = pen.size().0.saturating_sub(GAP);
            let tone = if is_stale { Tone::Dim } else { Tone::Caution };
            pen.text((GAP, y + 1), &row.note, width, tone);
        }
        if nth == state.selected {
            pen.mark(y, lines);
        }
        y += lines;
    }
}

fn line(pen: &mut Pen<'_>, y: u16, (columns, shown): (&[Column], &[Shown]), row: &Row, is_stale: bool) {
    let mut x = 0;
    for Shown { nth, width } in shown {
        let (column, text) = (&columns[*nth], row.cells.get(*nth).map_or("", |cell| cell.text.as_str()));
        let tone = match column.heading {
            _ if is_stale => Tone::Dim,
            "state" => Tone::of_state(text),
            _ if text == "0" => Tone::Dim,
            _ => Tone::Plain,
        };
        cell(pen, (x, y), (text, *width), column.is_figure, tone);
        x += width + GAP;
    }
}

/// Writes a cell; figures at the right.
fn cell(pen: &mut Pen<'_>, (x, y): (u16, u16), (text, width): (&str, u16), is_figure: bool, tone: Tone) {
    let space = if is_figure { width.saturating_sub(length(text)) } else { 0 };
    pen.text((x + space, y), text, width - space, tone);
}

/// The first row to draw, so that the selected one is visible in this many lines.
fn first(rows: &[Row], selected: usize, lines: u16) -> usize {
    let Some(row) = rows.get(selected) else { return 0 };
    let (mut first, mut used) = (selected, row.height());
    while first > 0 {
        used = used.saturating_add(rows[first - 1].height());
        if used > lines {
            break;
        }
        first -= 1;
    }
    first
}

/// Chooses the columns for a terminal of this width. Columns of texts are cut, the widest first, until all fit.
fn fit(columns: &[Column], rows: &[Row], width: u16) -> Vec<Shown> {
    let widest = |nth: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(nth)).map(|cell| length(&cell.text));
        // One more for the mark of the sorted column.
        cells.max().unwrap_or(0).max(length(columns[nth].heading) + 1).min(width)
    };
    let visible = columns.iter().enumerate().filter(|(_, column)| column.from <= width);
    let mut shown: Vec<Shown> = visible.map(|(nth, _)| Shown { nth, width: widest(nth) }).collect();
    let gaps = GAP * u16::try_from(shown.len().saturating_sub(1)).unwrap_or(0);
    while shown.iter().map(|shown| u32::from(shown.width)).sum::<u32>() + u32::from(gaps) > u32::from(width) {
        let texts = shown.iter_mut().filter(|shown| !columns[shown.nth].is_figure && shown.width > LEAST);
        let Some(widest) = texts.max_by_key(|shown| shown.width) else { break };
        widest.width -= 1;
    }
    shown
}
