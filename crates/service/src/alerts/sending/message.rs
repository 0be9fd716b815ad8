//! What a message says, before a sink gives it the form of its medium. All texts are plain lines: nothing in them is markup.

use crate::job::incident::line::plain_line;
use crate::job::incident::{Incident, IncidentKind, IncidentState};
use crate::job::{Namespace, Timestamp};

/// The most incidents that a message describes one by one.
pub(super) const MOST_LISTED: usize = 15;

/// The most bytes of one line of a message about several incidents.
const LINE_BYTES: usize = 200;

/// Why a message about an incident is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    Opened,
    Reminder,
    Resolved,
}

impl Reason {
    pub(super) fn of(incident: &Incident) -> Self {
        match (incident.state, incident.notices) {
            (IncidentState::Resolved, _) => Self::Resolved,
            (IncidentState::Pending | IncidentState::Open, 0 | 1) => Self::Opened,
            (IncidentState::Pending | IncidentState::Open, _) => Self::Reminder,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Reminder => "reminder",
            Self::Resolved => "resolved",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Opened => "OPEN",
            Self::Reminder => "STILL OPEN",
            Self::Resolved => "RESOLVED",
        }
    }
}

/// One incident in a message.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) reason: Reason,
    pub(super) incident: Incident,
}

/// A message about one incident, about several, or a test.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// A name that is the same if the message is sent again.
    pub(super) name: String,
    /// One line.
    pub(super) title: String,
    /// Further lines.
    pub(super) lines: Vec<String>,
    /// The page of the console about it.
    pub(super) link: Option<String>,
    /// What it is about, for programs.
    pub(super) items: Vec<Item>,
    /// How many incidents it is about beyond those.
    pub(super) left_out: usize,
    pub(super) namespace: String,
}

/// What all messages of a process have in common.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    pub(super) namespace: Namespace,
    pub(super) console_url: Option<String>,
}

impl Sender {
    /// Returns the message about these incidents, of which there is at least one.
    pub(super) fn message(&self, incidents: &[Incident], now: Timestamp) -> Message {
        let mut items: Vec<Item> = incidents
            .iter()
            .map(|incident| Item { reason: Reason::of(incident), incident: incident.clone() })
            .collect();
        let left_out = items.len().saturating_sub(MOST_LISTED);
        items.truncate(MOST_LISTED);
        let (title, lines, link) = match &items[..] {
            [one] if left_out == 0 => (self.title(one), self.facts(one, now), self.link(Some(&one.incident))),
            _ => (self.titles(incidents), summary(&items, left_out, now), self.link(None)),
        };
        Message {
            name: name_of(incidents),
            title,
            lines,
            link,
            items,
            left_out,
            namespace: self.namespace.to_string(),
        }
    }

    /// Returns a message that only shows that messages arrive.
    pub(super) fn test(&self, sink: &str, now: Timestamp) -> Message {
        Message {
            name: format!("test-{}", now.as_ms()),
            title: format!("[{}] TEST: a message to the sink {sink}", self.namespace),
            lines: vec![
                "Nothing is wrong. Somebody ran `streamfleet alerts test`.".to_owned(),
                format!("Sent: {}", shown(now)),
            ],
            link: self.link(None),
            items: Vec::new(),
            left_out: 0,
            namespace: self.namespace.to_string(),
        }
    }

    fn title(&self, item: &Item) -> String {
        let heading = item.reason.heading();
        format!("[{}] {heading}: {}{}", self.namespace, item.incident.kind.title(), of_queue(&item.incident))
    }

    fn titles(&self, incidents: &[Incident]) -> String {
        let count = |reason| incidents.iter().filter(|incident| Reason::of(incident) == reason).count();
        let parts =
            [(Reason::Opened, "new"), (Reason::Reminder, "still open"), (Reason::Resolved, "resolved")];
        let parts =
            parts.map(|(reason, what)| (count(reason), what)).into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        format!("[{}] {} incidents: {}", self.namespace, incidents.len(), parts.join(", "))
    }

    /// What, where, since when, how many, an example, and where to look.
    fn facts(&self, item: &Item, now: Timestamp) -> Vec<String> {
        let incident = &item.incident;
        let mut lines = vec![format!("What: {}", incident.detail)];
        let mut place = format!("namespace {}", self.namespace);
        place.extend(incident.queue.iter().map(|queue| format!(", queue {queue}")));
        if !incident.job_type.is_empty() {
            place.push_str(&format!(", type {}", incident.job_type));
        }
        lines.push(format!("Where: {place}"));
        lines.push(format!("Since: {} ({} ago)", shown(incident.since), age(incident.since, now)));
        lines.extend(incident.resolved.map(|resolved| format!("Resolved: {}", shown(resolved))));
        if incident.count > 0 {
            lines.push(format!("Jobs: {}", incident.count));
        }
        if let Some(example) = &incident.example {
            let job = if example.job.is_empty() { "a job" } else { &example.job };
            lines.push(format!("Example: {job}: {}", example.error));
        }
        lines.push(format!("Look: {}", incident.command()));
        if item.reason != Reason::Resolved {
            lines.push(format!("Silence: streamfleet alerts ack {} --for 2h --reason TEXT", incident.id));
        }
        lines
    }

