//! Where somebody is: a view of something, with a filter.

use streamfleet::job::{GateName, QueueName, State};
use streamfleet_engine::admin::Filter;

use super::noted::noted;
use super::table::{Sort, Subject};
use crate::filter::Conditions;

/// The kinds of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::top) enum View {
    Queues,
    Jobs,
    Running,
    Dead,
    Workers,
    Gates,
    Tasks,
    Audit,
    /// One job, worker or task.
    Detail,
}

impl View {
    /// The lists, in the order of their keys, from 1.
    pub(in crate::top) const LISTS: [Self; 8] = [
        Self::Queues,
        Self::Jobs,
        Self::Running,
        Self::Dead,
        Self::Workers,
        Self::Gates,
        Self::Tasks,
        Self::Audit,
    ];

    /// Its name: that of a command, too.
    pub(in crate::top) fn name(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Jobs => "jobs",
            Self::Running => "running",
            Self::Dead => "dead",
            Self::Workers => "workers",
            Self::Gates => "gates",
            Self::Tasks => "tasks",
            Self::Audit => "audit",
            Self::Detail => "detail",
        }
    }

    /// Whether it is about one queue or about all.
    fn has_queue(self) -> bool {
        !matches!(self, Self::Queues | Self::Workers)
    }

    /// Whether Redis is asked only for what the filter matches.
    pub(in crate::top) fn is_searched(self) -> bool {
        matches!(self, Self::Jobs | Self::Running | Self::Audit)
    }

    /// Says what is wrong with a filter.
    pub(super) fn check(self, filter: &str) -> Result<(), String> {
        match self {
            Self::Jobs | Self::Running => conditions(filter).map(drop),
            Self::Audit => noted(filter).map(drop),
            Self::Queues | Self::Dead | Self::Workers | Self::Gates | Self::Tasks | Self::Detail => Ok(()),
        }
    }
}

/// A place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::top) struct Place {
    pub(in crate::top) view: View,
    /// Only this queue, if there is one.
    pub(in crate::top) queue: Option<QueueName>,
    /// What a detail is about.
    pub(in crate::top) about: Option<Subject>,
    /// The filter as the person typed it; may be empty.
    pub(in crate::top) filter: String,
    /// Where the page begins, if it is not the first one.
    pub(in crate::top) after: Option<String>,
    pub(in crate::top) sort: Option<Sort>,
    /// The row that is selected, once there is one.
    pub(in crate::top) selected: Option<Subject>,
}

impl Place {
    pub(in crate::top) fn new(view: View, queue: Option<QueueName>) -> Self {
        let queue = queue.filter(|_| view.has_queue());
        Self { view, queue, about: None, filter: String::new(), after: None, sort: None, selected: None }
    }

    /// The page of a job that somebody looks for by its id.
    pub(super) fn of_job(queue: Option<QueueName>, id: &str) -> Self {
        let about = Some(Subject::Sought { queue, id: id.to_owned() });
        Self { about, ..Self::new(View::Detail, None) }
    }

    /// The place to which Enter on a row leads, if it leads anywhere.
    pub(in crate::top) fn below(subject: &Subject) -> Option<Self> {
        let jobs =
            |queue: &QueueName, filter: String| Self { filter, ..Self::new(View::Jobs, Some(queue.clone())) };
        let detail = || Self { about: Some(subject.clone()), ..Self::new(View::Detail, None) };
        match subject {
            Subject::Queue { queue, .. } => Some(jobs(queue, String::new())),
            Subject::Group { queue, group, .. } => Some(jobs(queue, format!("state=dead group={group}"))),
            // Only what can be typed as a condition.
            Subject::Gate { gate: name, .. } if name.contains(char::is_whitespace) || gate(name).is_err() => {
                None
            }
            Subject::Gate { queue, gate, .. } => Some(jobs(queue, format!("gate={gate}"))),
            Subject::Job { .. } | Subject::Worker { .. } | Subject::Task { .. } => Some(detail()),
            Subject::Step { .. } | Subject::Sought { .. } | Subject::Past(_) => None,
        }
    }

