//! What each view looks like on a small and on a large terminal.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;

use crate::top::key::Key;
use crate::top::read::columns;
use crate::top::state::{Cell, Event, Page, Place, Row, State, Subject, Usage, View};

/// The sizes on which every view must be usable.
const SIZES: [(u16, u16); 2] = [(60, 15), (120, 40)];

/// A state that shows rows of a view. Texts and figures stand where the columns have them.
fn state(view: View, rows: Vec<Row>) -> State {
    let mut state =
        State::new("redis://127.0.0.1:6379".to_owned(), "ann@ops-1".to_owned(), Duration::from_secs(2));
    state.update(Event::Time(Duration::ZERO));
    state.place = Place::new(view, None);
    let remark = format!("{} rows were read", rows.len());
    let memory = if view == View::Queues {
        vec![Usage { node: String::new(), used: 300 << 20, most: Some(1 << 30) }]
    } else {
        Vec::new()
    };
    state.update(Event::Read(1, Ok(Page { columns: columns(view), rows, next: None, remark, memory })));
    state
}

/// A row with a cell for each column, by its heading.
fn row(view: View, subject: Subject, cells: &[(&str, &str)], note: &str) -> Row {
    let cell = |heading: &str| {
        let found = cells.iter().find(|(name, _)| *name == heading);
        Cell::from(found.map_or("7", |(_, text)| *text))
    };
    let cells = columns(view).iter().map(|column| cell(column.heading)).collect();
    Row { subject, cells, note: note.to_owned() }
}

/// Rows of each list, with texts that somebody chose who means harm.
fn rows(view: View) -> Vec<Row> {
    let queue = || "mail".parse().unwrap();
    let evil = "bad\u{1b}[2J\u{202e}gnp.exe";
    match view {
        View::Queues => [("mail", "168,000", "23h 20m", "▁▂▃▅▆▆▇███"), ("bulk", "0", "empty", "▁▁▁▁▁▁▁▁▁▁")]
            .into_iter()
            .map(|(name, waiting, empty_in, trend)| {
                let cells =
                    [("queue", name), ("waiting", waiting), ("empty in", empty_in), ("last 30m", trend)];
                let note =
                    if name == "mail" { "168,000 held by type:mail.newsletter (2/s): 23h 20m" } else { "" };
                let subject = Subject::Queue { queue: name.parse().unwrap(), is_paused: false };
                row(view, subject, &cells, note)
            })
            .collect(),
        View::Jobs | View::Running => (0..30)
            .map(|nth| {
                let id = format!("order-{nth}");
                let state = if nth % 2 == 0 { "running" } else { "dead" };
                let cells =
                    [("job", id.as_str()), ("type", "mail.send"), ("state", state), ("where", "web-3")];
                let job_type = "mail.send".to_owned();
                let subject =
                    Subject::Job { queue: queue(), id: id.clone(), job_type, letter: None, is_edited: false };
                row(view, subject, &cells, if nth == 1 { evil } else { "" })
            })
            .collect(),
        View::Dead => {
            let cells =
                [("type", "mail.send"), ("queue", "mail"), ("reason", "exhausted"), ("last", "5m ago")];
            let (group, job_type) = ("0b5ff10951f305e7".to_owned(), None);
            let subject = Subject::Group { queue: queue(), group, job_type, letters: 13_200 };
            vec![row(view, subject, &cells, "SMTPException: 550 the relay refuses the sender")]
        }
        View::Workers => {
            let subject = Subject::Worker { name: "web-3-4711-0b5ff109".to_owned(), drains: true };
            let cells = [("worker", "web-3-4711-0b5ff109"), ("state", "draining"), ("version", "0.1.0")];
            vec![row(view, subject, &cells, "asked to drain by bob: its disk is failing")]
        }
        View::Gates => gates(),
        View::Tasks => {
            let id = "t1".to_owned();
            let subject = Subject::Task { queue: queue(), id, is_paused: false, has_moved: false };
            let cells = [("kind", "replay"), ("state", "stopped"), ("filter", "--group 0b5ff10951f305e7")];
            vec![row(view, subject, &cells, "2 of 5 died again of the error of their group")]
        }
        View::Audit => {
            let cells = [("at", "09:30:00"), ("who", "ann"), ("action", "gates set"), ("target", evil)];
            vec![row(view, Subject::Past("1-0".to_owned()), &cells, "the relay is slow")]
        }
        View::Detail => {
            let subject = Subject::Worker { name: "web-3".to_owned(), drains: false };
            [["state", "running"], ["types", evil]]
                .map(|fact| Row {
                    subject: subject.clone(),
                    cells: fact.map(Cell::from).to_vec(),
                    note: String::new(),
                })
                .to_vec()
        }
    }
}

