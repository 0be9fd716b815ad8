//! The Lua scripts: one file per transition, each behind one typed function elsewhere in this folder.

use std::sync::LazyLock;

use fred::clients::Client;
use fred::interfaces::LuaInterface;
use fred::types::{Key, Value};

use super::assemble::assemble;
use super::error::{Class, Error};
use crate::sabotage::spoiled;

/// One script, with its name for errors and metrics.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    source: LazyLock<String>,
    sha: LazyLock<String>,
}

/// What scripts share. Redis makes every function anew for every call, so each gets those alone that it uses.
const PRELUDE: &str = include_str!("scripts/prelude.lua");

macro_rules! scripts {
    ($($(#[$meta:meta])? $constant:ident $file:literal),* $(,)?) => {
        $($(#[$meta])? pub(crate) static $constant: Script = Script {
            name: $file,
            source: LazyLock::new(|| {
                let own = include_str!(concat!("scripts/", $file, ".lua"));
                assemble(&spoiled("prelude", PRELUDE), &spoiled($file, own))
            }),
            sha: LazyLock::new(|| fred::util::sha1_hash(&$constant.source)),
        };)*
    };
}

scripts! {
    ACKNOWLEDGE "acknowledge",
    #[cfg(feature = "testing")]
    ADVANCE "advance",
    AGENDA "agenda",
    AMEND "amend",
    BACKLOG "backlog",
    BATCH "batch",
    BATCHED "batched",
    BEAT "beat",
    BEGIN "begin",
    BURY "bury",
    CALL "call",
    CANCEL "cancel",
    CANCELS "cancels",
    CANCELLED "cancelled",
    CLAIM "claim",
    COMPLETE "complete",
    CRON_MOVE "cron_move",
    CRON_PAUSE "cron_pause",
    CRON_PUT "cron_put",
    CRON_REMOVE "cron_remove",
    DECIDE "decide",
    DEFER "defer",
    DEPTHS "depths",
    DROP "drop",
    ENDINGS "endings",
    ENQUEUE "enqueue",
    GAUGE "gauge",
    JOIN "join",
    KEEPALIVE "keepalive",
    LEAD "lead",
    LOOKUP "lookup",
    PROMOTE "promote",
    PUBLISH "publish",
    REAP "reap",
    REDATE "redate",
    RELEASE "release",
    REPLAY "replay",
    REPORT "report",
    SCHEDULE "schedule",
    STALE "stale",
    STEP_BEGIN "step_begin",
    STEP_END "step_end",
    STEPS "steps",
    SUBMIT "submit",
    TICK "tick",
    UPCOMING "upcoming",
    WISHES "wishes",
}

/// A script's answer: always an integer, and what follows it. The client takes a reply that begins with a text such as
/// `message` for a published message, so no script may begin its answer with data.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: i64,
    pub(crate) rest: Vec<Value>,
}

impl Script {
    /// Runs the script; sends its source where Redis does not have it, which also loads it, on the node that has the
    /// keys, and cannot be beaten by the next flush of the script cache.
    pub(crate) async fn run(
        &self,
        client: &Client,
        keys: Vec<Key>,
        args: Vec<Value>,
    ) -> Result<Answer, Error> {
        let reply = match self.call(client, keys.clone(), args.clone()).await {
            Err(error) if error.class() == Some(Class::NoScript) => {
                let reply = Box::pin(client.eval(self.source.as_str(), keys, args)).await;
                reply.map_err(|error| Error::from_client(self.name, &error))?
            }
            other => other?,
        };
        self.read(reply)
    }

    async fn call(&self, client: &Client, keys: Vec<Key>, args: Vec<Value>) -> Result<Value, Error> {
        let reply = Box::pin(client.evalsha(self.sha.as_str(), keys, args)).await;
        reply.map_err(|error| Error::from_client(self.name, &error))
    }

    fn read(&self, reply: Value) -> Result<Answer, Error> {
        let Value::Array(items) = reply else { return Err(Error::contract(self.name, reply)) };
        let mut items = items.into_iter();
        match items.next() {
            Some(Value::Integer(status)) => Ok(Answer { status, rest: items.collect() }),
            other => Err(Error::contract(self.name, other)),
        }
    }
}
