//! The address of Redis, and how to log in. Passwords stay in [`SecretString`]s: this module never shows one.

use std::path::{Path, PathBuf};

use fred::types::config::{ClusterDiscoveryPolicy, Server, ServerConfig, TlsConfig};
use secrecy::{ExposeSecret, SecretString};

use crate::client::error::Error;
use crate::client::tls;
use crate::client::url;
use crate::client::url::{Address, Host, Login, Servers};
use crate::job::Namespace;
use crate::tls::Files;

with_defaults! {
    /// How to reach Redis.
    ///
    /// `url` takes the forms `redis://[[user]:password@]host[:port][/db]`, `rediss://…` (TLS), `redis+unix:///path/to.sock`,
    /// `redis-sentinel://host:port/db?sentinelServiceName=…&node=host:port` and `redis-cluster://host:port?node=host:port`.
    /// In a user or password, `/`, `?`, `#` and `%` must be percent-encoded.
    ///
    /// ```
    /// # mod streamfleet {
    /// #     pub use streamfleet_engine::{Config as RedisConfig, Tls as RedisTls};
    /// # }
    /// use streamfleet::{RedisConfig, RedisTls};
    ///
    /// let tls = RedisTls::default().ca_file("/run/secrets/redis-ca.pem");
    /// let config = RedisConfig::from("rediss://worker@redis.internal").password_file("/run/secrets/redis").tls(tls);
    /// ```
    #[derive(Debug, Clone, serde::Deserialize)]
    #[serde(default, deny_unknown_fields)]
    #[non_exhaustive]
    pub struct Config {
        /// The address; the default is `redis://127.0.0.1:6379`.
        pub url: SecretString = "redis://127.0.0.1:6379".into(),
        /// A file with the address, for secrets mounted as files. Takes precedence over `url`.
        pub url_file: Option<PathBuf> = None,
        /// A file with the password. Takes precedence over one in the address.
        pub password_file: Option<PathBuf> = None,
        /// The certificates to trust and to present, if the address asks for TLS.
        pub tls: Files = Files::default(),
        /// The first part of every key; the default is `sf`.
        pub namespace: Namespace = "sf".parse().expect("sf is a valid namespace"),
    }
}

impl From<&str> for Config {
    /// Returns the configuration for this address. Whether the address is valid is checked when it is used.
    fn from(url: &str) -> Self {
        Self { url: url.into(), ..Self::default() }
    }
}

impl Config {
    setters! {
        url: impl Into<SecretString> => url.into();
        url_file: impl Into<PathBuf> => Some(url_file.into());
        password_file: impl Into<PathBuf> => Some(password_file.into());
        tls: Files;
        namespace: Namespace;
    }

    /// Returns everything that is wrong with these values, each as `key: reason`.
    pub fn validate(&self) -> Vec<String> {
        let address = self.address();
        // Without a usable address it is unknown whether TLS is meant.
        let tls = address.as_ref().map_or(Ok(None), |address| self.tls_of(address));
        let problems = [address.err(), self.password().err(), tls.err()];
        problems.into_iter().flatten().map(|error| error.to_string()).collect()
    }

    /// Returns the address without its password, safe to show. If it is unclear which part is the password, shows less.
    pub fn shown(&self) -> String {
        self.url_text().map_or_else(
            |_| "an address that cannot be read".to_owned(),
            |text| url::shown(&text, self.password_file.is_some()),
        )
    }

    /// Returns every password that these values and the files that they name have. What is not an address counts as one, because it may
    /// contain one.
    #[doc(hidden)]
    pub fn passwords(&self) -> Vec<SecretString> {
        let in_file = self.url_file.as_ref().and_then(|path| read_secret(path, "redis.url_file").ok());
        let addresses = [Some(self.url.expose_secret().to_owned()), in_file].into_iter().flatten();
        let of_addresses = addresses.flat_map(|text| url::passwords(&text, self.password_file.is_some()));
        let of_file = self.password().ok().flatten().map(SecretString::from);
        of_addresses.chain(of_file).filter(|password| !password.expose_secret().is_empty()).collect()
    }

    fn url_text(&self) -> Result<String, Error> {
        match &self.url_file {
            Some(path) => read_secret(path, "redis.url_file"),
            None => Ok(self.url.expose_secret().to_owned()),
        }
    }

    fn address(&self) -> Result<Address, Error> {
        let key = if self.url_file.is_some() { "redis.url_file" } else { "redis.url" };
        url::parse(&self.url_text()?).map_err(|reason| Error::Address(format!("{key}: {reason}")))
    }

    fn password(&self) -> Result<Option<String>, Error> {
        self.password_file.as_ref().map(|path| read_secret(path, "redis.password_file")).transpose()
    }

