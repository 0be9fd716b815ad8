//! What people did, newest first: to queues, which queues they deleted, and about incidents.

use std::time::Duration;

use serde::Serialize;
use streamfleet::Broker;
use streamfleet::job::Timestamp;
use streamfleet_engine::admin::{Action, AuditPage, AuditSearch, AuditSource, PastAction};

use crate::times::{Bound, Clock, rfc3339};
use crate::{Error, List};

/// Which actions are wanted. Without a condition, all of them.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Only actions since this time.
    pub since: Option<Bound>,
    /// Only actions before this time.
    pub until: Option<Bound>,
    /// Only actions of people with this in their names, regardless of case.
    pub who: Option<String>,
    /// Only actions that begin with these words, such as `dead` or `dead replay`.
    pub action: Option<String>,
    /// Only actions with this in what they were done to, regardless of case.
    pub target: Option<String>,
}

/// A page of actions.
pub type AuditList = List<AuditNote, AuditFacts>;

/// What is known about all actions of a page.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct AuditFacts {
    /// The queue, if the actions on one queue are listed; else `null`.
    pub queue: Option<String>,
    /// The audits that could not be read, and why; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

/// One action.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[non_exhaustive]
pub struct AuditNote {
    /// The entry of the note.
    pub entry: String,
    /// When it was noted.
    pub at: String,
    /// When it was noted, in milliseconds since 1970.
    pub at_ms: u64,
    /// Who did it.
    pub who: String,
    /// What was done: the name of an operation.
    pub what: String,
    /// The queue; `null` if the action deleted one, or was about an incident.
    pub queue: Option<String>,
    /// A filter, or ids.
    pub target: String,
    /// How many jobs it concerned.
    pub count: Option<u64>,
    /// Why.
    pub why: String,
    /// How it ended. Empty in the note that was made before it began.
    pub outcome: String,
}

/// Finds actions in these audits. `shown` returns what a person may see of a target: nothing is found by the rest. A page may have few
/// actions, or none, although there are more.
///
/// # Errors
///
/// [`Error::Redis`] if no audit can be read.
pub async fn find(
    broker: &Broker,
    search: AuditSearch,
    wanted: &Wanted,
    clock: &Clock,
    shown: impl Fn(&str) -> String,
) -> Result<AuditList, Error> {
    let (since, until) = span(broker, wanted, clock).await?;
    let search = AuditSearch { since, until, ..search };
    let fits = |past: &PastAction| wanted.fits(&past.action, &shown);
    let found = broker.search_audit(&search, fits).await.map_err(Error::redis("failed to read the audit"))?;
    Ok(page(found, &search.sources))
}

/// When the wanted time begins and ends.
async fn span(
    broker: &Broker,
    wanted: &Wanted,
    clock: &Clock,
) -> Result<(Option<Timestamp>, Option<Timestamp>), Error> {
    let bounds = [wanted.since, wanted.until];
    let now = if bounds.iter().flatten().any(|bound| matches!(bound, Bound::Ago(_))) {
        let any = "default".parse().expect("default is a valid queue name");
        broker.queue(any).clock().await.map_err(Error::redis("failed to ask for the time"))?
    } else {
        Timestamp::MAX
    };
    let ago = |age: Duration| {
        let ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_ms(now.as_ms().saturating_sub(ms)).unwrap_or_default()
    };
    let [since, until] = bounds.map(|bound| match bound? {
        Bound::At(moment) => Some(clock.instant(moment)),
        Bound::Ago(age) => Some(ago(age)),
    });
    Ok((since, until))
}

impl Wanted {
    /// Whether somebody wants to see an action.
    fn fits(&self, action: &Action, shown: impl Fn(&str) -> String) -> bool {
        let has = |wanted: &Option<String>, text: &str| {
            wanted.as_ref().is_none_or(|wanted| text.to_lowercase().contains(&wanted.to_lowercase()))
        };
        let begins = |words: &String| {
            let rest = action.what.strip_prefix(words.trim());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        has(&self.who, &action.who)
            && self.action.as_ref().is_none_or(begins)
            && (self.target.is_none() || has(&self.target, &shown(&action.target)))
    }
}

/// A page of these audits.
fn page(found: AuditPage, sources: &[AuditSource]) -> AuditList {
    let AuditPage { actions, next, unread } = found;
    let unread = unread.iter().map(|(source, error)| format!("the audit {source} was not read: {error}"));
    let queue = match sources {
        [AuditSource::Queue(name)] => Some(name.to_string()),
        _ => None,
    };
    // An audit alone needs no name in its cursor.
    let is_one = sources.len() == 1;
    let next = next.map(|next| if is_one { next.entry.to_string() } else { next.to_string() });
    let facts = AuditFacts { queue, unread: unread.collect() };
    List { items: actions.into_iter().map(AuditNote::of).collect(), next, facts, former: None }
}

impl AuditNote {
    fn of((source, past): (AuditSource, PastAction)) -> Self {
        let time = past.at();
        let PastAction { entry, action, .. } = past;
        Self {
            entry: entry.to_string(),
            at: rfc3339(time),
            at_ms: time.as_ms(),
            who: action.who,
            what: action.what,
            queue: match source {
                AuditSource::Queue(name) => Some(name.to_string()),
                AuditSource::Deletions | AuditSource::Alerts => None,
            },
            target: action.target,
            count: action.count,
            why: action.why,
            outcome: action.outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_found_by_its_person_its_words_and_its_target() {
        let action = Action::new("dead replay", "Ann@ops").target("order-7 order-8");
        let fits = |wanted: Wanted| wanted.fits(&action, str::to_owned);
        assert!(fits(Wanted::default()));
        for (who, is_found) in [("ann", true), ("bob", false)] {
            assert_eq!(fits(Wanted { who: Some(who.to_owned()), ..Wanted::default() }), is_found, "{who}");
        }
        for (words, is_found) in
            [("dead", true), ("dead replay", true), ("dead re", false), ("replay", false)]
        {
            let wanted = Wanted { action: Some(words.to_owned()), ..Wanted::default() };
            assert_eq!(fits(wanted), is_found, "{words}");
        }
        let wanted = Wanted { target: Some("order-8".to_owned()), ..Wanted::default() };
        assert!(wanted.fits(&action, str::to_owned) && !wanted.fits(&action, |_| "***".to_owned()));
    }
}
