//! What keys, time and answers do to the state.

use super::*;

const EVERY: Duration = Duration::from_secs(2);

/// A state that shows these queues.
fn state(queues: &[&str]) -> State {
    let mut state = State::new("redis://here".to_owned(), "ann@ops-1".to_owned(), EVERY);
    let effect = state.update(Event::Time(Duration::ZERO));
    assert_eq!(effect, Some(Effect::Read(1, Place::new(View::Queues, None))));
    read(&mut state, queues);
    state
}

/// Answers the last read.
fn read(state: &mut State, queues: &[&str]) {
    const COLUMNS: &[Column] = &[Column::text("queue", 0), Column::figure("waiting", 0)];
    let row = |(nth, name): (usize, &&str)| Row {
        subject: Subject::Queue { queue: name.parse().unwrap(), is_paused: false },
        cells: vec![Cell::from(*name), Cell::count(nth as u64)],
        note: String::new(),
    };
    let rows = queues.iter().enumerate().map(row).collect();
    let page = Page { columns: COLUMNS, rows, ..Page::default() };
    let number = state.number;
    assert_eq!(state.update(Event::Read(number, Ok(page))), None);
}

fn press(state: &mut State, keys: &str) -> Option<Effect> {
    keys.chars().fold(None, |_, key| {
        state.update(Event::Key(match key {
            '\n' => Key::Enter,
            '\u{1b}' => Key::Esc,
            '\t' => Key::Tab,
            key => Key::Char(key),
        }))
    })
}

fn selected(state: &State) -> &str {
    state.row().map_or("", |row| row.cells[0].text.as_str())
}

#[test]
fn the_selection_stays_on_its_row_when_rows_move() {
    let mut state = state(&["bulk", "mail", "report"]);
    press(&mut state, "j");
    assert_eq!(selected(&state), "mail");
    read(&mut state, &["alarm", "bulk", "mail"]);
    assert_eq!(selected(&state), "mail");
    read(&mut state, &["alarm", "bulk"]);
    assert_eq!(selected(&state), "bulk", "its row is gone");
    read(&mut state, &[]);
    assert_eq!(selected(&state), "");
    assert_eq!(press(&mut state, "jkGp\n"), None, "no row, nothing to do");
}

#[test]
fn rows_are_sorted_by_each_column_in_turn() {
    let mut state = state(&["mail", "bulk", "report"]);
    let order =
        |state: &State| state.page.rows.iter().map(|row| row.cells[0].text.clone()).collect::<Vec<_>>();
    press(&mut state, "s");
    assert_eq!(order(&state), ["bulk", "mail", "report"]);
    press(&mut state, "s");
    assert_eq!(order(&state), ["report", "bulk", "mail"], "the greatest figure first");
    press(&mut state, "s");
    assert_eq!(state.place.sort, None);
    assert!(matches!(state.update(Event::Time(Duration::ZERO)), Some(Effect::Read(..))));
}

#[test]
fn an_action_asks_for_a_value_and_a_reason_and_is_carried_out_once() {
    let mut state = state(&["mail"]);
    assert_eq!(press(&mut state, "p2h\nthe relay is down"), None);
    let effect = press(&mut state, "\n");
    let queue = || "mail".parse().unwrap();
    let pause = |is_sure| {
        let time = Some(Duration::from_secs(7200));
        Action::Pause { queue: queue(), gate: "queue".to_owned(), time, is_sure }
    };
    assert_eq!(effect, Some(Effect::Act(pause(false), "the relay is down".to_owned())));
    assert_eq!((state.mode.clone(), state.acting), (Mode::Rows, 1));
    assert_eq!(press(&mut state, "q"), None, "its answer is not there yet");

    // Another person has paused it.
    let doubt = Failure::Confirm(pause(true), "bob has already paused it".to_owned());
    state.update(Event::Acted(Err(doubt), "the relay is down".to_owned()));
    let effect = press(&mut state, "\n");
    assert_eq!(effect, Some(Effect::Act(pause(true), "the relay is down".to_owned())));
    let effect = state.update(Event::Acted(Ok("queue of mail is paused".to_owned()), String::new()));
    assert!(matches!(effect, Some(Effect::Read(..))), "what it has changed is read at once: {effect:?}");
    assert_eq!(state.told.0, "queue of mail is paused");
    assert_eq!(press(&mut state, "q"), Some(Effect::Quit));
}

