//! Writes text into a buffer: harmless, cut to its place, in colors of the terminal's palette.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::output::{Meaning, harmless};

/// How a text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Strong,
    Dim,
    Good,
    Active,
    Caution,
    Bad,
}

impl Tone {
    /// That of a state.
    pub(super) fn of_state(state: &str) -> Self {
        match Meaning::of(state) {
            Some(Meaning::Good) => Self::Good,
            Some(Meaning::Active) => Self::Active,
            Some(Meaning::Caution) => Self::Caution,
            Some(Meaning::Bad) => Self::Bad,
            None => Self::Plain,
        }
    }

    fn style(self, has_color: bool) -> Style {
        let color = match self {
            Self::Strong => return Style::new().add_modifier(Modifier::BOLD),
            Self::Dim if !has_color => return Style::new().add_modifier(Modifier::DIM),
            Self::Plain => return Style::new(),
            Self::Dim => Color::DarkGray,
            Self::Good => Color::Green,
            Self::Active => Color::Cyan,
            Self::Caution => Color::Yellow,
            Self::Bad => Color::Red,
        };
        if has_color { Style::new().fg(color) } else { Style::new() }
    }
}

/// Writes into a buffer.
pub(super) struct Pen<'a> {
    buffer: &'a mut Buffer,
    has_color: bool,
}

impl<'a> Pen<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, has_color: bool) -> Self {
        Self { buffer, has_color }
    }

    /// How many columns and lines there are.
    pub(super) fn size(&self) -> (u16, u16) {
        (self.buffer.area.width, self.buffer.area.height)
    }

    /// Writes a text at a column and a line, in at most this many columns, and returns the column after it. What does not fit is cut.
    pub(super) fn text(&mut self, (x, y): (u16, u16), text: &str, width: u16, tone: Tone) -> u16 {
        let (columns, lines) = self.size();
        let width = width.min(columns.saturating_sub(x));
        if y >= lines || width == 0 {
            return x;
        }
        let text = cut(&harmless(text), width);
        let style = tone.style(self.has_color);
        self.buffer.set_stringn(x, y, text, usize::from(width), style).0
    }

    /// Writes a text that ends at the right, in at most this many columns.
    pub(super) fn right(&mut self, y: u16, text: &str, width: u16, tone: Tone) {
        let (columns, _) = self.size();
        let x = columns.saturating_sub(length(text).min(width));
        self.text((x, y), text, width, tone);
    }

    /// Writes a line that stands out from all others.
    pub(super) fn bar(&mut self, y: u16, text: &str, tone: Tone) {
        let (width, _) = self.size();
        self.text((0, y), text, width, tone);
        self.mark(y, 1);
    }

    /// Makes lines stand out.
    pub(super) fn mark(&mut self, y: u16, lines: u16) {
        let (width, height) = self.size();
        let area = Rect::new(0, y.min(height), width, lines.min(height.saturating_sub(y)));
        self.buffer.set_style(area, Style::new().add_modifier(Modifier::REVERSED));
    }

    /// Writes what somebody types, with a cursor: its end, if it is too long.
    pub(super) fn typed(&mut self, y: u16, label: &str, text: &str) {
        self.clear(y, 1);
        let (width, _) = self.size();
        let x = self.text((0, y), label, width, Tone::Strong);
        let left = usize::from(width.saturating_sub(x + 1));
        let text = harmless(text);
        let mut from = text.chars().count().saturating_sub(left);
        let mut end: String = text.chars().skip(from).collect();
        while usize::from(length(&end)) > left {
            from += 1;
            end = text.chars().skip(from).collect();
        }
        let x = self.text((x, y), &end, width, Tone::Plain);
        self.text((x, y), "▏", 1, Tone::Strong);
    }

    /// Empties lines.
    pub(super) fn clear(&mut self, y: u16, lines: u16) {
        let (width, height) = self.size();
        for y in y..y.saturating_add(lines).min(height) {
            for x in 0..width {
                self.buffer[(x, y)].reset();
            }
        }
    }
}

/// How many columns a text takes once it is harmless.
pub(super) fn length(text: &str) -> u16 {
    u16::try_from(Span::raw(harmless(text)).width()).unwrap_or(u16::MAX)
}

/// Cuts a harmless text to this many columns.
fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let (mut kept, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += Span::raw(c.to_string()).width();
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}

/// Breaks a text into lines of this many columns.
pub(super) fn wrapped(text: &str, width: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if length(line).saturating_add(1 + length(word)) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}
