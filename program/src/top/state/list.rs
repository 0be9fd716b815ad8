//! Moving among rows and places.

use streamfleet::job::QueueName;
use streamfleet_operations::dead;

use super::dialog::Dialog;
use super::line::Line;
use super::place::{Place, View};
use super::table::{Page, Subject};
use super::{Effect, MOST_BACK, Mode, State};
use crate::top::action::{Action, Move};
use crate::top::key::Key;

/// How many rows `PageUp` and `PageDown` pass.
const PASSED: usize = 10;

impl State {
    /// Takes a key that is about rows.
    pub(super) fn press_row(&mut self, key: Key) -> Option<Effect> {
        let last = self.page.rows.len().saturating_sub(1);
        match key {
            Key::Up | Key::Char('k') => self.select(self.selected.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select((self.selected + 1).min(last)),
            Key::PageUp => self.select(self.selected.saturating_sub(PASSED)),
            Key::PageDown => self.select((self.selected + PASSED).min(last)),
            Key::Home | Key::Char('g') => self.select(0),
            Key::End | Key::Char('G') => self.select(last),
            Key::Enter => return self.enter(),
            Key::Esc => return self.leave(),
            Key::Char(c) => return self.letter(c),
            Key::Ctrl(_) | Key::Tab | Key::Backspace => {}
        }
        None
    }

    fn letter(&mut self, c: char) -> Option<Effect> {
        match c {
            'q' if self.acting == 0 => return Some(Effect::Quit),
            'q' => self.told = ("an action has no answer yet: Ctrl-C quits all the same".to_owned(), true),
            '?' => self.mode = Mode::Help,
            '/' => self.mode = Mode::Filter(Line(self.place.filter.clone())),
            ':' => self.mode = Mode::Command(Line::default()),
            's' | 'o' => self.sort(),
            'm' => self.move_jobs(),
            'a' => return self.go(Place::new(View::Audit, self.place.queue.clone())),
            'n' => {
                let next = self.page.next.clone()?;
                return Some(self.turn(Some(next)));
            }
            'N' if self.place.after.is_some() => return Some(self.turn(None)),
            '0' if self.place.queue.is_some() => return self.go(Place::new(self.place.view, None)),
            '1'..='8' => {
                let view = View::LISTS[usize::from(c as u8 - b'1')];
                return self.go(Place::new(view, self.place.queue.clone()));
            }
            _ => self.act(c),
        }
        None
    }

    fn act(&mut self, key: char) {
        let Some(row) = self.row() else { return };
        match Action::of(key, &row.subject) {
            Some(action) => self.mode = Mode::Dialog(Box::new(Dialog::new(action, Vec::new()))),
            None if "plcrdDu".contains(key) => {
                self.told = (format!("{key} does nothing to this row: ? lists the keys"), true);
            }
            None => {}
        }
    }

    /// Asks where to move the jobs of a queue, or those of it that the filter matches.
    fn move_jobs(&mut self) {
        let moved = match (self.place.view, self.row().map(|row| &row.subject), &self.place.queue) {
            (View::Queues, Some(Subject::Queue { queue, .. }), _) => Move::new(queue.clone(), String::new()),
            (View::Jobs, _, Some(queue)) => Move::new(queue.clone(), self.place.filter.clone()),
            (View::Jobs, ..) => Err("choose a queue first, such as :jobs mail".to_owned()),
            _ => Err("m moves the jobs of a queue, or those of a filter: on the lists 1 and 2".to_owned()),
        };
        match moved {
            Ok(moved) => {
                let from = moved.from.as_str();
                let names = self.queues.iter().filter(|name| *name != from).cloned().collect();
                self.mode = Mode::Dialog(Box::new(Dialog::new(Action::Move(Box::new(moved)), names)));
            }
            Err(why) => self.told = (why, true),
        }
    }

    fn select(&mut self, row: usize) {
        self.selected = row;
        self.place.selected = self.row().map(|row| row.subject.clone());
    }

    /// Filters and sorts the page, and selects the row that was selected, wherever it is now.
    pub(super) fn arrange(&mut self) {
        let text = if self.place.view.is_searched() { "" } else { &self.place.filter };
        self.page.arrange(text, self.place.sort);
        let rows = &self.page.rows;
        let now = self.place.selected.as_ref().and_then(|was| {
            // All rows of a detail are about the same.
            let is_here = rows.get(self.selected).is_some_and(|row| row.subject.is_same(was));
            if is_here { Some(self.selected) } else { rows.iter().position(|row| row.subject.is_same(was)) }
        });
        let row = now.unwrap_or(self.selected).min(rows.len().saturating_sub(1));
        self.select(row);
    }

    /// Sorts by the next column: figures from the greatest, texts from the first. After the last column comes the order of the list.
    fn sort(&mut self) {
        let columns = self.page.columns;
        let next = self.place.sort.map_or(0, |(column, _)| column + 1);
        self.place.sort = columns.get(next).map(|column| (next, column.is_figure));
        if self.place.sort.is_none() {
            // The order of the list is that in which it is read.
            self.due = self.now;
        }
        self.arrange();
    }

    fn enter(&mut self) -> Option<Effect> {
        let subject = &self.row()?.subject;
        if matches!(subject, Subject::Group { group, .. } if group == dead::OTHER) {
            self.told =
                ("these letters belong to many groups, and cannot be listed together".to_owned(), true);
            return None;
        }
        if self.place.view == View::Detail {
            return None;
        }
        let below = Place::below(subject)?;
        self.go(below)
    }

    /// Goes to another place, from which Esc leads back.
    fn go(&mut self, place: Place) -> Option<Effect> {
        if self.back.len() == MOST_BACK {
            self.back.remove(0);
        }
        let here = std::mem::replace(&mut self.place, place);
        self.back.push(here);
        Some(self.arrive())
    }

    fn leave(&mut self) -> Option<Effect> {
        self.place = self.back.pop()?;
        Some(self.arrive())
    }

    /// Goes to another page of the list.
    fn turn(&mut self, after: Option<String>) -> Effect {
        (self.place.after, self.place.selected) = (after, None);
        self.arrive()
    }

    /// Reads the place where somebody has come to. What was said elsewhere is over.
    fn arrive(&mut self) -> Effect {
        self.told.0.clear();
        (self.page, self.selected, self.is_read) = (Page::default(), 0, false);
        self.look()
    }

    pub(super) fn filter(&mut self, text: String) -> Option<Effect> {
        if let Some(id) = text.strip_prefix("id=").filter(|id| !id.contains(' '))
            && matches!(self.place.view, View::Jobs | View::Running)
        {
            return self.go(Place::of_job(self.place.queue.clone(), id));
        }
        if let Err(why) = self.place.view.check(&text) {
            self.told = (why, true);
            self.mode = Mode::Filter(Line(text));
            return None;
        }
        (self.place.filter, self.place.after) = (text, None);
        Some(self.arrive())
    }

    pub(super) fn command(&mut self, text: &str) -> Option<Effect> {
        let (name, queue) = text.split_once(' ').unwrap_or((text, ""));
        if !name.is_empty() && ["quit", "q"].contains(&name) {
            return self.letter('q');
        }
        if name == "job" && !queue.trim().is_empty() {
            let (id, queue) = queue.trim().split_once(' ').unwrap_or((queue.trim(), ""));
            let place = self.queue_typed(queue).map(|queue| Place::of_job(queue, id));
            return place.and_then(|place| self.go(place));
        }
        let view = View::LISTS.into_iter().find(|view| !name.is_empty() && view.name().starts_with(name));
        let Some(view) = view else {
            let names = View::LISTS.map(View::name).join(", ");
            self.told = (format!("`{name}` is none of {names}, job ID, quit"), true);
            return None;
        };
        let place = self.queue_typed(queue).map(|queue| Place::new(view, queue));
        place.and_then(|place| self.go(place))
    }

    /// The queue that somebody has typed, or else the one of this place. `None` if it cannot be the name of a queue, which is told.
    fn queue_typed(&mut self, text: &str) -> Option<Option<QueueName>> {
        match text.trim() {
            "" => Some(self.place.queue.clone()),
            text => match text.parse::<QueueName>() {
                Ok(queue) => Some(Some(queue)),
                Err(error) => {
                    self.told = (error.to_string(), true);
                    None
                }
            },
        }
    }
}
