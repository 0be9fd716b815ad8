//! The conditions that select jobs and dead letters: as arguments of every command that has them, and by their names in requests and
//! in the addresses of pages.

use std::time::Duration;

use streamfleet::job::{DeadReason, format_duration};
use streamfleet_engine::admin::{Filter, FilterError};

use super::times::{Bound, Clock, Moment};
use super::{Wrong, times};

/// The heading of these arguments in the help.
const HEADING: &str = "Filter";

/// Selects jobs. All conditions must hold.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = HEADING)]
pub(crate) struct FilterArgs {
    /// Only jobs of this type, or with mail.* of all types that begin like this.
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Only jobs whose payload or header fulfils a condition, such as payload.customer=9, payload.items.0.sku!=x,
    /// payload.total>100, payload.mail~@example.com or h.tenant=9. May be repeated.
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<String>,
    /// Only jobs with this header, such as tenant=9. May be repeated.
    #[arg(long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// Only jobs whose payload or error contains this text.
    #[arg(long)]
    text: Option<String>,
    /// Only jobs whose last error contains this text.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only jobs whose id begins like this.
    #[arg(long, value_name = "TEXT")]
    id_prefix: Option<String>,
    /// Only jobs that were accepted, or dead jobs that died, at this time or later: a time as it is shown, such as 2026-12-01 or
    /// '2026-12-01 11:00', one with a zone, such as 2026-12-01T10:00:00Z, or a duration ago, such as 90m.
    #[arg(long, value_name = "TIME", value_parser = times::bound)]
    since: Option<Bound>,
    /// Only jobs that were accepted, or dead jobs that died, before this time.
    #[arg(long, value_name = "TIME", value_parser = times::bound)]
    until: Option<Bound>,
    /// Only jobs that were accepted, or dead jobs that died, longer ago than this, such as 2h.
    #[arg(long, value_name = "DURATION", value_parser = times::duration)]
    older_than: Option<Duration>,
}

/// Selects dead letters, beside [`FilterArgs`].
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = HEADING)]
pub(crate) struct LetterArgs {
    /// Only dead letters with this reason: exhausted, fatal, lost, expired, malformed, unroutable, `needs_decision`, invalid or restored.
    #[arg(long = "dead-reason", value_name = "REASON", value_parser = reason)]
    dead_reason: Option<DeadReason>,
    /// Only dead letters whose last failure was of this kind.
    #[arg(long, value_parser = KINDS)]
    kind: Option<String>,
    /// Only dead letters with this fingerprint.
    #[arg(long, value_name = "FINGERPRINT")]
    group: Option<String>,
}

/// The values of `dead_kind`.
const KINDS: [&str; 9] =
    ["error", "timeout", "panic", "unknown", "lost", "expired", "malformed", "unroutable", "invalid"];

/// What `set` answers about a condition that is given twice.
const ONCE: &str = "it must be given only once";

/// The conditions of a request or of an address, each added by its name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditions {
    pub(crate) jobs: FilterArgs,
    pub(crate) letters: LetterArgs,
}

impl Conditions {
    /// The names of conditions that only dead letters fulfil.
    pub(crate) const OF_LETTERS: [&str; 3] = ["reason", "kind", "group"];

    /// The names of conditions that tell what payloads, headers or errors contain.
    pub(crate) const PRIVATE: [&str; 4] = ["where", "header", "text", "error"];

    /// Adds the condition of this name. Programs have no clock that shows times, so a time has a zone.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the value.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if Self::OF_LETTERS.contains(&name) {
            self.letters.set(name, value)
        } else {
            self.jobs.set(name, value)
        }
    }

    /// The first of the conditions that tell what payloads, headers or errors contain, if there is one.
    pub(crate) fn private(&self) -> Option<&'static str> {
        let is_given = [
            !self.jobs.conditions.is_empty(),
            !self.jobs.headers.is_empty(),
            self.jobs.text.is_some(),
            self.jobs.error.is_some(),
        ];
        Self::PRIVATE.into_iter().zip(is_given).find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// Converts the conditions.
    ///
    /// # Errors
    ///
    /// [`Wrong`] if a condition is empty or not valid, or there are too many.
    pub(crate) fn filter(&self) -> Result<Filter, Wrong> {
        self.letters.add_to(self.jobs.filter(&Clock::utc())?)
    }
}

