//! Which jobs a page lists, as its address says it: the same conditions as on the command line.

use streamfleet::admin::Filter;
use streamfleet::job::{QueueName, State};

use super::frame::Frame;
use crate::console::access::Mask;
use crate::console::link::Link;
use crate::console::problem::Problem;

/// The names of the conditions in an address, the names that the filter knows, and the keys of their labels.
const CONDITIONS: [(&str, &str, &str); 11] = [
    ("type", "type", "filter.type"),
    ("id", "id-prefix", "filter.id"),
    ("error", "error", "filter.error"),
    ("where", "where", "filter.where"),
    ("text", "text", "filter.text"),
    ("since", "since", "filter.since"),
    ("until", "until", "filter.until"),
    ("older", "older-than", "filter.older"),
    ("reason", "reason", "filter.reason"),
    ("kind", "kind", "filter.kind"),
    ("group", "group", "filter.group"),
];

/// The conditions that only dead letters have.
const OF_LETTERS: [&str; 3] = ["reason", "kind", "group"];

/// The conditions that show what payloads and errors contain.
const PRIVATE: [&str; 3] = ["error", "where", "text"];

/// What an address asks for.
#[derive(Debug, Clone)]
pub(super) struct Criteria {
    /// Only jobs of this queue.
    pub(super) queue: Option<QueueName>,
    /// Only jobs in these states, if any are named.
    pub(super) states: Vec<State>,
    /// Which of these jobs.
    pub(super) filter: Filter,
    /// Where the page begins.
    pub(super) after: Option<String>,
    /// The conditions as the address has them.
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
        let (filter, pairs) = (Filter::new(), Vec::new());
        let mut read = Self { queue: None, states: Vec::new(), filter, after: None, pairs };
        for (name, value) in query.into_iter().filter(|(_, value)| !value.trim().is_empty()) {
            let invalid = |why: String| Problem::field(format!("query.{name}"), why);
            match name.as_str() {
                "queue" => read.queue = Some(value.parse().map_err(|error| invalid(format!("{error}")))?),
                "state" => read.states.push(crate::jobs::state(&value).map_err(invalid)?),
                "after" => read.after = Some(value),
                _ => read.add((frame, mask), name, value)?,
            }
        }
        if read.is_about_letters() {
            read.states = vec![State::Dead];
        }
        Ok(read)
    }

    /// Adds a condition. Parameters that are none are left to others.
    fn add(&mut self, (frame, mask): (&Frame, &Mask), name: String, value: String) -> Result<(), Problem> {
        let Some((_, known, _)) = CONDITIONS.iter().find(|(known, ..)| *known == name) else { return Ok(()) };
        let at = || format!("query.{name}");
        if PRIVATE.contains(&name.as_str()) && !frame.sees_payloads() {
            return Err(Problem::field(at(), frame.t("filter.private")));
        }
        let filter = std::mem::take(&mut self.filter).and(known, value.trim());
        self.filter = filter.map_err(|error| Problem::field(at(), error.to_string()))?;
        if !mask.is_empty() && self.filter.looks_at(|name| mask.hides(name)) {
            return Err(Problem::field(at(), frame.t("filter.masked")));
        }
        self.pairs.push((name, value));
        Ok(())
    }

    fn is_about_letters(&self) -> bool {
        self.pairs.iter().any(|(name, _)| OF_LETTERS.contains(&name.as_str()))
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

    /// The fields of the form for these conditions; those of letters only if letters are listed.
    pub(super) fn fields(&self, frame: &Frame, with_letters: bool) -> Vec<Condition> {
        let is_shown = |name: &str| {
            (with_letters || !OF_LETTERS.contains(&name))
                && (frame.sees_payloads() || !PRIVATE.contains(&name))
        };
        let shown = CONDITIONS.iter().filter(|(name, ..)| is_shown(name));
        let value =
            |name: &str| self.pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let field = |(name, _, key): &(&'static str, &str, &str)| Condition {
            name,
            label: frame.t(key),
            value: value(name).unwrap_or_default(),
        };
        shown.map(field).collect()
    }

    /// Returns true if a state is asked for.
    pub(super) fn asks_for(&self, state: State) -> bool {
        self.states.contains(&state)
    }
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
        }
    }
}