    /// The title: what is shown, and which part of it.
    pub(in crate::top) fn title(&self) -> String {
        let about = match &self.about {
            Some(Subject::Job { queue, id, .. } | Subject::Sought { queue: Some(queue), id }) => {
                format!("job {id} of {queue}")
            }
            Some(Subject::Sought { queue: None, id }) => format!("job {id}"),
            Some(Subject::Worker { name, .. }) => format!("worker {name}"),
            Some(Subject::Task { queue, id, .. }) => format!("task {id} of {queue}"),
            Some(_) | None => {
                let queue = self.queue.as_ref().map_or_else(String::new, |queue| format!(" of {queue}"));
                format!("{}{queue}", self.view.name())
            }
        };
        let filter = if self.filter.is_empty() { String::new() } else { format!(" /{}", self.filter) };
        format!("{about}{filter}")
    }
}

/// Which jobs a filter means.
#[derive(Debug, Default)]
pub(in crate::top) struct Sought {
    /// In these states, if there are any.
    pub(in crate::top) states: Vec<State>,
    pub(in crate::top) filter: Filter,
    pub(in crate::top) worker: Option<String>,
    pub(in crate::top) gate: Option<GateName>,
}

/// Reads a filter of jobs: the conditions of the command line by their names, such as `type=mail.*` or `state=dead,retrying`, conditions
/// about the payload or a header, such as `payload.customer=9`, `gate=` and `worker=`, and other words, which the payload or the error
/// must contain.
///
/// # Errors
///
/// Says which word is wrong, and why.
pub(in crate::top) fn conditions(text: &str) -> Result<Sought, String> {
    const NAMES: [&str; 10] =
        ["type", "text", "error", "id_prefix", "since", "until", "older_than", "reason", "kind", "group"];
    let (mut sought, mut conditions, mut words) = (Sought::default(), Conditions::default(), Vec::new());
    for word in text.split_whitespace() {
        let read = match word.split_once('=') {
            _ if word.starts_with("payload.") || word.starts_with("h.") => conditions.set("where", word),
            Some(("state", names)) => states(names).map(|states| sought.states.extend(states)),
            Some(("gate", name)) => gate(name).map(|gate| sought.gate = Some(gate)),
            Some(("worker", name)) => {
                sought.worker = Some(name.to_owned());
                Ok(())
            }
            Some((name, value)) if NAMES.contains(&name) => conditions.set(name, value),
            Some(_) | None => {
                words.push(word);
                Ok(())
            }
        };
        read.map_err(|why| format!("{word}: {why}"))?;
    }
    if !words.is_empty() {
        conditions.set("text", &words.join(" "))?;
    }
    sought.filter = conditions.filter().map_err(|wrong| wrong.to_string())?;
    if sought.states.is_empty() {
        // Conditions that only jobs in one state fulfil.
        sought.states.extend((!conditions.letters.is_empty()).then_some(State::Dead));
        sought.states.extend(sought.worker.as_ref().map(|_| State::Running));
    }
    Ok(sought)
}

fn states(names: &str) -> Result<Vec<State>, String> {
    names.split(',').map(crate::jobs::state).collect()
}

fn gate(name: &str) -> Result<GateName, String> {
    name.parse::<GateName>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_jobs_has_the_conditions_of_the_command_line() {
        let sought = conditions("state=dead,retrying type=mail.* payload.customer=9 relay down").unwrap();
        assert_eq!(sought.states, [State::Dead, State::Retrying]);
        let shown = sought.filter.to_string();
        for part in ["mail.*", "payload.customer=9", "relay down"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(conditions("").unwrap().filter.is_empty());
        let held = conditions("gate=type:mail.send worker=web-3").unwrap();
        assert_eq!(held.gate.unwrap().as_str(), "type:mail.send");
        assert_eq!((held.worker.as_deref(), &held.states[..]), (Some("web-3"), &[State::Running][..]));
        for wrong in ["state=gone", "older_than=soon", "kind=x", "gate=x"] {
            assert!(conditions(wrong).unwrap_err().starts_with(wrong), "{wrong}");
        }
    }
}
