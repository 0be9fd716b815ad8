//! The Lua scripts: one file per transition, each beside the Rust file whose typed function calls it.

use std::sync::LazyLock;

use fred::clients::Client;
use fred::interfaces::LuaInterface;
use fred::types::{Key, Value};

use crate::broker::client::assemble::assemble;
use crate::broker::client::error::{Class, Error};
use crate::sabotage::sabotaged;

/// One script, with its name for errors and metrics.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    source: LazyLock<String>,
    sha: LazyLock<String>,
}

/// The functions that scripts share. Redis creates every function again on every call, so a script gets only those that
/// it uses.
const PRELUDE: &str = include_str!("prelude.lua");

/// Declares the scripts of a file: for each, a static and the name of the `.lua` file beside it.
macro_rules! scripts {
    ($($constant:ident $file:literal),* $(,)?) => {
        $(pub(in crate::broker) static $constant: $crate::broker::client::script::Script = $crate::broker::client::script::Script::new(
            $file,
            || $crate::broker::client::script::whole($file, include_str!(concat!($file, ".lua"))),
            || $crate::broker::client::script::sha(&$constant),
        );)*
    };
}
pub(in crate::broker) use scripts;

/// Returns a script after the parts of the prelude that it uses.
pub(in crate::broker) fn whole(name: &str, own: &'static str) -> String {
    assemble(&sabotaged("prelude", PRELUDE), &sabotaged(name, own))
}

/// The hash by which Redis knows the script.
pub(in crate::broker) fn sha(script: &Script) -> String {
    fred::util::sha1_hash(&script.source)
}

/// A script's answer: always an integer first, then data. The client takes a reply that begins with a text such as
/// `message` for a published message, so no script may begin its answer with data.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: i64,
    pub(crate) rest: Vec<Value>,
}

impl Script {
    pub(in crate::broker) const fn new(
        name: &'static str,
        source: fn() -> String,
        sha: fn() -> String,
    ) -> Self {
        Self { name, source: LazyLock::new(source), sha: LazyLock::new(sha) }
    }

    /// Runs the script. If Redis does not have it, sends its source. This also loads it, on the node that has the keys,
    /// and is immune to a flush of the script cache.
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

    /// Reads an answer.
    pub(in crate::broker) fn read(&self, reply: Value) -> Result<Answer, Error> {
        let Value::Array(items) = reply else { return Err(Error::contract(self.name, reply)) };
        let mut items = items.into_iter();
        match items.next() {
            Some(Value::Integer(status)) => Ok(Answer { status, rest: items.collect() }),
            other => Err(Error::contract(self.name, other)),
        }
    }
}

/// All scripts of the source tree: their names and sources.
#[cfg(test)]
pub(crate) fn sources() -> std::collections::BTreeMap<String, String> {
    let rooms = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/broker");
    let folders =
        std::fs::read_dir(rooms).unwrap().map(|room| room.unwrap().path()).filter(|path| path.is_dir());
    let files = folders.flat_map(|room| std::fs::read_dir(room).unwrap()).map(|file| file.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "lua"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    scripts.map(read).collect()
}
