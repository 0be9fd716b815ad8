//! `streamfleet audit`: what people did, newest first: to queues, which queues they deleted, and about incidents.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use streamfleet::Broker;
use streamfleet::job::{QueueName, Timestamp};
use streamfleet_engine::admin::{Action, AuditCursor, AuditPage, AuditSearch, AuditSource, PastAction};

use super::Context;
use super::exit::Exit;
use super::output::{self, Column, List, Listing, Repeat, View};
use super::queues;
use super::times::{self, Bound, Clock, rfc3339};

/// What the error says if Redis fails.
const FAILED: &str = "failed to read the audit";

/// How `audit` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet audit
  streamfleet audit --since 1d --who ann --action 'dead replay'
  streamfleet audit --queue mail --limit 10 -o wide
  streamfleet audit --since '2026-12-01 18:00' --until '2026-12-02 06:00' -o jsonl
  streamfleet audit --deletions
  streamfleet audit --alerts";

/// The arguments of `audit`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only actions on this queue; may be repeated. Default: on all queues, deletions of queues, and actions on incidents.
    #[arg(long, short)]
    queue: Vec<QueueName>,
    /// Only who deleted which queues.
    #[arg(long, conflicts_with = "queue")]
    deletions: bool,
    /// Only who acknowledged which incidents.
    #[arg(long, conflicts_with_all = ["queue", "deletions"])]
    alerts: bool,
    #[command(flatten)]
    wanted: Wanted,
    /// The maximum number of actions. About the last 10,000 of a queue are kept.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Start after this action, to get the next page.
    #[arg(long, value_name = "ENTRY")]
    after: Option<AuditCursor>,
    #[command(flatten)]
    repeat: Repeat,
}

/// Which actions are wanted.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Wanted {
    /// Only actions since this time, or so long ago, such as 1d.
    #[arg(long, value_name = "TIME", value_parser = times::bound)]
    pub(crate) since: Option<Bound>,
    /// Only actions before this time, or more than so long ago.
    #[arg(long, value_name = "TIME", value_parser = times::bound)]
    pub(crate) until: Option<Bound>,
    /// Only actions of people with this in their names.
    #[arg(long, value_name = "TEXT")]
    pub(crate) who: Option<String>,
    /// Only actions that begin with these words, such as `dead` or `dead replay`.
    #[arg(long, value_name = "WORDS")]
    pub(crate) action: Option<String>,
    /// Only actions with this in what they were done to, such as the id of a job or the name of a gate.
    #[arg(long, value_name = "TEXT")]
    pub(crate) target: Option<String>,
}

/// A page of actions, for JSON output. `next` is the value of `--after` for the next page.
pub(crate) type Page = List<Noted, Facts>;

/// What is known about all actions, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AuditFacts)]
pub(crate) struct Facts {
    /// The queue, if the actions on one queue are listed; else `null`.
    queue: Option<String>,
    /// The audits that could not be read, and why; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<String>,
    #[serde(skip)]
    none: &'static str,
}

/// One action, for JSON output.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AuditNote)]
pub(crate) struct Noted {
    entry: String,
    at: String,
    at_ms: u64,
    who: String,
    what: String,
    /// The queue; `null` if the action deleted one, or was about an incident.
    queue: Option<String>,
    /// A filter, or ids.
    target: String,
    /// How many jobs it concerned.
    count: Option<u64>,
    why: String,
    /// How it ended. Empty in the note that was made before it began.
    outcome: String,
    #[serde(skip)]
    time: Timestamp,
}

/// Lists the actions.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let is_all = args.queue.is_empty() && !args.deletions && !args.alerts;
    let look = async || {
        let (mut sources, mut missing) = (queues_of(&args.queue), Vec::new());
        if is_all {
            let listed = broker.queues().await.context("failed to list the queues")?;
            (sources, missing) = (queues_of(&listed.found), listed.missing);
        }
        sources.extend((is_all || args.deletions).then_some(AuditSource::Deletions));
        sources.extend((is_all || args.alerts).then_some(AuditSource::Alerts));
        let (after, limit) = (args.after.clone(), args.limit);
        let search = AuditSearch { sources, after, limit, most: u64::MAX, ..AuditSearch::default() };
        let page = find(&broker, search, &args.wanted, &context.clock, str::to_owned).await?;
        if let ([], [queue]) = (&page.items[..], &args.queue[..])
            && queues::report_unknown(&broker, queue, context).await
        {
            return Ok(Listing::not_found());
        }
        let names = |page: &Page| page.items.iter().map(|noted| noted.entry.clone()).collect();
        let text = context.output.rendered(&page, names, |page| show(page, &context.clock))?;
        let next = page.next.filter(|_| context.output.is_items_only());
        let next = next.map(|next| format!("next page: --after {next}"));
        let remarks = page.facts.unread.into_iter().chain(next);
        Ok(remarks.fold(Listing::new(text), Listing::remark).without(&missing))
    };
    args.repeat.run(context.output, look).await
}