#[test]
fn nothing_is_done_with_a_wrong_value_or_after_esc() {
    let mut state = state(&["mail"]);
    assert_eq!(press(&mut state, "psoon\n\n"), None);
    let Mode::Dialog(dialog) = &state.mode else { panic!("{:?}", state.mode) };
    assert!(dialog.warning.contains("duration"), "{}", dialog.warning);
    assert_eq!(press(&mut state, "\u{1b}"), None);
    assert_eq!((state.mode.clone(), state.acting), (Mode::Rows, 0));
    assert_eq!(press(&mut state, "c"), None, "a queue cannot be cancelled");
    assert!(state.told.1, "{:?}", state.told);
}

#[test]
fn enter_goes_down_and_esc_comes_back_to_the_same_row() {
    let mut state = state(&["bulk", "mail"]);
    let effect = press(&mut state, "j\n");
    let Some(Effect::Read(number, place)) = effect else { panic!("{effect:?}") };
    assert_eq!((place.view, place.queue), (View::Jobs, Some("mail".parse().unwrap())));
    let late = state.update(Event::Read(number - 1, Err("what nobody waits for any more".to_owned())));
    assert_eq!((late, state.stale()), (None, None));
    assert!(matches!(press(&mut state, "4"), Some(Effect::Read(_, place)) if place.queue.is_some()));
    press(&mut state, "\u{1b}");
    assert_eq!(state.place.view, View::Jobs);
    press(&mut state, "\u{1b}");
    read(&mut state, &["alarm", "bulk", "mail"]);
    assert_eq!(selected(&state), "mail");
    assert_eq!(press(&mut state, "\u{1b}"), None, "nothing is above");
}

#[test]
fn figures_are_stale_after_an_error_or_without_an_answer_until_they_are_read_again() {
    let mut state = state(&["mail"]);
    let effect = state.update(Event::Time(EVERY));
    assert!(matches!(effect, Some(Effect::Read(..))), "{effect:?}");
    assert_eq!(state.update(Event::Time(EVERY * 2)), None, "the read before has no answer yet");
    assert_eq!(state.stale(), None);
    let late = EVERY + PATIENCE;
    state.update(Event::Time(late));
    assert_eq!(state.stale(), Some((late, "")));
    let number = state.number;
    let effect = state.update(Event::Read(number, Err("Redis is away".to_owned())));
    assert!(matches!(effect, Some(Effect::Read(..))), "tries again: {effect:?}");
    assert_eq!(state.stale(), Some((late, "Redis is away")));
    assert_eq!(selected(&state), "mail", "the last figures stay");
    read(&mut state, &["mail"]);
    assert_eq!(state.stale(), None);
}

#[test]
fn a_filter_of_jobs_is_checked_before_it_is_used_and_other_lists_are_searched_here() {
    let mut state = state(&["bulk", "mail"]);
    press(&mut state, "/AI\n");
    read(&mut state, &["bulk", "mail"]);
    assert_eq!((selected(&state), state.page.rows.len()), ("mail", 1));
    press(&mut state, "2/state=gone");
    assert_eq!(press(&mut state, "\n"), None);
    assert!(state.told.0.contains("a state must be one of"), "{:?}", state.told);
    assert!(matches!(state.mode, Mode::Filter(_)), "what was typed is not lost");
    let effect = press(&mut state, "\u{1b}/state=dead\n");
    assert!(matches!(&effect, Some(Effect::Read(_, place)) if place.filter == "state=dead"), "{effect:?}");
}

#[test]
fn pages_follow_each_other() {
    let mut state = state(&["mail"]);
    press(&mut state, "2");
    assert_eq!(press(&mut state, "n"), None, "no page was read");
    let page = Page { next: Some("mail/dead:1-0".to_owned()), ..Page::default() };
    let number = state.number;
    state.update(Event::Read(number, Ok(page)));
    let effect = press(&mut state, "n");
    let is_next = |place: &Place| place.after.as_deref() == Some("mail/dead:1-0");
    assert!(matches!(&effect, Some(Effect::Read(_, place)) if is_next(place)), "{effect:?}");
    assert_eq!(press(&mut state, "n"), None);
    assert!(matches!(press(&mut state, "N"), Some(Effect::Read(_, place)) if place.after.is_none()));
}

