//! The rules of a queue's gates, and what is known about each gate and its waiting list.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use fred::interfaces::{HashesInterface, StreamsInterface};
use fred::types::Value;
use futures_util::future::try_join_all;
use serde::Serialize;

use crate::client::decode::{self, timestamp};
use crate::client::error::{Class, Error};
use crate::client::script::{args, scripts};
use crate::gates::drain::MAX_WAITLISTS;
use crate::job::{FairShare, GateName, Limits, Rule, Rules, Timestamp, cut};
use crate::{Queue, bytes};

scripts! { WAITLISTS "waitlists", RULES "rules", RULE_PUT "rule_put" }

/// The most fields of all rules of a queue; each rule has at most three.
const MAX_FIELDS: i64 = 1000;

/// The most bytes of the name of a person who closes a gate, and of the reason. Longer ones are cut.
const MAX_NAME_BYTES: usize = 128;
const MAX_REASON_BYTES: usize = 512;

/// The longest time for which a gate is closed, in ms: about a thousand years. A rule with a longer one could not be read.
const MAX_CLOSED_MS: u128 = 1000 * 365 * 24 * 3600 * 1000;

/// How many gates are looked at at once.
const AT_ONCE: usize = 16;

/// In how many waiting lists a list looks for values that jobs wait for, and how many of these values it names.
const MOST_WAITLISTS: usize = 1000;
const MOST_VALUES: usize = 200;

/// The gates of a queue. [`Queue::gates`] returns them.
///
/// ```no_run
/// # use streamfleet_engine as streamfleet;
/// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use streamfleet::job::{GateName, Limits, Rate};
///
/// // No mail for an hour.
/// let mail: GateName = "type:mail.send".parse()?;
/// queue.gates().close(&mail, "ann", "the relay is down", Some(Duration::from_secs(3600))).await?;
/// queue.gates().open(&mail).await?;
///
/// // Each tenant runs two jobs at once, and starts ten in a second.
/// let limits = Limits::default().concurrency(2).rate("10/s".parse::<Rate>()?);
/// queue.gates().set(&"key:h.tenant".parse()?, &limits).await?;
/// for rule in queue.gates().rules().await?.iter() {
///     println!("{}: {:?}", rule.gate, rule.limits());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Gates {
    #[doc(hidden)]
    pub queue: Queue,
}

/// A gate with its rule, and what it does now; see the [example](Gates::list).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GateStatus {
    /// Its rule.
    pub rule: Rule,
    /// Whether this is the rule for each value of a field: the gate is that of a value without a rule of its own.
    pub inherited: bool,
    /// How many jobs hold a place in it.
    pub held: u64,
    /// How many jobs wait in its waiting list; for the gate of a paused queue, all that wait.
    pub waiting: u64,
    /// Until when its breaker is open, if it is.
    pub tripped_until: Option<Timestamp>,
}

/// A waiting list in which jobs wait; see the [example](Gates::waitlists).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waitlist {
    /// Its name: that of its gate.
    pub name: String,
    /// Since when it has had waiting jobs.
    pub since: Timestamp,
    /// How many jobs wait there; `None` if its key cannot be read.
    pub waiting: Option<u64>,
}

/// Some of the waiting lists, and where to continue.
#[derive(Debug)]
pub struct WaitlistsPage {
    pub waitlists: Vec<Waitlist>,
    /// The cursor of the next page; `None` after the last one.
    pub next: Option<String>,
}

impl Queue {
    /// Returns the gates of this queue. Sends nothing.
    pub fn gates(&self) -> Gates {
        Gates { queue: self.clone() }
    }
}

