//! Parses the address of a database. No error and no text that this module returns contains a user or a password.

use std::path::PathBuf;
use std::str::FromStr as _;

use secrecy::{ExposeSecret as _, SecretString};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::Error;

const BEGIN: &str = "must begin with mysql://, mariadb://, postgres:// or postgresql://, or be sqlite:path";

const ENCODE: &str = "the user name or password has a character that must be percent-encoded: write %2F for /, %3F for ?, %23 for # and %40 for @";

/// Where a database is, and how to log in.
pub(super) struct Address {
    pub server: Server,
    shown: String,
}

/// The options of sqlx, which nobody else makes.
pub(super) enum Server {
    MySql(Box<MySqlConnectOptions>),
    Postgres(Box<PgConnectOptions>),
    Sqlite(PathBuf),
}

impl Address {
    pub(super) fn parse(url: &SecretString) -> Result<Self, Error> {
        let url = url.expose_secret().trim();
        if let Some(path) = url.strip_prefix("sqlite:") {
            return sqlite(path.strip_prefix("//").unwrap_or(path));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| Error::Address(BEGIN.to_owned()))?;
        let shown = shown(scheme, rest)?;
        // The text of the error quotes what it refuses, which may be a part of a password.
        let refused = |_: sqlx::Error| {
            Error::Address(
                "has an invalid host, port or parameter: write user:password@host:port/database".to_owned(),
            )
        };
        let server = match scheme {
            "mysql" | "mariadb" => {
                let options = MySqlConnectOptions::from_str(&format!("mysql://{rest}")).map_err(refused)?;
                Server::MySql(Box::new(options))
            }
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(&format!("postgres://{rest}")).map_err(refused)?;
                Server::Postgres(Box::new(options))
            }
            _ => return Err(Error::Address(BEGIN.to_owned())),
        };
        Ok(Self { server, shown })
    }

    /// Returns the address without user, password and parameters.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}

fn sqlite(path: &str) -> Result<Address, Error> {
    if path.is_empty() || path.starts_with(":memory:") {
        let why = "names no file: write sqlite: and a path. A database in memory would be another one for each connection";
        return Err(Error::Address(why.to_owned()));
    }
    Ok(Address { server: Server::Sqlite(PathBuf::from(path)), shown: format!("sqlite:{path}") })
}

fn shown(scheme: &str, rest: &str) -> Result<String, Error> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if rest[end..].contains('@') || authority.matches('@').count() > 1 || rest.contains('#') {
        return Err(Error::Address(ENCODE.to_owned()));
    }
    if !matches!(scheme, "mysql" | "mariadb" | "postgres" | "postgresql") {
        return Err(Error::Address(BEGIN.to_owned()));
    }
    if path.trim_matches('/').is_empty() {
        return Err(Error::Address("names no database: write …@host:port/database".to_owned()));
    }
    let host = authority.rsplit('@').next().unwrap_or_default();
    Ok(format!("{scheme}://{host}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<String, String> {
        let address = Address::parse(&url.into());
        address.map(|address| address.shown().to_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_is_shown_without_its_login() {
        assert_eq!(parse("mysql://ann:pass@db:3306/app?ssl-mode=REQUIRED").unwrap(), "mysql://db:3306/app");
        assert_eq!(parse("postgresql://ann:p%40ss@db/app").unwrap(), "postgresql://db/app");
        assert_eq!(parse("mariadb://db/app").unwrap(), "mariadb://db/app");
        assert_eq!(parse("sqlite:///tmp/x.db").unwrap(), "sqlite:/tmp/x.db");
        assert_eq!(parse("sqlite:x.db").unwrap(), "sqlite:x.db");
    }

    #[test]
    fn no_error_has_a_password() {
        let wrong = [
            "mysql://ann:se/cret@db/app",
            "mysql://ann:se@cret@db/app",
            "postgres://ann:se#cret@db/app",
            "postgres://ann:secret@db:port/app",
            "postgres://ann:secret@db/app?sslmode=secret",
            "postgres://ann:secret@db",
            "oracle://ann:secret@db/app",
            "ann:secret@db/app",
        ];
        for url in wrong {
            let error = parse(url).unwrap_err();
            assert!(!error.contains("cret") && !error.contains("ann"), "{error}");
        }
    }

    #[test]
    fn a_database_in_memory_is_refused() {
        assert!(parse("sqlite::memory:").unwrap_err().contains("names no file"));
    }
}
