//! Waiting until what was written is also on replicas or on the disk.
//!
//! Redis confirms what the asking connection has written, so the writing and the waiting use the same connection. That
//! connection never reconnects: on a new one, perhaps to a restarted server, the answer would cover nothing. A job that was
//! known before was written over another connection, so something else is written before the waiting.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Expiration, Value};

use crate::Queue;
use crate::client::decode;
use crate::client::error::{Class, Error};
use crate::client::link::{Link, Role};
use crate::client::setup::COMMAND_DEADLINE;
use crate::submit::enqueue::drawn_call;

/// What must hold before a job's submission succeeds; see the example of `Submission`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Redis has it in memory, and persists it as configured.
    #[default]
    Memory,
    /// This many replicas have it too.
    Replicas(u32),
    /// It is in the append-only file on the server's disk. Needs Redis 7.2 or later.
    Aof,
}

impl fmt::Display for Durability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => out.write_str("memory"),
            Self::Replicas(count) => write!(out, "replicas:{count}"),
            Self::Aof => out.write_str("aof"),
        }
    }
}

impl FromStr for Durability {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const RULE: &str = "a durability must be memory, aof, or replicas with a count, such as replicas:1";
        match (text, text.split_once(':')) {
            ("memory", _) => Ok(Self::Memory),
            ("aof", _) => Ok(Self::Aof),
            (_, Some(("replicas", count))) => {
                count.parse().ok().filter(|count| *count > 0).map(Self::Replicas).ok_or(RULE)
            }
            _ => Err(RULE),
        }
    }
}

impl Queue {
    /// Opens a connection that never reconnects, over which writes can be confirmed.
    #[doc(hidden)]
    pub async fn open_confirming(&self) -> Result<Link, Error> {
        if self.link.is_clustered() {
            let detail = "the nodes of a cluster cannot confirm what they have stored".to_owned();
            return Err(Error::Refused { command: "wait", class: Class::Configuration, detail });
        }
        self.link.open_another(Role::Confirming).await
    }

    /// Writes a key that is gone after a moment. A replica or a file that has it also has everything that was written before it.
    #[doc(hidden)]
    pub async fn write_mark(&self) -> Result<(), Error> {
        let (client, key) = (self.link.client(), self.keys.receipt(&drawn_call()));
        let set = client.set::<Value, _, _>(key, "", Some(Expiration::PX(1000)), None, false);
        self.link.ask("set", set).await.map(drop)
    }

    /// Returns how many replicas have everything written over this connection, after waiting at most `within` for
    /// `count` of them.
    #[doc(hidden)]
    pub async fn await_replicas(&self, count: u32, within: Duration) -> Result<u64, Error> {
        let args = vec![Value::Integer(count.into()), whole_ms(within)];
        let reply = self.run_wait("WAIT", args, within).await?;
        decode::number(&reply).ok_or_else(|| Error::contract("wait", reply))
    }

    /// Returns true if everything written over this connection reached the server's disk within this time.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] if Redis is older than 7.2 or writes no append-only file.
    #[doc(hidden)]
    pub async fn await_aof(&self, within: Duration) -> Result<bool, Error> {
        let args = vec![Value::Integer(1), Value::Integer(0), whole_ms(within)];
        let reply = self.run_wait("WAITAOF", args, within).await?;
        let Value::Array(kept) = &reply else { return Err(Error::contract("waitaof", reply)) };
        let local = kept.first().and_then(decode::number);
        local.map(|local| local > 0).ok_or_else(|| Error::contract("waitaof", reply))
    }

    async fn run_wait(
        &self,
        command: &'static str,
        args: Vec<Value>,
        within: Duration,
    ) -> Result<Value, Error> {
        let options = Options { timeout: Some(within + COMMAND_DEADLINE), ..Options::default() };
        let client = self.link.client().with_options(&options);
        let custom = CustomCommand::new_static(command, ClusterHash::Random, false);
        let reply = async move { Box::pin(client.custom::<Value, Value>(custom, args)).await };
        self.link.ask_waiting(if command == "WAIT" { "wait" } else { "waitaof" }, reply).await
    }
}

/// Rounds to at least 1 ms, because Redis takes 0 as waiting for ever.
fn whole_ms(within: Duration) -> Value {
    Value::Integer(i64::try_from(within.as_millis()).unwrap_or(i64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durability_is_read_back_from_its_text() {
        for durability in [Durability::Memory, Durability::Replicas(2), Durability::Aof] {
            assert_eq!(durability.to_string().parse(), Ok(durability));
        }
        for text in ["", "disk", "replicas", "replicas:", "replicas:0", "replicas:-1", "aof:1"] {
            assert!(text.parse::<Durability>().is_err(), "{text}");
        }
    }
}
