//! Scripts that are called twice, as by a client that got no answer the first time. The second call changes nothing.

use redis::Value;

use super::attempts::{Attempt, COMPLETE_KEYS, DEFER_KEYS};
use super::keys::{HIGH, LOW, PROMOTE_KEYS, RECORD, STREAM};
use super::{answers, jobs_args, only_answer, reply, source, status_and_rest};
use crate::redis_server::RedisServer;

/// A server with a group on each stream.
pub struct Scripts {
    pub server: RedisServer,
}

impl Scripts {
    pub fn start() -> Self {
        let server = RedisServer::builder().args(&["--enable-debug-command", "local"]).start();
        for stream in [STREAM, HIGH, LOW] {
            server.cmd(&["XGROUP", "CREATE", stream, "fleet", "0", "MKSTREAM"]);
        }
        Self { server }
    }

    /// Calls a script. Returns its status and the rest of its answer.
    pub fn call(&self, source: &str, keys: &[&str], args: &[impl AsRef<[u8]>]) -> (i64, Vec<Value>) {
        status_and_rest(reply(&self.server, source, keys, args))
    }

    /// Lets `me` call a script about jobs of the main lane, each with its values. Returns each job's answer.
    pub fn call_each(&self, source: &str, keys: &[&str], jobs: &[&[impl AsRef<[u8]>]]) -> Vec<Value> {
        answers(reply(&self.server, source, keys, &jobs_args("me", "normal", jobs)))
    }

    /// Calls a script that handles several jobs about one of them. Returns the status and the rest of its answer.
    pub fn call_one(&self, source: &str, keys: &[&str], values: &[impl AsRef<[u8]>]) -> (i64, Vec<Value>) {
        only_answer(self.call_each(source, keys, &[values]))
    }

    /// Returns a digest of all keys, and all pending entries with their consumers.
    pub fn digest(&self) -> Vec<Value> {
        let pending = [STREAM, HIGH, LOW].map(|stream| self.server.cmd(&["XPENDING", stream, "fleet"]));
        [vec![self.server.cmd(&["DEBUG", "DIGEST"])], pending.to_vec()].concat()
    }

    /// Calls twice. The statuses must be these, and the second call must change nothing.
    pub fn twice(&self, source: &str, keys: &[&str], args: &[impl AsRef<[u8]>], want: [i64; 2]) {
        self.same_twice(want, || self.call(source, keys, args).0);
    }

    /// Calls a script that handles several jobs twice, about one job. The statuses must be these, and the second call must change
    /// nothing.
    pub fn one_twice(&self, source: &str, keys: &[&str], values: &[impl AsRef<[u8]>], want: [i64; 2]) {
        self.same_twice(want, || self.call_one(source, keys, values).0);
    }

    fn same_twice(&self, want: [i64; 2], call: impl Fn() -> i64) {
        let first = call();
        let between = self.digest();
        let second = call();
        assert_eq!([first, second], want);
        assert_eq!(self.digest(), between);
    }

    /// Returns an entry that is pending for the consumer `me`.
    pub fn delivered(&self) -> String {
        let added = self.server.cmd(&["XADD", STREAM, "*", "type", "test", "id", "j"]);
        let read = ["XREADGROUP", "GROUP", "fleet", "me", "STREAMS", STREAM, ">"];
        self.server.cmd(&read);
        redis::from_redis_value(added).unwrap()
    }

    pub fn defer(&self, entry: &str, delay: &str) -> (i64, Vec<Value>) {
        self.call_one(source("defer"), &DEFER_KEYS, &Attempt::first(entry).defer_values(delay))
    }

    pub fn int(&self, command: &[&str]) -> i64 {
        redis::from_redis_value(self.server.cmd(command)).unwrap()
    }

    pub fn state(&self) -> String {
        redis::from_redis_value(self.server.cmd(&["HGET", RECORD, "state"])).unwrap()
    }

    /// Returns a job whose first attempt was abandoned and whose retry is in the stream again, delivered to `me`.
    pub fn retried(&self) -> (String, String) {
        let first = self.delivered();
        assert_eq!(self.defer(&first, "0").0, 1);
        assert_eq!(self.call(source("promote"), &PROMOTE_KEYS, &["500", "1048576"]).0, 1);
        self.server.cmd(&["XREADGROUP", "GROUP", "fleet", "me", "COUNT", "1", "STREAMS", STREAM, ">"]);
        let range: Vec<(String, Vec<String>)> =
            redis::from_redis_value(self.server.cmd(&["XRANGE", STREAM, "-", "+"])).unwrap();
        (first, range[0].0.clone())
    }

    /// Returns the retry of such a job, after the first attempt has succeeded late.
    pub fn succeeded_late(&self) -> String {
        let (first, retry) = self.retried();
        let values = Attempt::first(&first).complete_values();
        assert_eq!(self.call_one(source("complete"), &COMPLETE_KEYS, &values).0, 2);
        assert_eq!(self.state(), "done");
        retry
    }
}
