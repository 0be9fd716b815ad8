//! Where Redis is, and how to log in. Passwords stay in [`SecretString`]s: this module never shows one.

use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use super::error::Error;
use crate::job::Namespace;

/// How to reach Redis.
///
/// `url` takes the forms `redis://[user:password@]host[:port][/db]`, `rediss://…` (TLS), `redis+unix:///path/to.sock`,
/// `redis-sentinel://host:port/db?sentinelServiceName=…&node=host:port` and `redis-cluster://host:port?node=host:port`.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The address; default `redis://127.0.0.1:6379`.
    pub url: SecretString,
    /// A file that holds the address, for secrets mounted as files. Takes precedence over `url`.
    pub url_file: Option<PathBuf>,
    /// A file that holds the password. Takes precedence over one in the address.
    pub password_file: Option<PathBuf>,
    /// The first part of every key; default `sf`.
    #[serde(deserialize_with = "namespace")]
    pub namespace: Namespace,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            url_file: None,
            password_file: None,
            namespace: "sf".parse().expect("sf is a namespace"),
        }
    }
}

fn namespace<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Namespace, D::Error> {
    let text: String = serde::Deserialize::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

impl Config {
    /// All that is wrong with these values, each as `key: reason`.
    pub fn validate(&self) -> Vec<String> {
        self.client_config().err().map(|error| error.to_string()).into_iter().collect()
    }

    /// The address without its password, to be shown to people.
    pub fn shown(&self) -> String {
        self.url_text()
            .map_or_else(|_| "an address that cannot be read".to_owned(), |url| without_password(&url))
    }

    fn url_text(&self) -> Result<String, Error> {
        match &self.url_file {
            Some(path) => read_secret(path, "redis.url_file"),
            None => Ok(self.url.expose_secret().to_owned()),
        }
    }

    /// What the client needs to connect.
    pub(crate) fn client_config(&self) -> Result<fred::types::config::Config, Error> {
        let url = self.url_text()?;
        // The client's own message may quote the address, and with it the password.
        let parsed = fred::types::config::Config::from_url(&url);
        let mut config = parsed.map_err(|error| {
            let shown = without_password(&url);
            Error::Address(format!(
                "redis.url: {shown} is not a usable address ({})",
                without_url(error.details(), &url)
            ))
        })?;
        if !KNOWN_SCHEMES.iter().any(|scheme| url.starts_with(&format!("{scheme}://"))) {
            let known = KNOWN_SCHEMES.join(", ");
            return Err(Error::Address(format!(
                "redis.url: {} must begin with one of {known}",
                without_password(&url)
            )));
        }
        if let Some(path) = &self.password_file {
            config.password = Some(read_secret(path, "redis.password_file")?);
        }
        config.fail_fast = true;
        Ok(config)
    }
}

const KNOWN_SCHEMES: [&str; 9] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis+unix",
    "redis-sentinel",
    "rediss-sentinel",
    "redis-cluster",
    "rediss-cluster",
];

fn read_secret(path: &Path, key: &str) -> Result<String, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::Address(format!("{key}: {} cannot be read: {error}", path.display())))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn without_url(detail: &str, url: &str) -> String {
    detail.replace(url, "…")
}

/// `url` with `***` in place of the password, also in the parameters that may hold one.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "***".to_owned() };
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let shown = match authority.rsplit_once('@') {
        Some((login, host)) => {
            let user = login.split_once(':').map_or("", |(user, _)| user);
            format!("{user}:***@{host}")
        }
        None => authority.to_owned(),
    };
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let query: Vec<_> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) if name.to_ascii_lowercase().contains("password") => format!("{name}=***"),
            _ => pair.to_owned(),
        })
        .collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    format!("{scheme}://{shown}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Config {
        Config { url: url.into(), ..Config::default() }
    }

    #[test]
    fn every_form_of_address_is_understood() {
        let forms = [
            "redis://127.0.0.1:6379",
            "redis://:pass@host",
            "rediss://user:pass@host:6380/2",
            "redis+unix:///run/redis.sock",
            "redis-sentinel://host:26379/0?sentinelServiceName=main&node=other:26379",
            "redis-cluster://host:7000?node=host:7001",
        ];
        for url in forms {
            assert_eq!(at(url).validate(), Vec::<String>::new(), "{url}");
        }
    }

    #[test]
    fn a_wrong_address_is_refused_without_showing_its_password() {
        for url in ["http://u:canary@host", "redis://u:canary@host:port", "canary", "redis://u:canary@"] {
            let problems = at(url).validate();
            assert!(!problems.is_empty(), "{url}");
            assert!(problems.iter().all(|problem| !problem.contains("canary")), "{problems:?}");
            assert!(problems[0].starts_with("redis.url: "), "{problems:?}");
        }
    }

    #[test]
    fn passwords_are_shown_nowhere() {
        let url = "redis-sentinel://u:canary@h:1/0?sentinelPassword=canary&node=b:2";
        assert_eq!(at(url).shown(), "redis-sentinel://u:***@h:1/0?sentinelPassword=***&node=b:2");
        assert!(!format!("{:?}", at(url)).contains("canary"));
    }

    #[test]
    fn a_password_file_beats_the_address() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"0123\n").unwrap();
        let config = Config { password_file: Some(file.path().into()), ..at("redis://:other@host") };
        assert_eq!(config.client_config().unwrap().password.as_deref(), Some("0123"));
        let missing = Config { password_file: Some("no/such/file".into()), ..at("redis://host") };
        assert!(missing.validate()[0].starts_with("redis.password_file: no/such/file"));
    }
}