    fn tls_of(&self, address: &Address) -> Result<Option<TlsConfig>, Error> {
        if address.tls { tls::connector(&self.tls).map(Some) } else { tls::unused(&self.tls).map(|()| None) }
    }

    /// Returns the client's configuration for the connection.
    pub(crate) fn client_config(&self) -> Result<fred::types::config::Config, Error> {
        let address = self.address()?;
        let tls = self.tls_of(&address)?;
        let Login { user, password } = address.login;
        let password = match self.password()? {
            Some(password) => Some(password),
            None => exposed(password),
        };
        Ok(fred::types::config::Config {
            server: server(address.servers),
            username: user,
            password,
            database: address.database,
            tls,
            fail_fast: true,
            ..fred::types::config::Config::default()
        })
    }
}

fn server(servers: Servers) -> ServerConfig {
    let server = |Host { name, port }: Host| Server::new(name, port);
    let all = |hosts: Vec<Host>| hosts.into_iter().map(server).collect();
    match servers {
        Servers::One(host) => ServerConfig::Centralized { server: server(host) },
        Servers::Socket(path) => ServerConfig::Unix { path },
        Servers::Cluster(hosts) => {
            ServerConfig::Clustered { hosts: all(hosts), policy: ClusterDiscoveryPolicy::default() }
        }
        Servers::Sentinel { hosts, service, login: Login { user, password } } => ServerConfig::Sentinel {
            hosts: all(hosts),
            service_name: service,
            username: user,
            password: exposed(password),
        },
    }
}

fn exposed(password: Option<SecretString>) -> Option<String> {
    password.map(|password| password.expose_secret().to_owned())
}

/// Returns the contents of a file, without the line break at its end.
fn read_secret(path: &Path, key: &str) -> Result<String, Error> {
    let wrong = |reason: String| Error::Address(format!("{key}: {} {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let text = text.trim_end_matches(['\r', '\n']);
    if text.is_empty() { Err(wrong("is empty".to_owned())) } else { Ok(text.to_owned()) }
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
    fn a_password_file_beats_the_address() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"0123\n").unwrap();
        let config = Config { password_file: Some(file.path().into()), ..at("redis://:other@host") };
        assert_eq!(config.client_config().unwrap().password.as_deref(), Some("0123"));
        let missing = Config { password_file: Some("no/such/file".into()), ..at("redis://host") };
        assert!(missing.validate()[0].starts_with("redis.password_file: no/such/file"));
    }

    #[test]
    fn every_password_is_known() {
        let file = |text: &[u8]| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            std::io::Write::write_all(&mut file, text).unwrap();
            file
        };
        let passwords = |config: &Config| -> Vec<String> {
            config.passwords().iter().map(|password| password.expose_secret().to_owned()).collect()
        };
        let (address, password) = (file(b"redis://worker:s3%40cret@host/2\n"), file(b"0123\n"));
        let both = Config { url_file: Some(address.path().into()), ..at("rediss://:other@host") };
        assert_eq!(passwords(&both), ["other", "s3@cret"]);
        let named = Config { password_file: Some(password.path().into()), ..at("redis://worker@host") };
        assert_eq!(passwords(&named), ["0123"]);
        let sentinel = "redis-sentinel://:a@host?sentinelServiceName=main&sentinelPassword=b";
        assert_eq!(passwords(&at(sentinel)), ["a", "b"]);
        assert_eq!(passwords(&at("redis://word@host")), ["word"]);
        assert_eq!(passwords(&at("redis:/x:canary@host")), ["redis:/x:canary@host"]);
        assert_eq!(passwords(&at("redis://host")), [""; 0]);
    }

    #[test]
    fn an_empty_secret_file_is_reported() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"\r\n").unwrap();
        let path = file.path().display();
        let password = Config { password_file: Some(file.path().into()), ..at("redis://worker@host") };
        assert_eq!(password.validate(), [format!("redis.password_file: {path} is empty")]);
        let url = Config { url_file: Some(file.path().into()), ..Config::default() };
        assert_eq!(url.validate(), [format!("redis.url_file: {path} is empty")]);
    }

    #[test]
    fn an_address_in_a_file_is_named_by_that_file_s_key() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"redis://:canary@/1\n").unwrap();
        let problems = Config { url_file: Some(file.path().into()), ..Config::default() }.validate();
        assert!(problems[0].starts_with("redis.url_file: the host is invalid"), "{problems:?}");
    }

    #[test]
    fn tls_settings_are_refused_if_the_address_does_not_use_tls() {
        let tls = Files { ca_file: Some("ca.pem".into()), ..Files::default() };
        let problems = Config { tls, ..at("redis://host") }.validate();
        assert_eq!(
            problems,
            [
                "redis.tls.ca_file: has no effect, because the address does not use TLS: start it with rediss://"
            ]
        );
    }
}
