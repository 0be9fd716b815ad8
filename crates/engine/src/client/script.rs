//! The Lua scripts: one file per transition, each beside the Rust file whose typed function calls it.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use fred::clients::Client;
use fred::interfaces::{ClientLike, LuaInterface};
use fred::types::{ClusterHash, CustomCommand, Key, Value};

use crate::client::assemble::{PRELUDE, assemble};
use crate::client::error::{Class, Error};
use crate::sabotage::sabotaged;

/// One script, with its name for errors and metrics.
#[derive(Debug)]
pub(crate) struct Script {
    pub name: &'static str,
    source: LazyLock<String>,
    sha: LazyLock<String>,
}

/// The scripts that only read, so that a login without the right to write can run them. `steps` writes only what a worker
/// tells it, and what `waitlists` would repair can wait.
const READING: [&str; 16] = [
    "agenda",
    "batched",
    "groups",
    "incidents",
    "lookup",
    "waitlist_jobs",
    "waitlists",
    "rules",
    "session_ended",
    "snapshot",
    "steps",
    "task_read",
    "tasks",
    "type_stats",
    "unserved",
    "upcoming",
];

/// Declares the scripts of a file: for each, a static and the name of the `.lua` file beside it.
macro_rules! scripts {
    ($($constant:ident $file:literal),* $(,)?) => {
        $(pub(crate) static $constant: $crate::client::script::Script = $crate::client::script::Script::new(
            $file,
            || $crate::client::script::whole($file, include_str!(concat!($file, ".lua"))),
            || $crate::client::script::sha(&$constant),
        );)*
    };
}
pub(crate) use scripts;

/// The arguments of a call, each after the name that the script gives it, and in the order of the script: in
/// `args![REPLAY; letter = id.to_string(), all_steps]`, the last one is a variable of this name. The names cost nothing.
/// `tests/architecture` compares them with those in the script, or the scripts.
macro_rules! args {
    (@value $name:ident) => {
        $name
    };
    (@value $name:ident = $value:expr) => {
        $value
    };
    ($($script:ident),+; $($name:ident $(= $value:expr)?),+ $(,)?) => {
        [$($crate::client::script::arg($crate::client::script::args!(@value $name $(= $value)?))),+]
    };
}
pub(crate) use args;

/// Converts a value to an argument.
pub(crate) fn arg(value: impl Into<Value>) -> Value {
    value.into()
}

/// Returns a script after the parts of the prelude that it uses.
pub(crate) fn whole(name: &str, own: &'static str) -> String {
    assemble(&sabotaged("prelude", PRELUDE), &sabotaged(name, own))
}

