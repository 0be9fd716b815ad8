//! Which jobs a page lists, as its address says it: the same conditions as on the command line.

use axum::http::StatusCode;
use streamfleet::job::{GateName, QueueName, State};
use streamfleet_engine::admin::{DeadLetter, Filter};

use super::frame::Frame;
use crate::console::access::Mask;
use crate::console::link::Link;
use crate::console::problem::Problem;
use crate::filter::Conditions;

/// The name of the condition about the gate at which a job waits. Filters do not know it: only a page can list these jobs.
const GATE: &str = "gate";

/// The name of the condition about the campaign that replayed a letter's job. Only a page can list these letters.
const CAMPAIGN: &str = "campaign";

/// The names in an address of the conditions that a form has, their names in [`Conditions`], and the keys of their labels.
const FIELDS: [(&str, &str, &str); 13] = [
    ("type", "type", "filter.type"),
    ("id", "id_prefix", "filter.id"),
    ("error", "error", "filter.error"),
    ("where", "where", "filter.where"),
    ("text", "text", "filter.text"),
    ("since", "since", "filter.since"),
    ("until", "until", "filter.until"),
    ("older", "older_than", "filter.older"),
    ("reason", "reason", "filter.reason"),
    ("kind", "kind", "filter.kind"),
    ("group", "group", "filter.group"),
    (CAMPAIGN, "", "filter.campaign"),
    (GATE, "", "column.gate"),
];

/// What an address asks for.
#[derive(Debug, Clone)]
pub(super) struct Criteria {
    /// Only jobs of this queue.
    pub(super) queue: Option<QueueName>,
    /// Only jobs in these states, if any are named.
    pub(super) states: Vec<State>,
    /// Which of these jobs.
    pub(super) filter: Filter,
    /// Only jobs that wait at this gate.
    pub(super) gate: Option<GateName>,
    /// Only letters of jobs that this campaign replayed.
    campaign: Option<String>,
    /// Where the page begins.
    pub(super) after: Option<String>,
    /// The conditions of the filter.
    conditions: Conditions,
    /// All conditions as the address has them.
    pairs: Vec<(String, String)>,
}

/// A condition as a field of a form.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) value: String,
}

impl Criteria {
    /// Reads the parameters of an address.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names the parameter which is not valid, or may not be used by this person.
    pub(super) fn read(frame: &Frame, mask: &Mask, query: Vec<(String, String)>) -> Result<Self, Problem> {
        let mut read = Self {
            queue: None,
            states: Vec::new(),
            filter: Filter::new(),
            gate: None,
            campaign: None,
            after: None,
            conditions: Conditions::default(),
            pairs: Vec::new(),
        };
        for (name, value) in query.into_iter().filter(|(_, value)| !value.trim().is_empty()) {
            let invalid = |why: String| Problem::field(format!("query.{name}"), why);
            match name.as_str() {
                "queue" => read.queue = Some(value.parse().map_err(|error| invalid(format!("{error}")))?),
                "state" => read.states.push(crate::jobs::state(&value).map_err(invalid)?),
                "after" => read.after = Some(value),
                _ => read.add((frame, mask), name, value)?,
            }
        }
        read.filter = mask.blind(read.filter);
        if read.is_about_letters() {
            read.states = vec![State::Dead];
        } else if read.gate.is_some() {
            read.states = vec![State::Waiting];
        }
        Ok(read)
    }

