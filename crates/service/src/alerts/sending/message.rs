//! What a message says, before a sink gives it the form of its medium. All texts are plain lines: nothing in them is markup.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::words::Line;
use crate::alerts::config::{Config, Language};
use crate::job::incident::line::{MAX_TEXT_BYTES, plain_line};
use crate::job::incident::{Incident, IncidentExample, IncidentKind, IncidentState, OTHERS};
use crate::job::{Namespace, Timestamp};
use crate::mask_text;

/// The most incidents that a message describes one by one.
pub(super) const MOST_LISTED: usize = 15;

/// The most bytes of one line of a message about several incidents.
const LINE_BYTES: usize = 200;

/// What is escaped in a part of an address: all but what never has another meaning there.
const UNRESERVED_STAY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

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
    /// The page of the console about the job that shows it, where it can be replayed or decided.
    pub(super) job_link: Option<String>,
    /// What it is about, for programs.
    pub(super) items: Vec<Item>,
    /// How many incidents it is about beyond those.
    pub(super) left_out: usize,
    pub(super) namespace: String,
    /// What it names besides the namespace, or nothing.
    pub(super) environment: String,
    pub(super) language: Language,
}

/// What all messages of a process have in common.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    pub(super) namespace: Namespace,
    pub(super) config: Arc<Config>,
    /// The names of fields whose values no message has, in lower case.
    pub(super) mask: Arc<[String]>,
}

impl Sender {
    /// Returns the message about these incidents, of which there is at least one.
    pub(super) fn message(&self, incidents: &[Incident], now: Timestamp) -> Message {
        let listed = incidents.iter().take(MOST_LISTED).map(|incident| self.shown(incident));
        let items: Vec<Item> =
            listed.map(|incident| Item { reason: Reason::of(&incident), incident }).collect();
        let left_out = incidents.len() - items.len();
        let language = self.config.language;
        let count = |reason| incidents.iter().filter(|incident| Reason::of(incident) == reason).count();
        let (title, lines, about) = match &items[..] {
            [one] if left_out == 0 => {
                (language.title(one.reason, &one.incident), self.facts(one, now), Some(one))
            }
            _ => (language.titles(incidents.len(), count), self.summary(&items, left_out, now), None),
        };
        Message {
            name: name_of(incidents),
            title: self.tagged(&title),
            lines,
            link: self.link(about.map(|item| &item.incident)),
            job_link: about.and_then(|item| self.job_link(item)),
            items,
            left_out,
            ..self.blank()
        }
    }

    /// Returns a message that only shows that messages arrive.
    pub(super) fn test(&self, sink: &str, now: Timestamp) -> Message {
        let language = self.config.language;
        Message {
            name: format!("test-{}", now.as_ms()),
            title: self.tagged(&language.test(sink)),
            lines: vec![language.tested().to_owned(), language.line(Line::Sent, &shown(now))],
            link: self.link(None),
            ..self.blank()
        }
    }

    fn blank(&self) -> Message {
        Message {
            name: String::new(),
            title: String::new(),
            lines: Vec::new(),
            link: None,
            job_link: None,
            items: Vec::new(),
            left_out: 0,
            namespace: self.namespace.to_string(),
            environment: self.config.environment.clone().unwrap_or_default(),
            language: self.config.language,
        }
    }

    /// An incident as messages may tell it: texts without what is masked, and without the error if messages have none.
    fn shown(&self, incident: &Incident) -> Incident {
        let masked = |text: &str| plain_line(&mask_text(&self.mask, text), MAX_TEXT_BYTES);
        let error = |error: &str| if self.config.errors { masked(error) } else { String::new() };
        let example = incident.example.as_ref();
        Incident {
            detail: masked(&incident.detail),
            example: example.map(|example| IncidentExample::new(&example.job, &error(&example.error))),
            ..incident.clone()
        }
    }

    /// A title after the namespace and the environment.
    fn tagged(&self, title: &str) -> String {
        let environment = self.config.environment.as_ref();
        let environment = environment.map_or_else(String::new, |environment| format!("[{environment}] "));
        format!("[{}] {environment}{title}", self.namespace)
    }

