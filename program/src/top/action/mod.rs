//! What somebody can do to what a row is about: in words, with the value that it asks for, and as an operation.

mod perform;

use std::time::Duration;

use streamfleet::job::{QueueName, Rate, Verdict};
use streamfleet_operations::{tasks, workers};

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
    Replay { queue: QueueName, group: String, letters: u64, canary: u64 },
    Decide { queue: QueueName, job: String, step: String, verdict: Verdict },
    Worker { name: String, order: workers::Order },
    Task { queue: QueueName, id: String, order: tasks::Order },
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
            _ => None,
        }
    }

    fn pause(subject: &Subject) -> Option<Self> {
        if let Subject::Task { queue, id, is_paused } = subject {
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
            Self::Resume { .. } | Self::Cancel { .. } | Self::Worker { .. } | Self::Task { .. } => None,
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
            Self::Resume { .. } | Self::Cancel { .. } | Self::Worker { .. } | Self::Task { .. } => {}
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
        Subject::Group { .. } | Subject::Worker { .. } | Subject::Task { .. } | Subject::Step { .. } => None,
    }
}

/// A gate in words.
fn named(queue: &QueueName, gate: &str) -> String {
    if gate == "queue" { format!("the queue {queue}") } else { format!("{gate} of the queue {queue}") }
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
        for key in ['c', 'r', 'd', 'D', 'x'] {
            assert_eq!(Action::of(key, &queue(false)), None, "{key}");
        }
        let job = Subject::Job {
            queue: "mail".parse().unwrap(),
            id: "order-7".to_owned(),
            job_type: "mail.send".to_owned(),
        };
        let of_type = Action::of('p', &job).unwrap();
        assert!(of_type.told().starts_with("Pause type:mail.send of the queue mail"), "{}", of_type.told());
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