impl Gates {
    /// Returns all rules. See `rules.lua`.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn rules(&self) -> Result<Rules, Error> {
        let keys = &self.queue.keys;
        let answer = self.queue.run(&RULES, vec![keys.gates.clone()], vec![]).await?;
        let [now, Value::Array(fields)] = &answer.rest[..] else {
            return Err(Error::contract("rules", answer));
        };
        let now = decode::number(now).map(timestamp).ok_or_else(|| Error::contract("rules", "no time"))?;
        let fields = fields.chunks_exact(2).map(|pair| (decode::data(&pair[0]), decode::data(&pair[1])));
        Ok(Rules::read(answer.status.cast_unsigned(), now, fields))
    }

    /// Closes a gate, for a time or until somebody opens it: its jobs wait, and those that run finish. Closing it again
    /// replaces who closed it, why, and until when. `by` has at most 128 bytes, and `reason` at most 512: more is cut. So is a
    /// `time` of more than a thousand years.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, or if the queue has too many rules.
    pub async fn close(
        &self,
        gate: &GateName,
        by: &str,
        reason: &str,
        time: Option<Duration>,
    ) -> Result<(), Error> {
        let ms = time.map_or(0, |time| time.as_millis().clamp(1, MAX_CLOSED_MS));
        let by = cut(by.replace(char::is_control, " "), MAX_NAME_BYTES);
        let reason = cut(reason.to_owned(), MAX_REASON_BYTES);
        self.put(&[(format!("p:{gate}"), format!("{ms} {by}\n{reason}"))], "").await.map(drop)
    }

    /// Opens a gate that somebody has closed, and lets the first jobs out of its waiting list: about 50. The queue's leader lets out the
    /// others. Returns true if it was closed. Its limits stay.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn open(&self, gate: &GateName) -> Result<bool, Error> {
        let was_closed = self.put(&[(format!("p:{gate}"), String::new())], "").await?;
        if was_closed && let Err(error) = self.let_out_first(gate).await {
            // The leader does it.
            tracing::debug!(queue = %self.queue.name(), %error, "failed to release jobs from the waiting list of a gate");
        }
        Ok(was_closed)
    }

    /// Lets out of a gate's waiting list as many jobs as one script does. The gate of a field has a waiting list for each value.
    async fn let_out_first(&self, gate: &GateName) -> Result<(), Error> {
        let waitlists = if gate.is_for_each() {
            let (values, page) = (format!("{gate}="), self.waitlists_page("0").await?);
            let names = page.waitlists.into_iter().map(|waitlist| waitlist.name);
            names.filter(|name| name.starts_with(&values)).take(MAX_WAITLISTS).collect()
        } else {
            vec![gate.to_string()]
        };
        self.queue.drain(&[], &waitlists).await?.failed.map_or(Ok(()), Err)
    }

    /// Sets a gate's limits, which replace those of the configuration, also those with no limit at all. Returns true if
    /// that is a change.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses, or if the queue has too many rules.
    pub async fn set(&self, gate: &GateName, limits: &Limits) -> Result<bool, Error> {
        self.put(&[(format!("r:{gate}"), json(limits))], "").await
    }

    /// Removes the limits that somebody has set, so that those of the configuration are in effect again. Returns true
    /// if there were any.
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn clear(&self, gate: &GateName) -> Result<bool, Error> {
        self.put(&[(format!("r:{gate}"), String::new())], "").await
    }

    /// Notes the limits of a worker's configuration: of the queue, of its fields, and of the types that it knows. Those of
    /// other types stay. Notes also how the queue is shared, if it is.
    #[doc(hidden)]
    pub async fn configure(
        &self,
        limits: &[(GateName, Limits)],
        fair: Option<&FairShare>,
    ) -> Result<bool, Error> {
        let field = |(gate, limits): &(GateName, Limits)| {
            (format!("c:{gate}"), if limits.is_empty() { String::new() } else { json(limits) })
        };
        let mut changes: Vec<_> = limits.iter().map(field).collect();
        changes.push((Rules::FAIR.to_owned(), fair.map(json).unwrap_or_default()));
        self.put(&changes, "c:key:").await
    }

    /// Changes rules. Returns true if that changed anything. See `rule_put.lua`.
    async fn put(&self, changes: &[(String, String)], stale: &str) -> Result<bool, Error> {
        let most_keys = Rules::MAX_FIELDS as i64;
        let mut args = Vec::from(args![RULE_PUT; most = MAX_FIELDS, most_keys, stale]);
        for (field, value) in changes {
            let (field, value) = (bytes(field.as_bytes()), bytes(value.as_bytes()));
            args.extend(args![RULE_PUT; field, value]);
        }
        let answer = self.queue.run(&RULE_PUT, vec![self.queue.keys.gates.clone()], args).await?;
        match answer.status {
            -1 => {
                Err(Error::refused("rule_put", format!("a queue has at most {MAX_FIELDS} fields of rules")))
            }
            -2 => {
                let most = Rules::MAX_FIELDS;
                let why = format!("the gates of a queue can depend on at most {most} fields of its jobs");
                Err(Error::refused("rule_put", why))
            }
            changed => Ok(changed > 0),
        }
    }

    /// Returns the gates that have a rule, with what they do now. Under a rule for each value of a field come those of its values
    /// for which jobs wait: the 200 with the most such jobs, of 1000 waiting lists. If there are more, the jobs that wait for the others
    /// count as waiting for the rule itself. While the whole queue is paused, all its waiting jobs wait for its gate.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// for gate in queue.gates().list().await? {
    ///     println!("{}: {} jobs wait", gate.rule.gate, gate.waiting);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn list(&self) -> Result<Vec<GateStatus>, Error> {
        let rules = self.rules().await?;
        let (values, others) = self.values(&rules).await?;
        let mut gates: Vec<(&Rule, bool)> = rules.iter().map(|rule| (rule, false)).collect();
        gates.extend(values.iter().map(|rule| (rule, true)));
        gates.sort_by(|(one, _), (other, _)| one.gate.cmp(&other.gate));
        let mut listed = Vec::with_capacity(gates.len());
        for some in gates.chunks(AT_ONCE) {
            listed.extend(
                try_join_all(some.iter().map(|(rule, inherited)| self.status(rule, *inherited))).await?,
            );
        }
        for gate in &mut listed {
            gate.waiting += others.get(&gate.rule.gate).copied().unwrap_or(0);
        }
        if rules.closed().is_some() {
            let (snapshot, _) = self.queue.count(None).await?;
            let queue = listed.iter_mut().find(|gate| gate.rule.gate.as_str() == GateName::QUEUE);
            queue.into_iter().for_each(|gate| gate.waiting = snapshot.waiting());
        }
        Ok(listed)
    }

    /// Returns the rules of values for which jobs wait and that have no rule of their own, and how many jobs wait for further
    /// values of each field.
    async fn values(&self, rules: &Rules) -> Result<(Vec<Rule>, HashMap<GateName, u64>), Error> {
        let (mut values, mut others) = (Vec::new(), HashMap::new());
        if rules.iter().all(|rule| !rule.gate.is_for_each()) {
            return Ok((values, others));
        }
        let mut waitlists = self.waitlists(MOST_WAITLISTS).await?;
        waitlists.sort_by_key(|waitlist| Reverse(waitlist.waiting));
        for waitlist in waitlists {
            let Some(rule) = waitlist.name.parse().ok().and_then(|gate| rules.inherited(&gate)) else {
                continue;
            };
            if values.len() < MOST_VALUES {
                values.push(rule);
            } else if let Some(each) = rule.gate.each() {
                *others.entry(each).or_default() += waitlist.waiting.unwrap_or(0);
            }
        }
        Ok((values, others))
    }

    async fn status(&self, rule: &Rule, inherited: bool) -> Result<GateStatus, Error> {
        let (keys, link) = (&self.queue.keys, &self.queue.link);
        let client = link.client();
        let (held, waitlist) = (keys.gate("held", &rule.gate), keys.waitlist(rule.gate.as_str()));
        let breaker = keys.gate("breaker", &rule.gate);
        let held: Value = readable(link.ask("hlen", client.hlen(held)).await)?;
        let waiting: Value = readable(link.ask("xlen", client.xlen(waitlist)).await)?;
        let tripped: Value = readable(link.ask("hget", client.hget(breaker, "until_ms")).await)?;
        let number = |value: &Value| decode::number(value).unwrap_or(0);
        let tripped_until = decode::number(&tripped).map(timestamp);
        let (held, waiting, rule) = (number(&held), number(&waiting), rule.clone());
        Ok(GateStatus { rule, inherited, held, waiting, tripped_until })
    }

    /// Returns the waiting lists in which jobs wait, at most `most` of them.
    ///
    /// ```no_run
    /// # use streamfleet_engine as streamfleet;
    /// # async fn example(queue: streamfleet::Queue) -> Result<(), Box<dyn std::error::Error>> {
    /// for waitlist in queue.gates().waitlists(100).await? {
    ///     println!("{} has {:?} jobs", waitlist.name, waitlist.waiting);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] if Redis does not answer or refuses.
    pub async fn waitlists(&self, most: usize) -> Result<Vec<Waitlist>, Error> {
        let (mut waitlists, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let page = self.waitlists_page(&cursor).await?;
            waitlists.extend(page.waitlists);
            let Some(next) = page.next.filter(|_| waitlists.len() < most) else { break };
            cursor = next;
        }
        waitlists.sort_by(|one, other| one.name.cmp(&other.name));
        // A hash that grows while it is read may give a field twice.
        waitlists.dedup_by(|one, other| one.name == other.name);
        waitlists.truncate(most);
        Ok(waitlists)
    }

    /// Returns one page of the waiting lists. See `waitlists.lua`.
    #[doc(hidden)]
    pub async fn waitlists_page(&self, cursor: &str) -> Result<WaitlistsPage, Error> {
        let own = &self.queue.keys;
        let keys = vec![own.gates.clone(), own.waitlists.clone(), own.waitlist_locations.clone()];
        let answer = self.queue.run(&WAITLISTS, keys, args![WAITLISTS; cursor].into()).await?;
        let Some((next, waitlists)) = answer.rest.split_first() else {
            return Err(Error::contract("waitlists", answer));
        };
        let next = Some(decode::text(next)).filter(|cursor| cursor != "0");
        let waitlist = |facts: &[Value]| Waitlist {
            name: decode::text(&facts[0]),
            since: decode::number(&facts[1]).map(timestamp).unwrap_or(Timestamp::MAX),
            waiting: decode::number(&facts[2]),
        };
        Ok(WaitlistsPage { waitlists: waitlists.chunks_exact(3).map(waitlist).collect(), next })
    }
}

fn json(rule: &impl Serialize) -> String {
    serde_json::to_string(rule).expect("numbers and texts can be written as JSON")
}

/// A figure of a key that cannot be read is missing.
fn readable(reply: Result<Value, Error>) -> Result<Value, Error> {
    match reply {
        Err(error) if error.class() == Some(Class::Configuration) => Ok(Value::Null),
        reply => reply,
    }
}