    /// What, where, since when, how many, an example, and where to look.
    fn facts(&self, item: &Item, now: Timestamp) -> Vec<String> {
        let (incident, language) = (&item.incident, self.config.language);
        let age = now.since(incident.since);
        let mut facts = vec![
            (Line::What, language.detail(incident, age)),
            (Line::Where, language.place(self.namespace.as_str(), incident)),
            (Line::Since, language.ago(&shown(incident.since), age)),
        ];
        facts.extend(incident.resolved.map(|resolved| (Line::Resolved, shown(resolved))));
        if incident.count > 0 {
            facts.push((Line::Jobs, incident.count.to_string()));
        }
        let example = incident.example.as_ref().map(|example| language.example(&example.job, &example.error));
        facts.extend(example.map(|example| (Line::Example, example)));
        facts.push((Line::Look, incident.command()));
        if item.reason != Reason::Resolved {
            let reason = language.reason();
            let silence = format!("streamfleet alerts ack {} --for 2h --reason {reason}", incident.id);
            facts.push((Line::Silence, silence));
        }
        facts.into_iter().map(|(line, text)| language.line(line, &text)).collect()
    }

    /// Describes each incident by one line.
    fn summary(&self, items: &[Item], left_out: usize, now: Timestamp) -> Vec<String> {
        let language = self.config.language;
        let line = |Item { reason, incident }: &Item| {
            plain_line(&language.summary(*reason, incident, now.since(incident.since)), LINE_BYTES)
        };
        let mut lines: Vec<String> = items.iter().map(line).collect();
        if left_out > 0 {
            lines.push(language.more(left_out));
        }
        lines.push(language.line(Line::Look, "streamfleet alerts list"));
        lines
    }

    fn console(&self) -> Option<&str> {
        self.config.console_url.as_deref().map(|url| url.trim_end_matches('/'))
    }

    fn link(&self, incident: Option<&Incident>) -> Option<String> {
        let base = self.console()?;
        Some(incident.map_or_else(
            || format!("{base}/incidents"),
            |incident| format!("{base}/incidents/{}", incident.id),
        ))
    }

    /// The page of a dead job, which has a button to replay it, or to decide about its step.
    fn job_link(&self, Item { reason, incident }: &Item) -> Option<String> {
        let (base, queue) = (self.console()?, incident.queue.as_ref()?);
        let is_of_dead = matches!(
            incident.kind,
            IncidentKind::DeadGroup
                | IncidentKind::DeadRate
                | IncidentKind::DeadJob
                | IncidentKind::NeedsDecision
        );
        let is_dead = is_of_dead && *reason != Reason::Resolved && incident.key != OTHERS;
        let job = incident.example.as_ref().filter(|_| is_dead)?.job_id()?;
        Some(format!("{base}/queues/{queue}/jobs/{}", escaped(job)))
    }
}

/// A part of a path: everything but letters, digits and `-._~` is escaped (RFC 3986, section 2.3). The parts `.` and `..`, which clients
/// remove even if they are escaped, get a space at their end; the console takes it away again.
fn escaped(part: &str) -> String {
    let escaped = utf8_percent_encode(part, UNRESERVED_STAY).to_string();
    if matches!(part, "." | "..") { escaped + "%20" } else { escaped }
}

