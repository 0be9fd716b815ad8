//! The rules of a queue's gates, and which gates a job has to pass. A gate without a rule is no gate: a job that meets none
//! with a rule costs nothing.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::{Closed, Envelope, FairShare, GateName, JobSpec, JobType, Limits, Timestamp};

/// The rule of one gate. Limits that were set at run time win over those of the configuration. The rule for one value of
/// a field replaces the limits for each value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Rule {
    /// The gate.
    pub gate: GateName,
    /// Who closed it, if it is closed.
    pub closed: Option<Closed>,
    /// The limits of the workers' configuration.
    pub configured: Option<Limits>,
    /// The limits that somebody has set at run time.
    pub set: Option<Limits>,
    /// Whether something about it cannot be read. Nothing passes it until somebody has set or cleared it.
    pub unreadable: bool,
    /// Whether it stops nobody, because the gates of the queue depend on [too many fields](Rules::MAX_FIELDS) of its jobs. That
    /// happens only if somebody has written rules by hand.
    pub ignored: bool,
}

impl Rule {
    fn new(gate: GateName) -> Self {
        Self { gate, closed: None, configured: None, set: None, unreadable: false, ignored: false }
    }

    /// Returns the limits in effect.
    pub fn limits(&self) -> Limits {
        self.set.or(self.configured).unwrap_or_default()
    }

    /// Reads one field of the rules: `p:<gate>` if it is closed, `r:<gate>` for limits set at run time, `c:<gate>` for
    /// configured ones.
    fn read(&mut self, part: &str, value: &[u8], now: Timestamp) {
        let text = std::str::from_utf8(value).ok();
        let limits = || text.and_then(|text| serde_json::from_str::<Limits>(text).ok());
        self.unreadable |= match part {
            "p" => {
                let closed = text.and_then(Closed::read);
                let unreadable = closed.is_none();
                self.closed = closed.filter(|closed| closed.until.is_none_or(|until| until > now));
                unreadable
            }
            "r" => {
                self.set = limits();
                self.set.is_none()
            }
            _ => {
                self.configured = limits();
                self.configured.is_none()
            }
        };
    }

    /// Returns true if a job must ask before it passes.
    fn asks(&self) -> bool {
        self.closed.is_some() || self.unreadable || !self.limits().is_empty()
    }
}

/// All rules of a queue at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rules {
    revision: u64,
    rules: BTreeMap<GateName, Rule>,
    /// Whether jobs must pass the queue's gate.
    queue: bool,
    types: HashMap<JobType, GateName>,
    fields: Vec<KeyField>,
    /// After how long the queue opens by itself, if it is closed for a time.
    opens_in: Option<Duration>,
    /// How the queue is shared, if it is.
    fair: Option<FairShare>,
}

/// A field with gates, in the order of the fields' names.
#[derive(Debug, Clone, PartialEq)]
struct KeyField {
    name: Box<str>,
    /// Whether each value has a gate.
    each: bool,
    /// Otherwise, the values that have one.
    values: Vec<GateName>,
}

impl Rules {
    /// The most fields of entries that the gates of one queue can depend on.
    pub const MAX_FIELDS: usize = 8;

    /// The field that says how the queue is shared.
    #[doc(hidden)]
    pub const FAIR: &str = "f:fair";

    /// Reads the rules as Redis has them. `now` is the server's time when it answered.
    #[doc(hidden)]
    pub fn read<'a>(
        revision: u64,
        now: Timestamp,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Self {
        let mut rules: BTreeMap<GateName, Rule> = BTreeMap::new();
        let mut fair = None;
        for (field, value) in fields {
            if field == Self::FAIR.as_bytes() {
                // What cannot be read shares nothing.
                fair = serde_json::from_slice(value).ok();
                continue;
            }
            // What is not a gate's name stops nobody.
            let Some((part @ ("p" | "r" | "c"), gate)) =
                std::str::from_utf8(field).ok().and_then(|field| field.split_once(':'))
            else {
                continue;
            };
            if let Ok(gate) = gate.parse::<GateName>() {
                rules.entry(gate.clone()).or_insert_with(|| Rule::new(gate)).read(part, value, now);
            }
        }
        let mut read = Self { revision, rules, fair, ..Self::default() };
        read.index();
        read.opens_in = read.closed().and_then(|closed| closed.until).map(|until| until.since(now));
        read
    }

    /// Returns rules that are only these limits, for a process that cannot read those of all.
    #[doc(hidden)]
    pub fn configured(limits: &[(GateName, Limits)]) -> Self {
        let rule = |(gate, limits): &(GateName, Limits)| {
            let rule = Rule { configured: Some(*limits), ..Rule::new(gate.clone()) };
            (gate.clone(), rule)
        };
        let mut rules = Self { rules: limits.iter().map(rule).collect(), ..Self::default() };
        rules.index();
        rules
    }