fn queues_of(names: &[QueueName]) -> Vec<AuditSource> {
    names.iter().cloned().map(AuditSource::Queue).collect()
}

/// Finds actions. `shown` returns what a person may see of a target: nothing is found by the rest.
pub(crate) async fn find(
    broker: &Broker,
    search: AuditSearch,
    wanted: &Wanted,
    clock: &Clock,
    shown: impl Fn(&str) -> String,
) -> anyhow::Result<Page> {
    let (since, until) = span(broker, wanted, clock).await?;
    let search = AuditSearch { since, until, ..search };
    let fits = |past: &PastAction| wanted.fits(&past.action, &shown);
    let found = broker.search_audit(&search, fits).await.context(FAILED)?;
    Ok(page(found, &search.sources))
}

/// When the wanted time begins and ends.
async fn span(
    broker: &Broker,
    wanted: &Wanted,
    clock: &Clock,
) -> anyhow::Result<(Option<Timestamp>, Option<Timestamp>)> {
    let bounds = [wanted.since, wanted.until];
    let now = if bounds.iter().flatten().any(|bound| matches!(bound, Bound::Ago(_))) {
        let any = "default".parse().expect("default is a valid queue name");
        broker.queue(any).clock().await.context("failed to ask for the time")?
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
fn page(found: AuditPage, sources: &[AuditSource]) -> Page {
    let AuditPage { actions, next, unread } = found;
    let unread = unread.iter().map(|(source, error)| format!("the audit {source} was not read: {error}"));
    let (queue, none) = match sources {
        [AuditSource::Queue(name)] => (Some(name.to_string()), ""),
        [AuditSource::Deletions] => (None, "no queue was deleted"),
        [AuditSource::Alerts] => (None, "nobody acknowledged an incident"),
        _ => (None, "nothing is noted"),
    };
    // An audit alone needs no name in its cursor.
    let is_one = sources.len() == 1;
    let next = next.map(|next| if is_one { next.entry.to_string() } else { next.to_string() });
    let facts = Facts { queue, unread: unread.collect(), none };
    Page { items: actions.into_iter().map(noted).collect(), next, facts, former: None }
}

fn noted((source, past): (AuditSource, PastAction)) -> Noted {
    let time = past.at();
    let PastAction { entry, action, .. } = past;
    Noted {
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
        time,
    }
}

fn show(page: &Page, clock: &Clock) -> View {
    let Facts { queue, none, .. } = &page.facts;
    if page.items.is_empty() {
        let of_queue = queue.as_ref().map(|queue| format!("nothing is noted about the queue {queue}"));
        let none = of_queue.unwrap_or_else(|| (*none).to_owned());
        return match &page.next {
            Some(next) => format!("{none} so far; next page: --after {next}").into(),
            None => none.into(),
        };
    }
    let mut table = output::table(&[
        Column::from("at"),
        Column::from("who"),
        Column::from("what"),
        // One that was asked for is in every row.
        if queue.is_some() { Column::wide("queue") } else { Column::from("queue") },
        Column::from("jobs"),
        Column::from("outcome"),
        Column::from("why"),
        Column::from("target"),
    ]);
    for noted in &page.items {
        table.add_row([
            clock.time(noted.time),
            noted.who.clone(),
            noted.what.clone(),
            noted.queue.clone().unwrap_or_default(),
            noted.count.map_or_else(String::new, |count| count.to_string()),
            noted.outcome.clone(),
            noted.why.clone(),
            noted.target.clone(),
        ]);
    }
    let more = page.next.as_ref().map_or_else(String::new, |next| format!("; next page: --after {next}"));
    View::from(table).then(format!("{} actions{more}", page.items.len()))
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