    /// Reads the parameters of an action's address.
    ///
    /// # Errors
    ///
    /// The errors of [`Criteria::read`], or if there is a condition that only selects what a page lists: the action would change more than
    /// that.
    pub(super) fn of_action(
        frame: &Frame,
        mask: &Mask,
        query: Vec<(String, String)>,
    ) -> Result<Self, Problem> {
        let read = Self::read(frame, mask, query)?;
        let listing = [(GATE, read.gate.is_some()), (CAMPAIGN, read.campaign.is_some())];
        match listing.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(Problem::field(format!("query.{name}"), frame.t("filter.only_lists"))),
            None => Ok(read),
        }
    }

    /// Adds a condition. Parameters that are none are left to others.
    fn add(&mut self, (frame, mask): (&Frame, &Mask), name: String, value: String) -> Result<(), Problem> {
        let Some((_, known, _)) = FIELDS.iter().find(|(known, ..)| *known == name) else { return Ok(()) };
        let (at, value) = (|| format!("query.{name}"), value.trim().to_owned());
        let refused = |why: &str| Problem::field(at(), frame.t(why)).with_status(StatusCode::FORBIDDEN);
        if !frame.sees_payloads() && is_private(known) {
            return Err(refused("filter.private"));
        }
        match name.as_str() {
            GATE if !shows(frame, &value) => {
                let why = if frame.sees_payloads() { "filter.masked" } else { "filter.private" };
                return Err(refused(why));
            }
            GATE => {
                let gate = value.parse().map_err(|error| Problem::field(at(), format!("{error}")))?;
                self.gate = Some(gate);
            }
            CAMPAIGN => self.campaign = Some(value.clone()),
            _ => {
                self.conditions.set(known, &value).map_err(|why| Problem::field(at(), why))?;
                let filter = self.conditions.filter();
                self.filter = filter.map_err(|error| Problem::field(at(), error.to_string()))?;
            }
        }
        if !mask.is_empty() && self.filter.looks_at(|name| mask.hides(name)) {
            return Err(refused("filter.masked"));
        }
        self.pairs.push((name, value));
        Ok(())
    }

    fn is_about_letters(&self) -> bool {
        self.campaign.is_some() || !self.conditions.letters.is_empty()
    }

    /// Adds these criteria to an address, without the place where a page begins.
    pub(super) fn extend(&self, link: Link) -> Link {
        let link = self.queue.iter().fold(link, |link, queue| link.with("queue", queue.as_str()));
        let link = self.states.iter().fold(link, |link, state| link.with("state", state.as_str()));
        link.with_all(&self.pairs)
    }

    /// Adds the conditions alone to an address.
    pub(super) fn conditions(&self, link: Link) -> Link {
        link.with_all(&self.pairs)
    }

    /// The fields of the form for jobs; those of letters only if there may be dead jobs.
    pub(super) fn fields(&self, frame: &Frame, with_letters: bool) -> Vec<Condition> {
        let may_wait = self.states.is_empty() || self.asks_for(State::Waiting);
        self.shown(frame, |name| match name {
            GATE => may_wait,
            CAMPAIGN => false,
            _ => with_letters || !Conditions::OF_LETTERS.contains(&name),
        })
    }

    /// The fields of the form for letters.
    pub(super) fn letter_fields(&self, frame: &Frame) -> Vec<Condition> {
        self.shown(frame, |name| name != GATE)
    }

    fn shown(&self, frame: &Frame, is_offered: impl Fn(&str) -> bool) -> Vec<Condition> {
        let is_shown = |name: &str| is_offered(name) && (frame.sees_payloads() || !is_private(name));
        let shown = FIELDS.iter().filter(|(name, ..)| is_shown(name));
        let value =
            |name: &str| self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let field = |(name, _, key): &(&'static str, &str, &str)| Condition {
            name,
            label: frame.t(key),
            value: value(name).unwrap_or_default(),
        };
        shown.map(field).collect()
    }

    /// Returns true if all jobs, or all letters, are meant.
    pub(super) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns true if an action can mean the same jobs.
    pub(super) fn selects(&self) -> bool {
        self.gate.is_none() && self.campaign.is_none()
    }

    /// Checks that jobs can be searched by these conditions.
    ///
    /// # Errors
    ///
    /// [`Problem`] that names a condition which only a page of letters has.
    pub(super) fn check_jobs(&self, frame: &Frame) -> Result<(), Problem> {
        match &self.campaign {
            Some(_) => Err(Problem::field("query.campaign", frame.t("filter.only_letters"))),
            None => Ok(()),
        }
    }

    /// Returns true if a letter that the filter matches also fulfils the conditions that filters do not know. None waits at a
    /// gate.
    pub(super) fn lists_letter(&self, letter: &DeadLetter) -> bool {
        self.gate.is_none()
            && self.campaign.as_ref().is_none_or(|campaign| letter.text("dead_campaign") == *campaign)
    }

    /// Returns true if a state is asked for.
    pub(super) fn asks_for(&self, state: State) -> bool {
        self.states.contains(&state)
    }
}