impl Message {
    /// What the link to the page of the job is called. To replay a job that waits for a decision would only kill it again.
    pub(super) fn job_link_name(&self) -> &'static str {
        let needs_decision = |item: &Item| item.incident.kind == IncidentKind::NeedsDecision;
        self.language.job(self.items.iter().any(needs_decision))
    }

    /// Returns the message as plain text, cut to this many bytes between two lines, so that the link stays.
    pub(super) fn text(&self, most: usize) -> String {
        const CUT: &str = "…";
        let link = self.link.as_ref().map_or_else(String::new, |link| format!("\n{link}"));
        let mut text = plain_line(&self.title, most.saturating_sub(link.len()).max(1));
        let job = self.job_link.as_ref().map(|link| self.language.with_colon(self.job_link_name(), link));
        for line in self.lines.iter().chain(&job) {
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

#[cfg(test)]
pub(super) mod tests {
    use std::slice;

    use super::*;
    use crate::job::incident::IncidentId;
    use proptest::prelude::*;

    pub(in crate::alerts) fn sender() -> Sender {
        sender_of(Config::default().console_url("https://jobs.example.com/"))
    }

    fn sender_of(config: Config) -> Sender {
        Sender { namespace: "sf".parse().unwrap(), config: Arc::new(config), mask: Arc::default() }
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

    /// An incident of this kind, as those who look write it.
    fn of_kind(kind: IncidentKind, state: IncidentState) -> Incident {
        let has_example =
            matches!(kind, IncidentKind::DeadGroup | IncidentKind::DeadJob | IncidentKind::NeedsDecision);
        let resolved = (state == IncidentState::Resolved).then(now);
        let example = has_example.then(|| IncidentExample::new("order/7", "no route: token=abc"));
        let has_queue = !matches!(kind, IncidentKind::RedisMemory | IncidentKind::OutboxStuck);
        let queue = has_queue.then(|| "mail".parse().unwrap());
        Incident { kind, state, example, queue, resolved, detail: "told".to_owned(), ..incident(1, "") }
    }

    #[test]
    fn each_language_has_its_words() {
        let mut said = String::new();
        for language in [Language::En, Language::ZhCn] {
            let config = Config::default().console_url("https://jobs.example.com").language(language);
            let sender =
                Sender { mask: Arc::new(["token".to_owned()]), ..sender_of(config.environment("staging")) };
            for kind in IncidentKind::ALL {
                said += &sender.message(&[of_kind(kind, IncidentState::Open)], now()).text(4096);
                said += "\n\n";
            }
            let resolved = of_kind(IncidentKind::DeadJob, IncidentState::Resolved);
            let reminder = Incident { notices: 2, ..of_kind(IncidentKind::Backlog, IncidentState::Open) };
            let several = vec![incident(2, "no"); 20];
            for incidents in [
                slice::from_ref(&resolved),
                slice::from_ref(&reminder),
                &[resolved.clone(), reminder.clone()],
                &several,
            ] {
                said += &sender.message(incidents, now()).text(4096);
                said += "\n\n";
            }
            said += &sender.test("ops", now()).text(4096);
            said += "\n\n";
        }
        insta::assert_snapshot!(said);
    }

    #[test]
    fn a_chinese_message_has_no_english_word() {
        let sender = sender_of(Config::default().language(Language::ZhCn));
        // What is data.
        let data =
            ["streamfleet", "dead", "list", "groups", "show", "queues", "wide", "workers", "tasks", "gates"];
        let more =
            ["check", "alerts", "ack", "queue", "group", "reason", "needs", "decision", "for", "test", "sf"];
        let names = ["mail", "send", "order", "ops", "Redis", "ff", "history", "stats"];
        let is_data = |word: &&str| [&data[..], &more, &names].iter().any(|list| list.contains(word));
        let mut texts = vec![sender.test("ops", now()).text(4096)];
        for state in [IncidentState::Open, IncidentState::Resolved] {
            for kind in IncidentKind::ALL {
                let example = Some(IncidentExample::new("order", ""));
                let one = Incident { example, ..of_kind(kind, state) };
                let others = Incident { key: OTHERS.to_owned(), ..one.clone() };
                texts.push(sender.message(slice::from_ref(&one), now()).text(4096));
                texts.push(sender.message(slice::from_ref(&others), now()).text(4096));
                texts.push(sender.message(&vec![one; 20], now()).text(4096));
            }
        }
        for text in texts {
            let words = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| word.len() > 1);
            let english: Vec<&str> = words.filter(|word| !is_data(word)).collect();
            assert!(english.is_empty(), "{english:?}: {text}");
        }
    }

    #[test]
    fn errors_are_masked_or_left_out() {
        let incident =
            Incident { detail: "it stopped: token=abc".to_owned(), ..incident(1, "no: {\"Token\":\"abc\"}") };
        let masked = Sender { mask: Arc::new(["token".to_owned()]), ..sender() };
        let message = masked.message(slice::from_ref(&incident), now());
        let told = format!("{message:?} {}", message.text(4096));
        assert!(told.contains("it stopped: token=***") && !told.contains("abc"), "{told}");
        let silent = sender_of(Config::default().errors(false)).message(&[incident], now());
        assert!(silent.text(4096).contains("\nExample: order-7\n"), "{}", silent.text(4096));
        assert_eq!(silent.items[0].incident.example.as_ref().unwrap().error, "");
    }

    #[test]
    fn a_dead_job_is_one_click_away_while_its_incident_is_open() {
        let link = |incident: Incident| sender().message(&[incident], now()).job_link;
        let open = of_kind(IncidentKind::DeadGroup, IncidentState::Open);
        assert_eq!(link(open).as_deref(), Some("https://jobs.example.com/queues/mail/jobs/order%2F7"));
        let example = Some(IncidentExample::new("..", "no route"));
        let dots = Incident { example, ..of_kind(IncidentKind::DeadGroup, IncidentState::Open) };
        assert_eq!(link(dots).as_deref(), Some("https://jobs.example.com/queues/mail/jobs/..%20"));
        let example = Some(IncidentExample::new("order-7\u{200b}", "no route"));
        let hidden = Incident { example, ..of_kind(IncidentKind::DeadGroup, IncidentState::Open) };
        assert_eq!(link(hidden), None, "it is not the job order-7");
        assert_eq!(link(of_kind(IncidentKind::DeadGroup, IncidentState::Resolved)), None);
        assert_eq!(link(of_kind(IncidentKind::Backlog, IncidentState::Open)), None);
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