/// A gate that is shut, and one that holds many jobs.
fn gates() -> Vec<Row> {
    let gate = |gate: &str, state, limits, note| {
        let queue = "mail".parse().unwrap();
        let subject = Subject::Gate { queue, gate: gate.to_owned(), is_paused: state == "paused" };
        row(View::Gates, subject, &[("gate", gate), ("state", state), ("limits", limits)], note)
    };
    let holding = "168,000 wait for 2/s, set by bob: the relay is slow";
    vec![
        gate("type:mail.send", "paused", "10 at once, 100/s", "paused by ann: the relay is down"),
        gate("type:mail.newsletter", "holding", "2/s", holding),
    ]
}

fn drawn(state: &State, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| super::draw(state, frame.buffer_mut(), true)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn every_view_fits_a_small_and_a_large_terminal() {
    for view in View::LISTS.into_iter().chain([View::Detail]) {
        for size in SIZES {
            let shown = drawn(&state(view, rows(view)), size);
            assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
            assert!(shown.contains(view.name()) && shown.contains("? help"), "{shown}");
            insta::assert_snapshot!(format!("{}-{}x{}", view.name(), size.0, size.1), shown);
        }
    }
}

#[test]
fn a_dialog_says_what_it_does_and_who_and_asks_why() {
    let mut state = state(View::Queues, rows(View::Queues));
    for key in ['p', '2', 'h'].map(Key::Char).into_iter().chain([Key::Enter, Key::Char('x')]) {
        state.update(Event::Key(key));
    }
    for size in SIZES {
        let shown = drawn(&state, size);
        for part in ["Pause the queue mail", "by ann@ops-1", "2h", "reason: x"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        insta::assert_snapshot!(format!("dialog-{}x{}", size.0, size.1), shown);
    }
}

#[test]
fn the_dialog_of_a_move_shows_the_queues_that_a_name_may_be() {
    let mut state = state(View::Queues, rows(View::Queues));
    state.update(Event::Key(Key::Char('m')));
    for size in SIZES {
        let shown = drawn(&state, size);
        for part in ["Move the jobs of the queue mail", "to which queue: ", "  bulk ", "Tab completes"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }
}

#[test]
fn stale_figures_are_grey_below_a_banner_that_says_for_how_long() {
    let mut state = state(View::Queues, rows(View::Queues));
    state.update(Event::Time(Duration::from_secs(12)));
    state.update(Event::Read(2, Err("cannot reach redis".to_owned())));
    let shown = drawn(&state, SIZES[0]);
    assert!(shown.contains("stale for 12s: cannot reach redis"), "{shown}");
    let mut buffer = Buffer::empty(Rect::new(0, 0, 60, 15));
    super::draw(&state, &mut buffer, true);
    assert_eq!(buffer[(0, 4)].fg, Color::DarkGray, "{shown}");
    let mut plain = Buffer::empty(Rect::new(0, 0, 60, 15));
    super::draw(&state, &mut plain, false);
    assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset), "nobody wants colors");
}

#[test]
fn the_help_fits_a_small_terminal_and_a_tiny_one_says_so() {
    let mut state = state(View::Queues, Vec::new());
    state.update(Event::Key(Key::Char('?')));
    let shown = drawn(&state, SIZES[0]);
    assert!(super::HELP.iter().all(|line| shown.contains(line)), "{shown}");
    assert!(drawn(&state, (20, 5)).contains("too small"));
}

#[test]
fn the_selected_row_is_always_visible() {
    let mut state = state(View::Jobs, rows(View::Jobs));
    for key in [Key::End, Key::Up, Key::Home, Key::PageDown] {
        state.update(Event::Key(key));
        let id = state.row().unwrap().cells[0].text.clone();
        let shown = drawn(&state, SIZES[0]);
        assert!(shown.contains(&format!("\"{id} ")), "{id}: {shown}");
    }
}