impl FilterArgs {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "type" => put(&mut self.job_type, value.to_owned()),
            "text" => put(&mut self.text, value.to_owned()),
            "error" => put(&mut self.error, value.to_owned()),
            "id_prefix" => put(&mut self.id_prefix, value.to_owned()),
            "since" => put(&mut self.since, zoned(value)?),
            "until" => put(&mut self.until, zoned(value)?),
            "older_than" => put(&mut self.older_than, times::duration(value)?),
            "where" => {
                self.conditions.push(value.to_owned());
                Ok(())
            }
            "header" => {
                self.headers.push(value.to_owned());
                Ok(())
            }
            _ => Err("there is no such condition".to_owned()),
        }
    }

    /// Converts the arguments. Times without a zone are those of the clock.
    ///
    /// # Errors
    ///
    /// [`Wrong`] if a condition is empty or not valid, or there are too many.
    pub(crate) fn filter(&self, clock: &Clock) -> Result<Filter, Wrong> {
        self.build(clock).map_err(|error| Wrong(error.to_string()))
    }

    fn build(&self, clock: &Clock) -> Result<Filter, FilterError> {
        let texts = [
            ("type", &self.job_type),
            ("id-prefix", &self.id_prefix),
            ("text", &self.text),
            ("error", &self.error),
        ];
        let mut filter = Filter::new();
        for (name, value) in texts {
            if let Some(value) = value {
                filter = filter.and(name, value)?;
            }
        }
        for condition in &self.conditions {
            filter = filter.condition(condition)?;
        }
        for header in &self.headers {
            let (name, value) = header.split_once('=').unwrap_or((header.as_str(), ""));
            filter = filter.header(name, value)?;
        }
        match self.since {
            Some(Bound::At(moment)) => filter = filter.since(clock.instant(moment))?,
            Some(Bound::Ago(age)) => filter = filter.and("since", &format_duration(age))?,
            None => {}
        }
        match self.until {
            Some(Bound::At(moment)) => filter = filter.until(clock.instant(moment))?,
            Some(Bound::Ago(age)) => filter = filter.older_than(age)?,
            None => {}
        }
        match self.older_than {
            Some(age) => filter.older_than(age),
            None => Ok(filter),
        }
    }
}

/// Sets a value that is not set yet.
fn put<T>(place: &mut Option<T>, value: T) -> Result<(), String> {
    if place.replace(value).is_some() { Err(ONCE.to_owned()) } else { Ok(()) }
}

/// Reads an instant, or a duration ago.
fn zoned(text: &str) -> Result<Bound, String> {
    match times::duration(text) {
        Ok(age) => Ok(Bound::Ago(age)),
        Err(_) => times::instant(text).map(|instant| Bound::At(Moment::At(instant))),
    }
}

impl LetterArgs {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "reason" => put(&mut self.dead_reason, reason(value)?),
            "kind" if KINDS.contains(&value) => put(&mut self.kind, value.to_owned()),
            "kind" => Err(format!("a kind must be one of {}", KINDS.join(", "))),
            "group" => put(&mut self.group, value.to_owned()),
            _ => Err("there is no such condition".to_owned()),
        }
    }

    /// Returns true if none of them is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.dead_reason.is_none() && self.kind.is_none() && self.group.is_none()
    }

    /// Adds the arguments to those of all jobs.
    ///
    /// # Errors
    ///
    /// [`Wrong`] if a condition is empty or not valid, or there are too many.
    pub(crate) fn add_to(&self, filter: Filter) -> Result<Filter, Wrong> {
        self.build(filter).map_err(|error| Wrong(error.to_string()))
    }

    fn build(&self, mut filter: Filter) -> Result<Filter, FilterError> {
        if let Some(reason) = self.dead_reason {
            filter = filter.reason(reason)?;
        }
        if let Some(kind) = &self.kind {
            filter = filter.kind(kind)?;
        }
        match &self.group {
            Some(fingerprint) => filter.group(fingerprint),
            None => Ok(filter),
        }
    }
}

