//! The variables of this process that `streamfleet dev` passes on to programs.

use std::ffi::OsString;

use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use streamfleet::RedisConfig;

/// How the names of streamfleet's own variables begin. Some have logins.
const OWN: &str = "STREAMFLEET_";

/// Variables for other programs than those of jobs: the password for `redis-cli`, and the trace of the command that started this one.
const OTHERS: [&str; 3] = ["REDISCLI_AUTH", "TRACEPARENT", "TRACESTATE"];

/// From this length on, a password is looked for within a value. A shorter one may be part of any word.
const LONG_BYTES: usize = 8;

/// The names of all variables but those for streamfleet itself.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// What programs get.
    pub(super) passed: Vec<String>,
    /// What they do not get, because it holds a password of the private Redis or of the configured one. In alphabetical order.
    pub(super) withheld: Vec<String>,
}

/// Returns the variables of this process.
pub(super) fn of_process(configured: &RedisConfig, password: &SecretString) -> Variables {
    let mut secrets = configured.passwords();
    secrets.push(password.clone());
    sorted(std::env::vars_os(), &secrets)
}

fn sorted(variables: impl Iterator<Item = (OsString, OsString)>, secrets: &[SecretString]) -> Variables {
    let is_secret = |value: &OsString| {
        let value = value.to_string_lossy();
        let has_one = |text: &str| secrets.iter().any(|secret| holds(text, secret.expose_secret()));
        has_one(&value) || has_one(&percent_decode_str(&value).decode_utf8_lossy())
    };
    let is_for_programs = |name: &str| {
        !name.is_empty() && !name.contains('=') && !name.starts_with(OWN) && !OTHERS.contains(&name)
    };
    let mut found = Variables::default();
    for (name, value) in variables {
        let Ok(name) = name.into_string() else { continue };
        if is_for_programs(&name) {
            let names = if is_secret(&value) { &mut found.withheld } else { &mut found.passed };
            names.push(name);
        }
    }
    found.withheld.sort();
    found
}

/// Returns true if the value has this password: anywhere, or, if it is short, alone or in an address.
fn holds(value: &str, password: &str) -> bool {
    if password.len() >= LONG_BYTES {
        return value.contains(password);
    }
    value.trim() == password || value.contains(&format!(":{password}@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_variables_are_passed_on_but_those_for_streamfleet_itself() {
        let variables = [
            ("DB_HOST", "db.local"),
            ("STREAMFLEET__REDIS__URL", "redis://127.0.0.1"),
            ("STREAMFLEET_POOL", "php"),
            ("REDISCLI_AUTH", "of another Redis"),
            ("TRACEPARENT", "00-1"),
            ("", "x"),
            ("EMPTY", ""),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let found = sorted(variables.into_iter(), &["canary-1".into()]);
        assert_eq!((found.passed, found.withheld), (vec!["DB_HOST".to_owned(), "EMPTY".to_owned()], vec![]));
    }

    #[test]
    fn what_is_withheld_is_named_unless_it_is_for_streamfleet_itself() {
        let names = ["REDIS_URL", "DB_PASSWORD", "STREAMFLEET__REDIS__URL", "REDISCLI_AUTH"];
        let variables = names.map(|name| (name.into(), "redis://:canary-1@127.0.0.1".into()));
        let found = sorted(variables.into_iter(), &["canary-1".into()]);
        assert_eq!(
            (found.passed, found.withheld),
            (vec![], vec!["DB_PASSWORD".to_owned(), "REDIS_URL".to_owned()])
        );
    }

    #[test]
    fn a_password_stays_here_alone_and_within_a_value() {
        let secrets: [SecretString; 2] = ["s3@cret-pw".into(), "dev".into()];
        let passes =
            |value: &str| !sorted([("X".into(), value.into())].into_iter(), &secrets).passed.is_empty();
        for value in [
            "s3@cret-pw",
            "s3@cret-pw\n",
            "redis://worker:s3%40cret-pw@127.0.0.1/0",
            "redis://worker:s3@cret-pw@127.0.0.1",
            "--user worker --pass s3@cret-pw",
            "dev",
            "redis://:dev@127.0.0.1",
        ] {
            assert!(!passes(value), "{value}");
        }
        for value in ["", "s3@cret", "/dev/null", "developer", "redis://127.0.0.1"] {
            assert!(passes(value), "{value}");
        }
    }
}