/// Whether a condition tells what payloads, headers or errors contain.
fn is_private(name: &str) -> bool {
    Conditions::PRIVATE.contains(&name)
}

/// Whether this person may see the whole name of a gate.
fn shows(frame: &Frame, gate: &str) -> bool {
    frame.about(gate) == gate
}

/// Where the jobs that wait at a gate are listed; `None` if the address would have a value that somebody may not see.
pub(super) fn at_gate(frame: &Frame, queue: &QueueName, gate: &GateName) -> Option<Link> {
    let link = || Link::queue(queue.as_str(), &[]).with("tab", "waiting").with(GATE, gate.as_str());
    shows(frame, gate.as_str()).then(link)
}

/// Where the letters of jobs that a campaign replayed are listed.
pub(super) fn of_campaign(queue: &str, campaign: &str) -> Link {
    Link::queue(queue, &["dead"]).with(CAMPAIGN, campaign)
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests_frame;
    use super::*;
    use crate::console::access::Grants;

    fn read(pairs: &[(&str, &str)]) -> Result<Criteria, Problem> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Criteria::read(&tests_frame(), &Mask::default(), pairs.collect())
    }

    #[test]
    fn an_address_is_read_and_written_again() {
        let read =
            read(&[("queue", "mail"), ("state", "dead"), ("type", "a.b"), ("id", ""), ("x", "y")]).unwrap();
        assert_eq!(read.extend(Link::to(&["jobs"])).as_str(), "/jobs?queue=mail&state=dead&type=a.b");
        assert!(!read.filter.is_empty() && read.asks_for(State::Dead));
    }

    #[test]
    fn conditions_of_letters_mean_dead_jobs() {
        assert_eq!(read(&[("reason", "fatal"), ("state", "waiting")]).unwrap().states, [State::Dead]);
    }

    #[test]
    fn the_value_of_a_gate_is_for_those_who_see_payloads() {
        let (queue, gate) = ("mail".parse().unwrap(), "key:h.tenant=9".parse().unwrap());
        assert!(read(&[("gate", "key:h.tenant=9")]).is_err() && read(&[("gate", "type:mail.send")]).is_ok());
        assert_eq!(at_gate(&tests_frame(), &queue, &gate), None);
        let frame = Frame::of_person("ann", Grants { payloads: true, ..Grants::default() });
        let link = at_gate(&frame, &queue, &gate).unwrap();
        assert_eq!(link.as_str(), "/queues/mail?tab=waiting&gate=key%3Ah.tenant%3D9");
    }

    #[test]
    fn no_action_means_more_jobs_than_the_page_lists() {
        for (name, value) in [("gate", "type:mail.send"), ("campaign", "c-1")] {
            let query = vec![(name.to_owned(), value.to_owned())];
            let read = read(&[(name, value)]).unwrap();
            assert!(!read.selects() && read.check_jobs(&tests_frame()).is_ok() == (name == "gate"), "{name}");
            assert!(Criteria::of_action(&tests_frame(), &Mask::default(), query).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_masked_cannot_be_searched() {
        let frame = Frame::of_person("ann", Grants { payloads: true, ..Grants::default() });
        let read = |name: &str, value: &str| {
            Criteria::read(&frame, &Mask::new(["card"]), vec![(name.to_owned(), value.to_owned())])
        };
        for (name, value) in [("where", "payload.payer.card>4"), ("where", "h.Card=4"), ("text", "4111")] {
            assert!(read(name, value).unwrap_err().detail().contains("masked"), "{name} {value}");
        }
        assert!(read("where", "payload.order=card").is_ok());
    }

    #[test]
    fn a_wrong_parameter_is_named_and_private_ones_are_refused() {
        for pair in
            [("queue", "A B"), ("state", "x"), ("since", "x"), ("older", "x"), ("reason", "x"), ("text", "a")]
        {
            let problem = read(&[pair]).unwrap_err();
            assert!(problem.detail().starts_with(&format!("query.{}: ", pair.0)), "{}", problem.detail());
            let status = if pair.0 == "text" { 403 } else { 422 };
            assert_eq!(problem.status().as_u16(), status, "{}", problem.detail());
        }
    }
}