    fn link(&self, incident: Option<&Incident>) -> Option<String> {
        let base = self.console_url.as_ref()?.trim_end_matches('/');
        Some(incident.map_or_else(
            || format!("{base}/incidents"),
            |incident| format!("{base}/incidents/{}", incident.id),
        ))
    }
}

impl Message {
    /// Returns the message as plain text, cut to this many bytes between two lines, so that the link stays.
    pub(super) fn text(&self, most: usize) -> String {
        const CUT: &str = "…";
        let link = self.link.as_ref().map_or_else(String::new, |link| format!("\n{link}"));
        let mut text = plain_line(&self.title, most.saturating_sub(link.len()).max(1));
        for line in &self.lines {
            if text.len() + 1 + line.len() + 1 + CUT.len() + link.len() > most {
                text.push('\n');
                text.push_str(CUT);
                break;
            }
            text.push('\n');
            text.push_str(line);
        }
        text + &link
    }
}

/// Describes each incident by one line.
fn summary(items: &[Item], left_out: usize, now: Timestamp) -> Vec<String> {
    let line = |item: &Item| {
        let incident = &item.incident;
        let count = if incident.count > 0 { format!(" ({} jobs)", incident.count) } else { String::new() };
        let line = format!(
            "{} {}{}{count}, for {}: {}",
            item.reason.heading(),
            incident.kind.title(),
            of_queue(incident),
            age(incident.since, now),
            incident.detail
        );
        plain_line(&line, LINE_BYTES)
    };
    let mut lines: Vec<String> = items.iter().map(line).collect();
    if left_out > 0 {
        lines.push(format!("and {left_out} more"));
    }
    lines.push("Look: streamfleet alerts list".to_owned());
    lines
}

fn of_queue(incident: &Incident) -> String {
    let between = if incident.kind == IncidentKind::QueuePaused { ":" } else { " in" };
    incident.queue.as_ref().map_or_else(String::new, |queue| format!("{between} {queue}"))
}

fn name_of(incidents: &[Incident]) -> String {
    let names: Vec<String> =
        incidents.iter().map(|incident| format!("{}.{}", incident.id, incident.notices)).collect();
    match &names[..] {
        [one] => one.clone(),
        many => format!("{}+{}", many.first().map_or("", String::as_str), many.len().saturating_sub(1)),
    }
}

/// A time in UTC.
pub(super) fn shown(time: Timestamp) -> String {
    let ms = i64::try_from(time.as_ms()).unwrap_or(i64::MAX);
    format!("{:.0}", jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX))
}

fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.since(since).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..172_800 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::job::incident::{IncidentExample, IncidentId};
    use proptest::prelude::*;

    pub(in crate::alerts) fn sender() -> Sender {
        let console_url = Some("https://jobs.example.com/".to_owned());
        Sender { namespace: "sf".parse().unwrap(), console_url }
    }

    pub(in crate::alerts) fn incident(roll: u32, error: &str) -> Incident {
        let since = Timestamp::from_ms(1_700_000_000_000).unwrap();
        Incident {
            id: IncidentId::of(roll),
            kind: IncidentKind::DeadGroup,
            queue: Some("mail".parse().unwrap()),
            key: "00ff".to_owned(),
            state: IncidentState::Open,
            job_type: "mail.send".to_owned(),
            detail: "10000 jobs died of one cause".to_owned(),
            count: 10_000,
            example: Some(IncidentExample::new("order-7", error)),
            since,
            opened: Some(since),
            seen: since,
            clear_since: None,
            resolved: None,
            notices: 1,
            resolving: 0,
            next: None,
        }
    }

    pub(in crate::alerts) fn now() -> Timestamp {
        Timestamp::from_ms(1_700_000_090_000).unwrap()
    }

    #[test]
    fn a_message_says_what_where_since_when_how_many_and_where_to_look() {
        let message = sender().message(&[incident(0x0b5f_f109, "no route\nto @all")], now());
        let text = message.text(4096);
        for part in [
            "[sf] OPEN: jobs die of a new cause in mail\n",
            "queue mail, type mail.send",
            "2023-11-14T22:13:20Z (1m ago)",
            "Jobs: 10000",
            "Example: order-7: no route to @all\n",
            "streamfleet dead list --queue mail --group 00ff",
            "alerts ack 0b5ff109",
            "\nhttps://jobs.example.com/incidents/0b5ff109",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn many_incidents_make_one_message() {
        let all: Vec<_> = (0..40).map(|nth| incident(nth, "no")).collect();
        let message = sender().message(&all, now());
        assert_eq!((message.items.len(), message.left_out), (15, 25));
        assert_eq!(message.title, "[sf] 40 incidents: 40 new");
        assert!(message.text(100_000).contains("and 25 more"));
    }

    proptest! {
        #[test]
        fn any_message_fits_and_keeps_its_link(error in any::<String>(), most in 300_usize..3000, count in 1_u32..30) {
            let all: Vec<_> = (0..count).map(|nth| incident(nth, &error)).collect();
            let text = sender().message(&all, now()).text(most);
            prop_assert!(text.len() <= most, "{} of {most}", text.len());
            prop_assert!(text.contains("\nhttps://jobs.example.com/incidents"));
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}