fn reason(name: &str) -> Result<DeadReason, String> {
    DeadReason::named(name).ok_or_else(|| {
        format!("a reason must be one of {}", DeadReason::ALL.map(DeadReason::as_str).join(", "))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        letters: LetterArgs,
    }

    fn parse(args: &[&str]) -> Result<Filter, Wrong> {
        let command = Command::try_parse_from(["streamfleet"].iter().chain(args)).unwrap();
        command.letters.add_to(command.filter.filter(&Clock::utc())?)
    }

    #[test]
    fn a_filter_is_shown_as_it_was_typed() {
        let args = ["--type", "mail.send", "--id-prefix", "order-", "--text", "bob", "--error", "refused"];
        let more =
            ["--where", "payload.customer=9", "--where", "h.tenant=9", "--since", "2026-12-01T10:00:00.000Z"];
        let last = ["--until", "2026-12-02T10:00:00.000Z", "--older-than", "2h", "--dead-reason", "fatal"];
        let args = [&args[..], &more[..], &last[..], &["--kind", "panic", "--group", "0123456789abcdef"][..]]
            .concat();
        assert_eq!(parse(&args).unwrap().to_string(), args.join(" "));
        assert_eq!(parse(&["--header", "tenant=a=b"]).unwrap().to_string(), "--where h.tenant=a=b");
        assert!(parse(&[]).unwrap().is_empty());
        // By the clock of the server, which is not known here.
        assert_eq!(
            parse(&["--since", "1d", "--until", "90m"]).unwrap().to_string(),
            "--since 1d --older-than '1h 30m'"
        );
        let day = ["--since", "2026-12-01", "--until", "2026-12-01 11:00:00"];
        let shown = "--since 2026-12-01T00:00:00.000Z --until 2026-12-01T11:00:00.000Z";
        assert_eq!(parse(&day).unwrap().to_string(), shown);
    }

    #[test]
    fn a_condition_set_by_its_name_is_that_of_the_argument() {
        let of_jobs =
            ["type", "where", "header", "text", "error", "id_prefix", "since", "until", "older_than"];
        let mut conditions = Conditions::default();
        for name in of_jobs.into_iter().chain(Conditions::OF_LETTERS) {
            let value = match name {
                "since" => "2026-12-01T10:00:00.000Z",
                "until" => "1d",
                "older_than" => "2h",
                "where" => "payload.a=1",
                "header" => "tenant=9",
                "reason" => "fatal",
                "kind" => "panic",
                _ => "mail",
            };
            if matches!(name, "since" | "until" | "reason" | "kind") {
                assert!(conditions.set(name, "2026-12-01").is_err(), "{name}");
            }
            conditions.set(name, value).unwrap();
            assert_eq!(conditions.set(name, value).is_ok(), matches!(name, "where" | "header"), "{name}");
        }
        assert!(conditions.set("size", "1").is_err());
        let shown = conditions.filter().unwrap().to_string();
        let flags =
            ["--type mail", "--older-than 2h", "--where h.tenant=9", "--dead-reason fatal", "--kind panic"];
        for flag in flags {
            assert!(shown.contains(flag), "{flag} is not in {shown}");
        }
    }

    #[test]
    fn a_condition_that_tells_what_jobs_contain_is_private() {
        let private = |name: &str, value: &str| {
            let mut conditions = Conditions::default();
            conditions.set(name, value).unwrap();
            conditions.private()
        };
        for name in Conditions::PRIVATE {
            assert_eq!(private(name, "payload.a=1"), Some(name));
        }
        assert_eq!((private("type", "mail"), private("group", "none")), (None, None));
    }

    #[test]
    fn an_empty_condition_is_refused() {
        for args in [
            ["--type", ""],
            ["--where", ""],
            ["--where", "payload.="],
            ["--where", "payload.a="],
            ["--header", "tenant"],
            ["--header", "tenant="],
            ["--header", "=9"],
            ["--header", "tenant!=9"],
            ["--header", "tenant<=9"],
            ["--text", ""],
            ["--error", " "],
            ["--id-prefix", ""],
            ["--group", ""],
        ] {
            assert!(parse(&args).is_err(), "{args:?}");
        }
    }
}