/// The hash by which Redis knows the script.
pub(crate) fn sha(script: &Script) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, script.source.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A script's answer: always an integer first, then data. The client takes a reply that begins with a text such as
/// `message` for a published message, so no script may begin its answer with data.
#[derive(Debug)]
pub struct Answer {
    pub status: i64,
    pub rest: Vec<Value>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, source: fn() -> String, sha: fn() -> String) -> Self {
        Self { name, source: LazyLock::new(source), sha: LazyLock::new(sha) }
    }

    /// Runs the script. If Redis does not have it, sends its source. This also loads it, on the node that has the keys,
    /// and is immune to a flush of the script cache. `may_only_read`: whether this is known of the login.
    pub(crate) async fn run(
        &self,
        client: &Client,
        keys: Vec<Key>,
        args: Vec<Value>,
        may_only_read: &AtomicBool,
    ) -> Result<Answer, Error> {
        let only_reads = READING.contains(&self.name);
        if only_reads && may_only_read.load(Ordering::Relaxed) {
            let reply = Box::pin(self.run_reading(client, &keys, &args)).await;
            // Somebody may have changed the rights of the login.
            if reply.as_ref().is_err_and(is_forbidden) {
                may_only_read.store(false, Ordering::Relaxed);
            }
            return self.read(reply?);
        }
        let reply = match self.call(client, keys.clone(), args.clone()).await {
            Err(error) if error.class() == Some(Class::NoScript) => {
                let reply = Box::pin(client.eval(self.source.as_str(), keys, args)).await;
                reply.map_err(|error| Error::from_client(self.name, &error))?
            }
            Err(refused) if only_reads && is_forbidden(&refused) => {
                match Box::pin(self.run_reading(client, &keys, &args)).await {
                    Err(error) if is_forbidden(&error) => return Err(refused),
                    Err(error) => return Err(error),
                    Ok(reply) => {
                        may_only_read.store(true, Ordering::Relaxed);
                        reply
                    }
                }
            }
            other => other?,
        };
        self.read(reply)
    }

    /// Runs the script by the commands that refuse writes, and need no right to write.
    async fn run_reading(&self, client: &Client, keys: &[Key], args: &[Value]) -> Result<Value, Error> {
        match self.call_reading(client, ("EVALSHA_RO", self.sha.as_str()), keys, args).await {
            Err(error) if error.class() == Some(Class::NoScript) => {
                self.call_reading(client, ("EVAL_RO", self.source.as_str()), keys, args).await
            }
            other => other,
        }
    }

    async fn call_reading(
        &self,
        client: &Client,
        (command, script): (&'static str, &str),
        keys: &[Key],
        args: &[Value],
    ) -> Result<Value, Error> {
        let mut all: Vec<Value> = vec![script.into(), Value::Integer(keys.len() as i64)];
        all.extend(keys.iter().cloned().map(Value::from));
        all.extend_from_slice(args);
        // Set explicitly: the client would hash the script.
        let slot = keys.first().map_or(ClusterHash::Random, |key| ClusterHash::Custom(key.cluster_hash()));
        let command = CustomCommand::new_static(command, slot, false);
        let reply = Box::pin(client.custom::<Value, Value>(command, all)).await;
        reply.map_err(|error| Error::from_client(self.name, &error))
    }

    async fn call(&self, client: &Client, keys: Vec<Key>, args: Vec<Value>) -> Result<Value, Error> {
        let reply = Box::pin(client.evalsha(self.sha.as_str(), keys, args)).await;
        reply.map_err(|error| Error::from_client(self.name, &error))
    }

    /// Reads an answer.
    pub(crate) fn read(&self, reply: Value) -> Result<Answer, Error> {
        let Value::Array(items) = reply else { return Err(Error::contract(self.name, reply)) };
        let mut items = items.into_iter();
        match items.next() {
            Some(Value::Integer(status)) => Ok(Answer { status, rest: items.collect() }),
            other => Err(Error::contract(self.name, other)),
        }
    }
}

/// True if the login may not run the command.
fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Refused { detail, .. } if detail.contains("NOPERM"))
}

/// All scripts of the source tree, without the prelude: their names and sources.
#[cfg(test)]
pub(crate) fn sources() -> std::collections::BTreeMap<String, String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let folders =
        std::fs::read_dir(root).unwrap().map(|folder| folder.unwrap().path()).filter(|path| path.is_dir());
    let files =
        folders.flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "lua"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    scripts.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::weight;

    #[test]
    fn scripts_weigh_fields_as_the_domain_does() {
        assert!(PRELUDE.contains(&format!("\nlocal FIELD_WEIGHT = {}\n", weight(0, 1))));
    }

    #[test]
    fn scripts_that_only_read_send_no_command_that_writes() {
        let all = sources();
        for name in READING {
            let words = all[name].split(|c: char| !c.is_ascii_alphanumeric());
            let writes = |word: &&str| {
                ["HSET", "HDEL", "HINCRBY", "DEL", "UNLINK", "XDEL", "SET", "ZREM"].contains(word)
            };
            let found: Vec<_> = words.filter(writes).collect();
            assert!(["steps", "waitlists"].contains(&name) || found.is_empty(), "{name}: {found:?}");
        }
    }
}
