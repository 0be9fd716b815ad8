//! What the user of a database may choose, with its defaults and bounds.

use std::time::Duration;

use crate::Error;

/// The pool of a database and its limits of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How many connections one process has at most: 1 to 64. The default is 4.
    pub max_connections: u32,
    /// How long to wait for a connection: 100 ms to 1 minute. The default is 5 s.
    pub acquire_timeout: Duration,
    /// How long one statement may take: 100 ms to 10 minutes. The default is 30 s. The server ends it then, except that MySQL
    /// ends only reads; if the server is silent for 2 s more, the connection is given up.
    pub statement_limit: Duration,
    /// Whether the database refuses all writes of these connections. The default is no.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_connections: 4,
            acquire_timeout: Duration::from_secs(5),
            statement_limit: Duration::from_secs(30),
            read_only: false,
        }
    }
}

impl Options {
    /// Options for answering questions of people: no writes, and 5 s for each statement.
    pub fn reading() -> Self {
        Self { statement_limit: Duration::from_secs(5), read_only: true, ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let second = Duration::from_secs(1);
        let fits = |time: Duration, most: Duration| time >= second / 10 && time <= most;
        if !(1..=64).contains(&self.max_connections) {
            let found = self.max_connections;
            return Err(Error::Input(format!("max_connections is {found}, but must be 1 to 64")));
        }
        if !fits(self.acquire_timeout, 60 * second) {
            let found = self.acquire_timeout;
            return Err(Error::Input(format!("acquire_timeout is {found:?}, but must be 100 ms to 1 min")));
        }
        if !fits(self.statement_limit, 600 * second) {
            let found = self.statement_limit;
            return Err(Error::Input(format!("statement_limit is {found:?}, but must be 100 ms to 10 min")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_their_bounds() {
        assert!(Options::default().check().is_ok());
        assert!(Options::reading().check().is_ok());
    }

    #[test]
    fn an_option_beyond_its_bound_is_named() {
        let options = Options { max_connections: 0, ..Options::default() };
        assert!(options.check().unwrap_err().to_string().contains("max_connections is 0"));
        let options = Options { statement_limit: Duration::ZERO, ..Options::default() };
        assert!(options.check().unwrap_err().to_string().contains("statement_limit"));
    }
}