    fn index(&mut self) {
        for (gate, rule) in self.rules.iter().filter(|(_, rule)| rule.asks()) {
            if let Some(field) = gate.field() {
                let at = self.fields.iter().position(|known| &*known.name == field);
                let at = at.unwrap_or_else(|| {
                    self.fields.push(KeyField { name: field.into(), each: false, values: Vec::new() });
                    self.fields.len() - 1
                });
                match gate.each() {
                    None => self.fields[at].each = true,
                    Some(_) => self.fields[at].values.push(gate.clone()),
                }
            } else if let Some(job_type) = gate.as_str().strip_prefix("type:") {
                self.types.extend(job_type.parse().ok().map(|job_type| (job_type, gate.clone())));
            } else {
                // Workers do not read a closed queue at all.
                self.queue = rule.unreadable || !rule.limits().is_empty();
            }
        }
        let beyond = self.fields.split_off(self.fields.len().min(Self::MAX_FIELDS));
        let is_beyond = |name: &str| beyond.iter().any(|field| &*field.name == name);
        for rule in self.rules.values_mut().filter(|rule| rule.asks()) {
            rule.ignored = rule.gate.field().is_some_and(is_beyond);
        }
    }

    /// Returns the revision, which differs whenever a rule has changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the rules in the order of their gates' names.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.values()
    }

    /// Returns how the queue is shared between the values of a field, if it is.
    pub fn fair(&self) -> Option<&FairShare> {
        self.fair.as_ref()
    }

    /// Returns the first gate whose rule stops nobody, and how many there are.
    #[doc(hidden)]
    pub fn ignored(&self) -> Option<(&GateName, usize)> {
        let mut ignored = self.rules.values().filter(|rule| rule.ignored);
        let first = ignored.next()?;
        Some((&first.gate, 1 + ignored.count()))
    }

    /// Returns the rule of one gate.
    pub fn get(&self, gate: &GateName) -> Option<&Rule> {
        self.rules.get(gate)
    }

    /// Returns the rule that applies to a value without a rule of its own: that for each value of its field.
    #[doc(hidden)]
    pub fn inherited(&self, gate: &GateName) -> Option<Rule> {
        if self.rules.contains_key(gate) {
            return None;
        }
        let each = self.rules.get(&gate.each()?)?;
        Some(Rule { gate: gate.clone(), ..each.clone() })
    }

    /// Returns who closed the whole queue, if it is closed.
    pub fn closed(&self) -> Option<&Closed> {
        self.rules.get(&GateName::queue())?.closed.as_ref()
    }

    /// Returns how long after they were read the queue opens by itself, if it is closed for a time.
    #[doc(hidden)]
    pub fn opens_in(&self) -> Option<Duration> {
        self.opens_in
    }

    /// Returns the limits in effect for a gate: those for each value, if there are none for this one.
    #[doc(hidden)]
    pub fn limits_of(&self, gate: &GateName) -> Limits {
        let limits = |gate: &GateName| self.rules.get(gate).and_then(|rule| rule.set.or(rule.configured));
        limits(gate).or_else(|| limits(&gate.each()?)).unwrap_or_default()
    }

    /// Returns true if no job has to ask before it starts.
    #[doc(hidden)]
    pub fn ask_nobody(&self) -> bool {
        !self.queue && self.types.is_empty() && self.fields.is_empty()
    }

    /// Returns the gates with a rule that a job has to pass: usually none.
    #[doc(hidden)]
    pub fn gates_of(&self, job: &JobSpec, envelope: &Envelope) -> Vec<GateName> {
        if self.ask_nobody() {
            return Vec::new();
        }
        let mut gates: Vec<GateName> = self.queue.then(GateName::queue).into_iter().collect();
        gates.extend(self.types.get(&job.job_type).cloned());
        gates.extend(self.fields.iter().filter_map(|field| {
            let gate = GateName::of_value(&field.name, envelope.get(field.name.as_bytes())?);
            (field.each || field.values.contains(&gate)).then_some(gate)
        }));
        gates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{EntryId, Lane};
    use proptest::prelude::*;

    fn rules(fields: &[(&str, &str)]) -> Rules {
        let fields = fields.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes()));
        Rules::read(1, Timestamp::from_ms(1000).unwrap(), fields)
    }

    fn gates(rules: &Rules, fields: &[(&str, &str)]) -> Vec<String> {
        let fields = [("type", "mail.send")].iter().chain(fields);
        let envelope = Envelope::new(fields.map(|(name, value)| (name.as_bytes(), value.as_bytes())));
        let job = JobSpec::parse(&envelope, EntryId::new(1, 0), Lane::Normal).unwrap();
        rules.gates_of(&job, &envelope).iter().map(ToString::to_string).collect()
    }

    const ONE: &str = r#"{"concurrency":1}"#;

    #[test]
    fn a_job_meets_the_gates_that_have_a_rule() {
        let all = rules(&[
            ("c:queue", ONE),
            ("r:type:mail.send", ONE),
            ("r:type:other", ONE),
            ("c:key:h.tenant", ONE),
            ("r:key:limit_key=a", ONE),
            ("@rev", "7"),
            ("x:queue", ONE),
            ("r:nonsense", ONE),
        ]);
        assert_eq!(gates(&all, &[]), ["queue", "type:mail.send"]);
        let fields = [("h.tenant", "9"), ("limit_key", "a")];
        let want = ["queue", "type:mail.send", "key:h.tenant=9", "key:limit_key=a"];
        assert_eq!(gates(&all, &fields), want);
        assert_eq!(gates(&all, &[("limit_key", "b")]), ["queue", "type:mail.send"]);
        assert!(rules(&[("@rev", "7")]).ask_nobody());
    }

    #[test]
    fn a_rule_that_limits_nothing_is_met_by_nobody() {
        let passed = rules(&[("p:type:mail.send", "1 900 ann\nover"), ("r:type:mail.send", "{}")]);
        assert!(passed.ask_nobody() && passed.iter().count() == 1);
        let closed = rules(&[("p:type:mail.send", "1 1001 ann\nnot yet over")]);
        assert_eq!(gates(&closed, &[]), ["type:mail.send"]);
    }

    #[test]
    fn a_rule_that_cannot_be_read_stops_its_jobs_and_no_others() {
        let broken = rules(&[("r:type:mail.send", "{"), ("p:key:h.tenant", "?"), ("c:key:h.tenant", "{}")]);
        assert!(broken.iter().all(|rule| rule.unreadable));
        assert_eq!(gates(&broken, &[]), ["type:mail.send"]);
        assert_eq!(gates(&broken, &[("h.tenant", "x")]), ["type:mail.send", "key:h.tenant=x"]);
    }

    #[test]
    fn a_share_is_no_gate_and_one_that_cannot_be_read_shares_nothing() {
        let shared = rules(&[("f:fair", r#"{"by":"h.tenant","weights":{"9":3}}"#)]);
        assert_eq!(shared.fair().map(|share| share.weight_of("9")), Some(3));
        assert!(shared.ask_nobody() && shared.iter().count() == 0);
        assert_eq!(rules(&[("f:fair", "{")]).fair(), None);
    }

    #[test]
    fn rules_of_too_many_fields_are_ignored_and_say_so() {
        let fields: Vec<String> = (0..10).map(|nth| format!("r:key:h.f{nth}")).collect();
        let all: Vec<_> =
            fields.iter().map(|field| (field.as_str(), ONE)).chain([("r:queue", ONE)]).collect();
        let read = rules(&all);
        assert_eq!(read.ignored().map(|(gate, count)| (gate.as_str(), count)), Some(("key:h.f8", 2)));
        assert_eq!(gates(&read, &[("h.f7", "a"), ("h.f8", "a")]), ["queue", "key:h.f7=a"]);
        assert_eq!(rules(&all[..8]).ignored(), None);
    }

    #[test]
    fn a_closed_queue_is_not_asked_job_by_job() {
        let closed = rules(&[("p:queue", "5 0 ann\nthe bank is down")]);
        assert_eq!(closed.closed().unwrap().by, "ann");
        assert!(closed.ask_nobody());
    }

    #[test]
    fn limits_of_the_configuration_alone_are_rules_too() {
        let one = Limits::default().concurrency(1);
        let own = [(GateName::queue(), Limits::default()), ("type:mail.send".parse().unwrap(), one)];
        assert_eq!(gates(&Rules::configured(&own), &[]), ["type:mail.send"]);
        assert_eq!(Rules::configured(&own).revision(), 0);
        assert!(Rules::configured(&own[..1]).ask_nobody());
    }

    #[test]
    fn a_value_without_a_rule_inherits_that_for_each_value() {
        let both =
            rules(&[("p:key:h.tenant", "5 0 ann\n"), ("c:key:h.tenant", ONE), ("r:key:h.tenant=9", "{}")]);
        let inherited = |gate: &str| both.inherited(&gate.parse().unwrap());
        let rule = inherited("key:h.tenant=7").unwrap();
        assert_eq!((rule.gate.as_str(), rule.limits().concurrency), ("key:h.tenant=7", Some(1)));
        assert!(rule.closed.is_some());
        for other in ["key:h.tenant=9", "key:h.tenant", "key:h.other=7", "type:mail.send", "queue"] {
            assert_eq!(inherited(other), None, "{other}");
        }
    }

    #[test]
    fn limits_at_run_time_win_over_the_configuration() {
        let both = rules(&[("c:queue", r#"{"concurrency":1}"#), ("r:queue", r#"{"concurrency":5}"#)]);
        let rule = both.get(&GateName::queue()).unwrap();
        assert_eq!((rule.limits().concurrency, rule.configured.unwrap().concurrency), (Some(5), Some(1)));
    }

    proptest! {
        #[test]
        fn any_fields_are_read_without_panic(
            fields in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(any::<u8>(), 0..60)), 0..20),
        ) {
            let fields = fields.iter().map(|(field, value)| (field.as_slice(), value.as_slice()));
            let read = Rules::read(1, Timestamp::MAX, fields);
            prop_assert!(read.iter().all(|rule| rule.gate.as_str().parse::<GateName>().is_ok()));
        }
    }
}