#[test]
fn commands_are_names_of_lists() {
    let mut state = state(&["mail"]);
    let effect = press(&mut state, ":ta mail\n");
    assert!(matches!(&effect, Some(Effect::Read(_, place)) if place.view == View::Tasks), "{effect:?}");
    assert_eq!(state.place.queue, Some("mail".parse().unwrap()));
    assert!(press(&mut state, "0").is_some() && state.place.queue.is_none());
    for wrong in [":\n", ":x\n", ":jobs No!\n"] {
        assert_eq!(press(&mut state, wrong), None, "{wrong}");
        assert!(state.told.1, "{wrong}");
    }
    assert_eq!(press(&mut state, ":q\n"), Some(Effect::Quit));
    assert_eq!(state.update(Event::Key(Key::Ctrl('z'))), Some(Effect::Suspend));
}

#[test]
fn a_move_takes_the_queue_or_the_filter_and_names_are_completed() {
    let mut state = state(&["bulk", "bulk-2", "mail"]);
    press(&mut state, "G");
    press(&mut state, "mb\t");
    let typed = |state: &State| {
        let Mode::Dialog(dialog) = &state.mode else { panic!("{:?}", state.mode) };
        dialog.value.clone().unwrap().1.0
    };
    assert_eq!(typed(&state), "bulk");
    press(&mut state, "-\t");
    assert_eq!(typed(&state), "bulk-2");
    let effect = press(&mut state, "\nit delays the others\n");
    let Some(Effect::Act(Action::Move(moved), reason)) = effect else { panic!("{effect:?}") };
    assert_eq!((moved.from.as_str(), &*reason), ("mail", "it delays the others"));
    let plan = Failure::Confirm(Action::Move(moved), "no live worker knows it".to_owned());
    state.update(Event::Acted(Err(plan), reason));
    let effect = press(&mut state, "\n");
    assert!(matches!(&effect, Some(Effect::Act(Action::Move(_), why)) if why == "it delays the others"));

    press(&mut state, "2");
    assert_eq!(press(&mut state, "m"), None);
    assert!(state.told.0.contains("choose a queue first"), "{:?}", state.told);
    press(&mut state, ":jobs mail\n");
    press(&mut state, "/type=mail.*\n");
    press(&mut state, "m");
    assert!(
        matches!(&state.mode, Mode::Dialog(dialog) if dialog.action.told().contains("match type=mail.*"))
    );
}

#[test]
fn a_job_is_looked_for_by_its_id_and_the_audit_has_a_key() {
    let mut state = state(&["mail"]);
    let sought = |effect: Option<Effect>| match effect {
        Some(Effect::Read(_, Place { about: Some(Subject::Sought { queue, id }), .. })) => (queue, id),
        other => panic!("{other:?}"),
    };
    let (queue, id) = sought(press(&mut state, ":job order-7\n"));
    assert_eq!((queue, &*id, &*state.place.title()), (None, "order-7", "job order-7"));
    let (queue, id) = sought(press(&mut state, ":job order-8 mail\n"));
    assert_eq!((queue.unwrap().as_str(), &*id), ("mail", "order-8"));
    press(&mut state, ":jobs mail\n");
    let (queue, id) = sought(press(&mut state, "/id=order-9\n"));
    assert_eq!((queue.unwrap().as_str(), &*id), ("mail", "order-9"));
    press(&mut state, "a");
    assert_eq!(state.place.view, View::Audit);
    press(&mut state, "/since=soon\n");
    assert!(state.told.0.starts_with("since=soon"), "{:?}", state.told);
    let effect = press(&mut state, "\u{1b}/who=ann\n");
    assert!(matches!(&effect, Some(Effect::Read(_, place)) if place.filter == "who=ann"), "{effect:?}");
}
