//! The variables of this process that `streamfleet dev` passes on to programs.

use std::ffi::OsString;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};
use streamfleet::RedisConfig;

/// How the names of streamfleet's own variables begin. Some have logins.
const OWN: &str = "STREAMFLEET_";

/// Returns the names of all variables but those for streamfleet itself: its own, and those that hold the password of the private
/// Redis, or what a file of the configured one does.
pub(super) fn passed(configured: &RedisConfig, password: &SecretString) -> Vec<String> {
    let files = [&configured.url_file, &configured.password_file].into_iter().flatten();
    let secrets = files.filter_map(held).chain([password.expose_secret().to_owned()]);
    names(std::env::vars_os(), &secrets.collect::<Vec<_>>())
}

fn held(file: &PathBuf) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn names(variables: impl Iterator<Item = (OsString, OsString)>, secrets: &[String]) -> Vec<String> {
    let is_secret = |value: &OsString| {
        value.to_str().is_some_and(|value| secrets.iter().any(|secret| secret == value.trim()))
    };
    let is_for_programs = |name: &str| {
        // TRACEPARENT is about the command that started this one.
        !name.is_empty() && !name.contains('=') && !name.starts_with(OWN) && name != "TRACEPARENT"
    };
    let named =
        variables.filter(|(_, value)| !is_secret(value)).filter_map(|(name, _)| name.into_string().ok());
    named.filter(|name| is_for_programs(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_variables_are_passed_on_but_those_for_streamfleet_itself() {
        let variables = [
            ("DB_HOST", "db.local"),
            ("STREAMFLEET__REDIS__URL", "redis://:canary@127.0.0.1"),
            ("STREAMFLEET_POOL", "php"),
            ("REDISCLI_AUTH", "canary"),
            ("MOUNTED", "redis://:canary@127.0.0.1\n"),
            ("TRACEPARENT", "00-1"),
            ("", "x"),
            ("EMPTY", ""),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let secrets = ["canary".to_owned(), "redis://:canary@127.0.0.1".to_owned()];
        assert_eq!(names(variables.into_iter(), &secrets), ["DB_HOST", "EMPTY"]);
    }
}
