//! Where a job's POST goes, and what it carries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use url::Url;

use super::headers::is_reserved;
use crate::handlers::rule::{Kind, Rule};
use crate::job::duration;

with_defaults! {
    /// Where a job's POST goes, and what it carries.
    ///
    /// ```
    /// use streamfleet::handlers::{Code, HttpConfig, Rule, RuleAction};
    ///
    /// let config = HttpConfig::new("https://app.internal/jobs")
    ///     .bearer_file("/run/secrets/app-token")
    ///     .rules([Rule::new(RuleAction::Retry).status([Code::One(409), Code::Class(5)])]);
    /// ```
    #[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct HttpConfig {
        /// The endpoint: `http` or `https`, without user or password. No part of a job goes into it.
        pub url: String = String::new(),
        /// Headers with fixed values, sent with every job. Do not put secrets here.
        pub headers: BTreeMap<String, String> = BTreeMap::new(),
        /// A file with the token for `Authorization: Bearer`, read when the handler is created. White space around the
        /// token is ignored.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bearer_file: Option<PathBuf> = None,
        /// How long connecting may take; default 5 s, greater than zero. The response may take as long as the job's
        /// timeout.
        #[serde(with = "duration")]
        pub connect_timeout: Duration = Duration::from_secs(5),
        /// A longer `Retry-After` is shortened to this; default 10 min. Zero ignores the header.
        #[serde(with = "duration")]
        pub max_retry_after: Duration = Duration::from_secs(600),
        /// Rules that map statuses and bodies to outcomes, before the built-in meanings: at most 100, default none. The first one that
        /// matches applies.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub rules: Vec<Rule> = Vec::new(),
    }
}

impl HttpConfig {
    /// Returns how to post to this endpoint: `http` or `https`, without user or password.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    setters! {
        headers: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)> =>
            headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        bearer_file: impl Into<PathBuf> => Some(bearer_file.into());
        connect_timeout: Duration;
        max_retry_after: Duration;
        rules: impl IntoIterator<Item = Rule> => rules.into_iter().collect();
    }

    /// Returns everything that is wrong, as `http.<key>: reason`. URLs and values are not repeated, because they may
    /// contain secrets.
    pub fn validate(&self) -> Vec<String> {
        let mut problems: Vec<_> = self.endpoint().err().into_iter().collect();
        problems.extend(self.headers.iter().filter_map(|(name, value)| self.bad_header(name, value)));
        if self.bearer_file.as_ref().is_some_and(|path| path.as_os_str().is_empty()) {
            problems.push("http.bearer_file: is empty; leave it out to send no token".to_owned());
        }
        if self.connect_timeout.is_zero() {
            problems.push("http.connect_timeout: must be greater than zero".to_owned());
        }
        problems.extend(Kind::Http.validate(&self.rules));
        problems
    }

    /// Returns the URL, or what is wrong with it.
    pub(super) fn endpoint(&self) -> Result<Url, String> {
        let url = Url::parse(&self.url).map_err(|error| format!("http.url: is not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("http.url: must begin with http:// or https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("http.url: must have no user or password; use bearer_file".to_owned());
        }
        Ok(url)
    }

    fn bad_header(&self, name: &str, value: &str) -> Option<String> {
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            return Some(format!("http.headers: {name:?} is not a valid header name"));
        };
        if is_reserved(&header) || (header == AUTHORIZATION && self.bearer_file.is_some()) {
            return Some(format!("http.headers: {name} is set by the handler"));
        }
        let invalid = HeaderValue::from_str(value).is_err();
        invalid.then(|| {
            format!("http.headers: the value of {name} has characters that are not allowed in a header")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_reported_with_their_keys_and_without_secrets() {
        let headers =
            [("a b", ""), ("Content-Length", "3"), ("x-streamfleet-job-id", "1"), ("x-a", "s3cret\r\nb: c")];
        let config = HttpConfig {
            url: "https://user:s3cret@example.com/".into(),
            headers: headers.map(|(name, value)| (name.into(), value.into())).into(),
            bearer_file: Some(PathBuf::new()),
            connect_timeout: Duration::ZERO,
            max_retry_after: Duration::ZERO,
            rules: serde_json::from_str(r#"[{ "exit": 3, "then": "drop" }]"#).unwrap(),
        };
        let problems = config.validate();
        let keys: Vec<_> = problems.iter().filter_map(|problem| problem.split(':').next()).collect();
        let expected =
            ["url", "headers", "headers", "headers", "headers", "bearer_file", "connect_timeout", "rules"];
        assert_eq!(keys, expected.map(|key| format!("http.{key}")), "{problems:?}");
        assert!(!format!("{problems:?}").contains("s3cret"), "{problems:?}");
    }

    #[test]
    fn a_url_is_all_that_must_be_configured_and_must_be_http() {
        for url in
            ["", "example.com/jobs", "ftp://example.com/", "unix:/run/x", "http://", "file:///etc/passwd"]
        {
            let config = HttpConfig { url: url.into(), ..HttpConfig::default() };
            assert_eq!(config.validate().len(), 1, "{url}");
        }
        let config = HttpConfig { url: "http://[::1]:8080/jobs?kind=a".into(), ..HttpConfig::default() };
        assert_eq!(config.validate(), Vec::<String>::new());
    }
}
