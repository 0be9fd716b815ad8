//! What somebody can do to what a row is about: in words, with the value that it asks for, and as an operation.

mod moving;
mod perform;

use std::time::Duration;

use streamfleet::job::{QueueName, Rate, Verdict};
use streamfleet_operations::{tasks, workers};

pub(super) use self::moving::Move;
pub(super) use self::perform::{Answer, Desk, Failure, perform};
use super::state::Subject;
use crate::times;

/// How many jobs of a group are replayed first, unless somebody wants more or fewer.
const CANARY: u64 = 5;

/// What to do, to what.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Pause { queue: QueueName, gate: String, time: Option<Duration>, is_sure: bool },
    Resume { queue: QueueName, gate: String },
    Limit { queue: QueueName, gate: String, limit: Limit },
    Cancel { queue: QueueName, id: String },
    ReplayJob { queue: QueueName, id: String, letter: String },
    Replay { queue: QueueName, group: String, letters: u64, canary: u64 },
    Decide { queue: QueueName, job: String, step: String, verdict: Verdict },
    Worker { name: String, order: workers::Order },
    Task { queue: QueueName, id: String, order: tasks::Order },
    UndoMove { queue: QueueName, id: String },
    UndoEdits { queue: QueueName, id: String, letter: String },
    Move(Box<Move>),
}

/// A limit of a gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Limit {
    /// The limits that somebody has set are removed.
    Cleared,
    AtOnce(u32),
    Rate(Rate),
}

impl Action {
    /// What a key does to this; `None` if nothing.
    pub(super) fn of(key: char, subject: &Subject) -> Option<Self> {
        match key {
            'p' => Self::pause(subject),
            'l' => {
                let (queue, gate, _) = gate(subject)?;
                Some(Self::Limit { queue, gate, limit: Limit::Cleared })
            }
            'c' => Self::stop(subject),
            'r' => Self::replay(subject),
            'd' => Self::decide(subject),
            'D' => Self::drain(subject),
            'u' => Self::undo(subject),
            _ => None,
        }
    }

    fn pause(subject: &Subject) -> Option<Self> {
        if let Subject::Task { queue, id, is_paused, .. } = subject {
            let order = if *is_paused { tasks::Order::Resume } else { tasks::Order::Pause };
            return Some(Self::Task { queue: queue.clone(), id: id.clone(), order });
        }
        let (queue, gate, is_paused) = gate(subject)?;
        Some(if is_paused {
            Self::Resume { queue, gate }
        } else {
            Self::Pause { queue, gate, time: None, is_sure: false }
        })
    }

    fn stop(subject: &Subject) -> Option<Self> {
        if let Subject::Task { queue, id, .. } = subject {
            return Some(Self::Task { queue: queue.clone(), id: id.clone(), order: tasks::Order::Stop });
        }
        let Subject::Job { queue, id, .. } = subject else { return None };
        Some(Self::Cancel { queue: queue.clone(), id: id.clone() })
    }

    fn replay(subject: &Subject) -> Option<Self> {
        if let Subject::Job { queue, id, letter, .. } = subject {
            let letter = letter.clone()?;
            return Some(Self::ReplayJob { queue: queue.clone(), id: id.clone(), letter });
        }
        let Subject::Group { queue, group, letters, .. } = subject else { return None };
        let (queue, group) = (queue.clone(), group.clone());
        Some(Self::Replay { queue, group, letters: *letters, canary: CANARY })
    }

    fn decide(subject: &Subject) -> Option<Self> {
        let Subject::Step { queue, job, step } = subject else { return None };
        let (queue, job, step) = (queue.clone(), job.clone(), step.clone());
        Some(Self::Decide { queue, job, step, verdict: Verdict::Run })
    }

    fn drain(subject: &Subject) -> Option<Self> {
        let Subject::Worker { name, drains } = subject else { return None };
        let order = if *drains { workers::Order::Resume } else { workers::Order::Drain { exit: false } };
        Some(Self::Worker { name: name.clone(), order })
    }

    fn undo(subject: &Subject) -> Option<Self> {
        if let Subject::Task { queue, id, has_moved: true, .. } = subject {
            return Some(Self::UndoMove { queue: queue.clone(), id: id.clone() });
        }
        let Subject::Job { queue, id, letter: Some(letter), is_edited: true, .. } = subject else {
            return None;
        };
        Some(Self::UndoEdits { queue: queue.clone(), id: id.clone(), letter: letter.clone() })
    }

