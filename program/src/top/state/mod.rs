//! What `top` knows and shows. Keys, time, and what was read change it, and it says what to do next. Pure: no clock, no Redis, no
//! terminal.

mod dialog;
mod line;
mod list;
mod memory;
mod noted;
mod place;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub(super) use self::dialog::Dialog;
pub(super) use self::line::{Line, Told};
pub(super) use self::memory::{Memory, Usage};
pub(super) use self::noted::noted;
pub(super) use self::place::{Place, Sought, View, conditions};
pub(super) use self::table::{Cell, Column, Page, Row, Subject};
use super::action::{Action, Answer, Failure};
use super::key::Key;

/// After so long without an answer, figures are stale, and no answer was due that late.
const PATIENCE: Duration = Duration::from_secs(3);

/// How many places Esc leads back to, at most.
const MOST_BACK: usize = 50;

/// What happens.
#[derive(Debug)]
pub(super) enum Event {
    Key(Key),
    /// So long has `top` been running.
    Time(Duration),
    /// What a fetch of this number has read.
    Read(u64, Result<Page, String>),
    /// What became of an action, and the reason for which it was wanted.
    Acted(Answer, String),
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Effect {
    /// To read a place, and report it under this number. What is still being read is not needed any more.
    Read(u64, Place),
    /// To act, for this reason.
    Act(Action, String),
    /// To stop the process until somebody lets it go on.
    Suspend,
    Quit,
}

/// What keys mean.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Mode {
    Rows,
    Help,
    Filter(Line),
    Command(Line),
    Dialog(Box<Dialog>),
}

/// The state.
#[derive(Debug)]
pub(super) struct State {
    /// Where Redis is, and who acts: for the first line and the dialog.
    pub(super) address: String,
    pub(super) who: String,
    pub(super) place: Place,
    back: Vec<Place>,
    pub(super) page: Page,
    pub(super) selected: usize,
    /// Whether the page was read since somebody came to the place.
    pub(super) is_read: bool,
    pub(super) mode: Mode,
    /// What the servers of Redis use, and used lately.
    pub(super) memory: Memory,
    /// The queues that were listed last: for those who type a name.
    queues: Vec<String>,
    /// The last answer, and whether it is an error; may be empty.
    pub(super) told: (String, bool),
    /// How many actions have no answer yet.
    pub(super) acting: usize,
    every: Duration,
    now: Duration,
    /// When the figures were read last.
    read_at: Duration,
    /// Why they could not be read since; may be empty.
    failure: String,
    /// The number of the last fetch, and whether it has no answer yet.
    number: u64,
    is_reading: bool,
    due: Duration,
}

impl State {
    /// Begins with the queues, which are read again and again after this time.
    pub(super) fn new(address: String, who: String, every: Duration) -> Self {
        Self {
            address,
            who,
            place: Place::new(View::Queues, None),
            back: Vec::new(),
            page: Page::default(),
            selected: 0,
            is_read: false,
            mode: Mode::Rows,
            memory: Memory::default(),
            queues: Vec::new(),
            told: (String::new(), false),
            acting: 0,
            every,
            now: Duration::ZERO,
            read_at: Duration::ZERO,
            failure: String::new(),
            number: 0,
            is_reading: false,
            due: Duration::ZERO,
        }
    }

    /// Takes what has happened, and returns what to do.
    pub(super) fn update(&mut self, event: Event) -> Option<Effect> {
        match event {
            Event::Key(key) => return self.press(key),
            Event::Time(now) => self.now = now,
            Event::Read(number, read) if number == self.number => self.read(read),
            Event::Read(..) => {}
            Event::Acted(answer, reason) => self.acted(answer, reason),
        }
        (!self.is_reading && self.now >= self.due).then(|| self.look())
    }

    /// For how long the figures have been stale, and why; `None` if they are not.
    pub(super) fn stale(&self) -> Option<(Duration, &str)> {
        let age = self.now.saturating_sub(self.read_at);
        let is_late = self.is_reading && age >= self.every + PATIENCE;
        (!self.failure.is_empty() || is_late).then_some((age, self.failure.as_str()))
    }

    /// The row that is selected.
    pub(super) fn row(&self) -> Option<&Row> {
        self.page.rows.get(self.selected)
    }

    fn look(&mut self) -> Effect {
        self.number += 1;
        self.is_reading = true;
        self.due = self.now + self.every;
        Effect::Read(self.number, self.place.clone())
    }

    fn read(&mut self, read: Result<Page, String>) {
        self.is_reading = false;
        match read {
            Ok(page) => {
                (self.read_at, self.is_read) = (self.now, true);
                self.failure.clear();
                self.page = page;
                self.learn();
                self.arrange();
            }
            Err(why) => self.failure = why,
        }
    }

    /// Keeps what other places need of the queues.
    fn learn(&mut self) {
        if self.place.view != View::Queues {
            return;
        }
        let name = |row: &Row| {
            if let Subject::Queue { queue, .. } = &row.subject { Some(queue.to_string()) } else { None }
        };
        self.queues = self.page.rows.iter().filter_map(name).collect();
        self.memory.note(std::mem::take(&mut self.page.memory), self.now);
    }

    fn acted(&mut self, answer: Answer, reason: String) {
        self.acting = self.acting.saturating_sub(1);
        match answer {
            Ok(told) => {
                self.told = (told, false);
                self.due = self.now;
            }
            Err(Failure::Error(why)) => self.told = (why, true),
            // Nobody loses what they are typing.
            Err(Failure::Confirm(action, warning)) if self.mode == Mode::Rows => {
                self.mode = Mode::Dialog(Box::new(Dialog::again(action, warning, Line(reason))));
            }
            Err(Failure::Confirm(action, _)) => {
                self.told = (format!("not confirmed, nothing was done: {}", action.told()), true);
            }
        }
    }

    fn press(&mut self, key: Key) -> Option<Effect> {
        if key == Key::Ctrl('z') {
            return Some(Effect::Suspend);
        }
        if key == Key::Ctrl('c') {
            return Some(Effect::Quit);
        }
        let mut mode = std::mem::replace(&mut self.mode, Mode::Rows);
        match &mut mode {
            Mode::Rows => return self.press_row(key),
            // Any key leaves the help.
            Mode::Help => return None,
            Mode::Filter(line) => match line.typed(key) {
                Told::Nothing => {}
                Told::Cancelled => return None,
                Told::Done(text) => return self.filter(text),
            },
            Mode::Command(line) => match line.typed(key) {
                Told::Nothing => {}
                Told::Cancelled => return None,
                Told::Done(text) => return self.command(&text),
            },
            Mode::Dialog(dialog) => match dialog.press(key) {
                Told::Nothing => {}
                Told::Cancelled => {
                    self.told = ("nothing was done".to_owned(), false);
                    return None;
                }
                Told::Done((action, reason)) => {
                    self.acting += 1;
                    self.told = (String::new(), false);
                    return Some(Effect::Act(action, reason));
                }
            },
        }
        self.mode = mode;
        None
    }
}
