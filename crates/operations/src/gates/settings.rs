//! Who set the limits of gates, and why: the audit has it, rules do not.

use streamfleet::Queue;
use streamfleet_engine::admin::{Action, grouped};

use super::Gate;
use crate::{Error, GATES_SET};

/// How many notes of the audit are read. Of limits that were set before, it is only known that somebody has set them.
const NOTES: u64 = 200;

/// Who set the limits of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Who.
    pub by: String,
    /// Why; may be empty.
    pub reason: String,
}

/// Who set the limits of a queue's gates lately.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Settings(Vec<Action>);

/// Reads who set the limits of a queue's gates, from its last 200 notes.
///
/// # Errors
///
/// [`Error::Redis`].
pub async fn settings(queue: &Queue) -> Result<Settings, Error> {
    let notes = queue.audit().recent(None, NOTES).await.map_err(Error::redis("failed to read the audit"))?;
    let notes = notes.into_iter().map(|note| note.action);
    Ok(Settings(notes.filter(|action| action.what == GATES_SET.name).collect()))
}

impl Settings {
    /// Returns who set the limits that a gate has; `None` if that is not known, or they are those of a configuration. A last note about
    /// other limits is of an earlier time: what set these wrote none.
    pub fn of(&self, gate: &Gate) -> Option<Setting> {
        let wanted = format!("{}: {}", gate.gate, gate.limits());
        let about = format!("{}: ", gate.gate);
        let last = self.0.iter().find(|note| note.target.starts_with(&about))?;
        let is_it = gate.source == Some("command") && last.target == wanted;
        is_it.then(|| Setting { by: last.who.clone(), reason: last.why.clone() })
    }

    /// Returns what an open gate does to the jobs that wait for it, and who wanted that; `None` if none wait or it is not open.
    pub fn holding(&self, gate: &Gate) -> Option<String> {
        if gate.shown_state() != "holding" {
            return None;
        }
        let by = match (self.of(gate), gate.source) {
            (Some(Setting { by, reason }), _) if reason.is_empty() => format!("set by {by}"),
            (Some(Setting { by, reason }), _) => format!("set by {by}: {reason}"),
            (None, Some("command")) => "set by somebody".to_owned(),
            (None, Some(_) | None) => "by the configuration".to_owned(),
        };
        Some(format!("{} wait for {}, {by}", grouped(gate.waiting), gate.limits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_note_about_a_gate_counts_and_only_if_it_is_about_the_limits_that_it_has() {
        let note = |who: &str, target: &str| Action::new("gates set", who).target(target).why("slow");
        let notes = vec![
            note("bob", "type:mail: 10/s"),
            note("cy", "type:mail.send: 2/s"),
            note("ann", "type:mail.send: 5/s"),
        ];
        let gate = |rate: &str, source| Gate {
            gate: "type:mail.send".to_owned(),
            rate: Some(rate.to_owned()),
            source: Some(source),
            ..Gate::default()
        };
        let settings = Settings(notes);
        let want = Setting { by: "cy".to_owned(), reason: "slow".to_owned() };
        assert_eq!(settings.of(&gate("2/s", "command")), Some(want));
        assert_eq!(settings.of(&gate("5/s", "command")), None, "these were set after that");
        assert_eq!(settings.of(&gate("2/s", "config")), None, "nobody has set them");
        let holding =
            |rate, source| settings.holding(&Gate { state: "open", waiting: 168_000, ..gate(rate, source) });
        assert_eq!(holding("2/s", "command").unwrap(), "168,000 wait for 2/s, set by cy: slow");
        assert_eq!(holding("2/s", "config").unwrap(), "168,000 wait for 2/s, by the configuration");
        assert_eq!(settings.holding(&Gate { state: "open", ..gate("2/s", "command") }), None);
    }
}