    /// What it will do, for somebody who has to confirm it.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Pause { queue, gate, .. } => {
                format!("Pause {}: no further job starts, and running ones finish.", named(queue, gate))
            }
            Self::Resume { queue, gate } => format!("Resume {}: its jobs start again.", named(queue, gate)),
            Self::Limit { queue, gate, .. } => {
                format!(
                    "Limit {}, in the whole fleet. `none` removes what somebody has set.",
                    named(queue, gate)
                )
            }
            Self::Cancel { queue, id } => {
                format!("Cancel the job {id} of the queue {queue}. If it runs, it is asked to stop.")
            }
            Self::ReplayJob { queue, id, .. } => {
                format!("Replay the job {id} of the queue {queue}: it runs again, with its counters at zero.")
            }
            Self::Replay { queue, group, letters, .. } => format!(
                "Replay the {letters} dead letters of the group {group} of the queue {queue}. The rest follows only when the first ones \
                 have succeeded."
            ),
            Self::Decide { queue, job, step, .. } => format!(
                "Decide about the step {step} of the job {job} of {queue}. done: its work is done. run: run it again. give-up: it will \
                 not be done, and neither will the steps after it."
            ),
            Self::Worker { name, order: workers::Order::Drain { .. } } => {
                format!("Drain {name}: it takes no further job, and finishes what runs.")
            }
            Self::Worker { name, order: workers::Order::Resume } => format!("Let {name} take jobs again."),
            Self::UndoMove { queue, id } => format!(
                "Undo the task {id} of the queue {queue}: another task moves back what still waits or is due later. Jobs that have \
                 run stay."
            ),
            Self::UndoEdits { queue, id, .. } => {
                format!("Take back all edits of the dead letter of the job {id} of the queue {queue}.")
            }
            Self::Move(moved) => moved.told(),
            Self::Task { queue, id, order } => match order {
                tasks::Order::Pause => {
                    format!("Pause the task {id} of the queue {queue} until somebody resumes it.")
                }
                tasks::Order::Resume => format!("Resume the task {id} of the queue {queue}."),
                tasks::Order::Stop => {
                    format!("Stop the task {id} of the queue {queue} for good. What it has changed stays.")
                }
            },
        }
    }

    /// The value that it needs besides a reason, and what stands there at first; `None` if it needs none.
    pub(super) fn asks(&self) -> Option<(&'static str, String)> {
        match self {
            Self::Pause { .. } => Some(("for how long (empty: until somebody resumes)", String::new())),
            Self::Limit { .. } => Some(("100/s, 10 at once, or none", String::new())),
            Self::Replay { canary, .. } => Some(("how many first", canary.to_string())),
            Self::Decide { .. } => Some(("done, run or give-up", String::new())),
            Self::Worker { order: workers::Order::Drain { .. }, .. } => {
                Some(("exit, to end its process then (empty: it stays)", String::new()))
            }
            Self::Move(_) => Some(("to which queue", String::new())),
            Self::Resume { .. }
            | Self::Cancel { .. }
            | Self::ReplayJob { .. }
            | Self::Worker { order: workers::Order::Resume, .. }
            | Self::Task { .. }
            | Self::UndoMove { .. }
            | Self::UndoEdits { .. } => None,
        }
    }

    /// Sets the value as it was typed.
    ///
    /// # Errors
    ///
    /// Says what a valid value looks like.
    pub(super) fn set(&mut self, text: &str) -> Result<(), String> {
        let text = text.trim();
        match self {
            Self::Pause { time, .. } => {
                *time = if text.is_empty() { None } else { Some(times::duration(text)?) };
            }
            Self::Limit { limit, .. } => *limit = read_limit(text)?,
            Self::Replay { canary, .. } => {
                let wrong = |_: std::num::ParseIntError| {
                    "expected how many jobs must succeed before the others run, such as 5".to_owned()
                };
                *canary = text.parse::<u64>().map_err(wrong)?;
            }
            Self::Decide { verdict, .. } => *verdict = text.parse::<Verdict>()?,
            Self::Worker { order: workers::Order::Drain { exit }, .. } => *exit = read_exit(text)?,
            Self::Move(moved) => moved.set(text)?,
            Self::Resume { .. }
            | Self::Cancel { .. }
            | Self::ReplayJob { .. }
            | Self::Worker { order: workers::Order::Resume, .. }
            | Self::Task { .. }
            | Self::UndoMove { .. }
            | Self::UndoEdits { .. } => {}
        }
        Ok(())
    }

    /// Returns the action that is carried out although it is doubtful; `None` if nobody doubts such an action.
    pub(super) fn for_sure(&self) -> Option<Self> {
        let mut sure = self.clone();
        let Self::Pause { is_sure, .. } = &mut sure else { return None };
        *is_sure = true;
        Some(sure)
    }
}

/// The gate by which a row's jobs start, and whether it is known to be paused.
fn gate(subject: &Subject) -> Option<(QueueName, String, bool)> {
    match subject {
        Subject::Queue { queue, is_paused } => Some((queue.clone(), "queue".to_owned(), *is_paused)),
        Subject::Gate { queue, gate, is_paused } => Some((queue.clone(), gate.clone(), *is_paused)),
        Subject::Job { queue, job_type, .. } => Some((queue.clone(), format!("type:{job_type}"), false)),
        Subject::Group { queue, job_type: Some(job_type), .. } => {
            Some((queue.clone(), format!("type:{job_type}"), false))
        }
        Subject::Group { .. }
        | Subject::Worker { .. }
        | Subject::Task { .. }
        | Subject::Step { .. }
        | Subject::Sought { .. }
        | Subject::Past(_) => None,
    }
}

