//! What a check has seen, in texts that are bounded and hide nothing: people read them in chats and terminals.

use super::{Incident, IncidentExample, IncidentKind};
use crate::job::{QueueName, Timestamp, cut};

/// The most bytes of what an incident is about, besides its kind and queue.
const MAX_KEY_BYTES: usize = 128;

/// The most bytes of a text of an incident.
pub(crate) const MAX_TEXT_BYTES: usize = 300;

/// The most bytes of the id of a job in an incident.
const MAX_JOB_BYTES: usize = 128;

/// What a check has seen: something is wrong now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) kind: IncidentKind,
    pub(crate) queue: Option<QueueName>,
    pub(crate) key: String,
    /// Since when.
    pub(crate) since: Timestamp,
    /// How many jobs it concerns …
    pub(crate) count: u64,
    /// … and whether these come in addition to those known before.
    pub(crate) adds: bool,
    pub(crate) job_type: String,
    pub(crate) detail: String,
    pub(crate) example: Option<IncidentExample>,
}

impl Observation {
    pub(crate) fn new(kind: IncidentKind, queue: Option<&QueueName>, since: Timestamp) -> Self {
        Self {
            kind,
            queue: queue.cloned(),
            key: String::new(),
            since,
            count: 0,
            adds: false,
            job_type: String::new(),
            detail: String::new(),
            example: None,
        }
    }

    /// Sets what it is about, besides the kind and the queue.
    pub(crate) fn key(self, key: &str) -> Self {
        Self { key: plain_line(key, MAX_KEY_BYTES), ..self }
    }

    /// Sets how many jobs it concerns.
    pub(crate) fn count(self, count: u64) -> Self {
        Self { count, ..self }
    }

    /// Sets what is wrong, as one sentence without a full stop.
    pub(crate) fn detail(self, detail: &str) -> Self {
        Self { detail: plain_line(detail, MAX_TEXT_BYTES), ..self }
    }

    /// Sets a job that shows it, and its type.
    pub(crate) fn example(self, job_type: &str, example: IncidentExample) -> Self {
        Self { job_type: plain_line(job_type, MAX_KEY_BYTES), example: Some(example), ..self }
    }
}

impl IncidentKind {
    /// Returns the most incidents of this kind that a queue may have open at a time; the others share one.
    pub(crate) fn most_per_queue(self) -> usize {
        match self {
            Self::DeadGroup | Self::CampaignStopped => 5,
            Self::DeadJob | Self::UnservedType | Self::RedisMemory => 20,
            Self::DeadRate | Self::Backlog | Self::NoWorker | Self::NeedsDecision | Self::QueuePaused => 1,
        }
    }
}

impl IncidentExample {
    pub(crate) fn new(job: &str, error: &str) -> Self {
        Self { job: plain_line(job, MAX_JOB_BYTES), error: plain_line(error, MAX_TEXT_BYTES) }
    }
}

impl Incident {
    /// Returns true if it is about this.
    pub(crate) fn is_about(&self, kind: IncidentKind, queue: Option<&QueueName>, key: &str) -> bool {
        self.kind == kind && self.queue.as_ref() == queue && self.key == key
    }
}

/// Returns a text as one line of at most `max` bytes. What it shows is what it contains: it has neither control characters nor
/// those that change the direction of writing or have no width.
pub(crate) fn plain_line(text: &str, max: usize) -> String {
    let is_hidden = |c: char| matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let mut line = String::new();
    for c in text.chars() {
        let is_space = c.is_whitespace() || c.is_control() || is_hidden(c);
        match (is_space, line.ends_with(' ') || line.is_empty()) {
            (false, _) => line.push(c),
            (true, false) => line.push(' '),
            (true, true) => {}
        }
        // The rest would be cut anyway.
        if line.len() > max {
            break;
        }
    }
    cut(line.trim_end().to_owned(), max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_hides_nothing() {
        assert_eq!(plain_line("a\nb\u{1b}[2J \u{202e}c\t ", 100), "a b [2J c");
        assert_eq!(plain_line("\u{200b}", 100), "");
    }

    proptest! {
        #[test]
        fn any_line_is_bounded_and_plain(text in any::<String>(), max in 10_usize..400) {
            let line = plain_line(&text, max);
            prop_assert!(line.len() <= max, "{}", line.len());
            prop_assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}