/// A gate in words.
fn named(queue: &QueueName, gate: &str) -> String {
    if gate == "queue" { format!("the queue {queue}") } else { format!("{gate} of the queue {queue}") }
}

/// Whether a process ends once it runs nothing.
fn read_exit(text: &str) -> Result<bool, String> {
    match text {
        "" => Ok(false),
        "exit" => Ok(true),
        _ => Err("expected exit, or nothing".to_owned()),
    }
}

fn read_limit(text: &str) -> Result<Limit, String> {
    if text == "none" {
        return Ok(Limit::Cleared);
    }
    if text.contains('/') {
        return text.parse::<Rate>().map(Limit::Rate).map_err(|error| error.to_string());
    }
    let jobs = text.strip_suffix("at once").unwrap_or(text).trim();
    let at_least_one = jobs.parse::<u32>().ok().filter(|jobs| *jobs > 0);
    at_least_one.map(Limit::AtOnce).ok_or_else(|| {
        "expected a rate such as 100/s, how many jobs may run at once, such as 10, or none".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(is_paused: bool) -> Subject {
        Subject::Queue { queue: "mail".parse().unwrap(), is_paused }
    }

    #[test]
    fn a_key_does_what_the_row_allows() {
        let paused = Action::of('p', &queue(true)).unwrap();
        assert!(paused.told().starts_with("Resume the queue mail"), "{}", paused.told());
        let mut pause = Action::of('p', &queue(false)).unwrap();
        pause.set("2h").unwrap();
        assert!(pause.set("soon").is_err());
        let Some(Action::Pause { time, is_sure: true, .. }) = pause.for_sure() else { panic!("{pause:?}") };
        assert_eq!(time, Some(Duration::from_secs(7200)));
        for key in ['c', 'r', 'd', 'D', 'u', 'x'] {
            assert_eq!(Action::of(key, &queue(false)), None, "{key}");
        }
        let job = Subject::Job {
            queue: "mail".parse().unwrap(),
            id: "order-7".to_owned(),
            job_type: "mail.send".to_owned(),
            letter: None,
            is_edited: false,
        };
        let of_type = Action::of('p', &job).unwrap();
        assert!(of_type.told().starts_with("Pause type:mail.send of the queue mail"), "{}", of_type.told());
        assert_eq!([Action::of('r', &job), Action::of('u', &job)], [None, None], "it is not dead");
    }

    #[test]
    fn a_dead_job_is_replayed_by_its_letter_and_only_edits_are_taken_back() {
        let job = |is_edited| Subject::Job {
            queue: "mail".parse().unwrap(),
            id: "order-7".to_owned(),
            job_type: "mail.send".to_owned(),
            letter: Some("1-0".to_owned()),
            is_edited,
        };
        let (queue, id, letter) = ("mail".parse().unwrap(), "order-7".to_owned(), "1-0".to_owned());
        assert_eq!(Action::of('r', &job(false)), Some(Action::ReplayJob { queue, id, letter }));
        assert_eq!(Action::of('u', &job(false)), None);
        let undo = Action::of('u', &job(true)).unwrap();
        assert!(undo.told().contains("all edits of the dead letter of the job order-7"), "{}", undo.told());
    }

    #[test]
    fn only_a_move_that_is_over_is_undone() {
        let task = |has_moved| Subject::Task {
            queue: "mail".parse().unwrap(),
            id: "0b5ff109".to_owned(),
            is_paused: false,
            has_moved,
        };
        let (queue, id) = ("mail".parse().unwrap(), "0b5ff109".to_owned());
        assert_eq!(Action::of('u', &task(true)), Some(Action::UndoMove { queue, id }));
        assert_eq!(Action::of('u', &task(false)), None);
    }

    #[test]
    fn a_process_ends_after_a_drain_only_if_somebody_says_so() {
        let worker = |drains| Subject::Worker { name: "web-3".to_owned(), drains };
        let mut drain = Action::of('D', &worker(false)).unwrap();
        assert!(drain.asks().is_some());
        for (text, ends) in [("exit", true), ("", false)] {
            drain.set(text).unwrap();
            let order = workers::Order::Drain { exit: ends };
            assert_eq!(drain, Action::Worker { name: "web-3".to_owned(), order }, "{text:?}");
        }
        assert!(drain.set("yes").is_err());
        assert_eq!(Action::of('D', &worker(true)).unwrap().asks(), None, "it takes jobs again");
    }

    #[test]
    fn a_limit_is_a_rate_a_number_or_none() {
        assert_eq!(read_limit("100/s"), Ok(Limit::Rate("100/s".parse().unwrap())));
        assert_eq!(
            [read_limit("10"), read_limit("10 at once")],
            [Ok(Limit::AtOnce(10)), Ok(Limit::AtOnce(10))]
        );
        assert_eq!(read_limit("none"), Ok(Limit::Cleared));
        for text in ["", "0", "-1", "fast", "1/"] {
            assert!(read_limit(text).is_err(), "{text}");
        }
    }
}
