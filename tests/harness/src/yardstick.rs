//! How long scripts block Redis, according to its slow log.
//!
//! The slow log measures wall time, and other tests run at the same time. So a script with a known amount of work runs all the
//! while, and the ratio of its longest to its shortest time is allowed to the other scripts too. A script that is really slow is
//! slow every time; one that the machine delayed is not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Value;

use crate::redis_server::RedisServer;
use crate::wait::pause_for;

/// How long a script may take on an idle machine, in microseconds.
const LONGEST: i64 = 5_000;

/// Work that takes about a millisecond.
const KNOWN: &str = "local n = 0 for i = 1, 200000 do n = n + i end";

/// An entry of the slow log: how many microseconds a command took, and its beginning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Slow {
    us: i64,
    command: String,
    is_yardstick: bool,
}

fn slowest(server: &RedisServer) -> Vec<Slow> {
    let Value::Array(entries) = server.cmd(&["SLOWLOG", "GET", "-1"]) else { panic!("no slow log") };
    let entry = |entry: Value| {
        let Value::Array(parts) = entry else { panic!("{entry:?}") };
        let us: i64 = redis::from_redis_value(parts[2].clone()).unwrap();
        let Value::Array(args) = &parts[3] else { panic!("{parts:?}") };
        let text = |arg: &Value| match arg {
            Value::BulkString(bytes) => {
                String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).replace('\n', " ")
            }
            other => format!("{other:?}"),
        };
        let whole = |arg: &Value| matches!(arg, Value::BulkString(bytes) if bytes.ends_with(MARK.as_bytes()));
        let is_yardstick = args.iter().any(whole);
        Slow { us, command: args.iter().take(12).map(text).collect::<Vec<_>>().join(" "), is_yardstick }
    };
    let mut all: Vec<_> = entries.into_iter().map(entry).collect();
    all.sort();
    all.reverse();
    all
}

/// A known amount of work, repeated until this is dropped.
pub struct Yardstick {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Marks the yardstick's script in the slow log.
const MARK: &str = "return 'yardstick'";

impl Yardstick {
    /// Starts the work.
    pub fn lay(server: &RedisServer) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mut client) = (Arc::clone(&stop), server.client());
        let command = redis::cmd("EVAL").arg(format!("{KNOWN} {MARK}")).arg(1).arg("sf:yard").to_owned();
        let thread = std::thread::spawn(move || {
            loop {
                command.exec(&mut client).unwrap();
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                // The less of Redis's time this takes, the fewer of the machine's delays it meets.
                pause_for(Duration::from_millis(2));
            }
        });
        Self { stop, thread: Some(thread) }
    }

    /// Returns the shortest and the longest time that the work took, and all other scripts in the slow log.
    fn read(mut self, server: &RedisServer) -> (i64, i64, Vec<Slow>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        let all = slowest(server);
        let scripts = all.into_iter().filter(|slow| slow.command.starts_with("EVAL"));
        let (ours, others): (Vec<_>, Vec<_>) = scripts.partition(|slow| slow.is_yardstick);
        (ours.last().unwrap().us, ours[0].us, others)
    }

    /// Fails if a script took longer than the machine's load explains.
    pub fn judge(self, server: &RedisServer) -> Verdict {
        let (least, most, others) = self.read(server);
        let allowed = LONGEST * most / least;
        println!("known work took {least} to {most} us");
        tell(&others);
        match others.first() {
            Some(slow) if slow.us >= allowed => Err(format!("more than {allowed} us: {slow:?}")),
            Some(_) | None => Ok(()),
        }
    }
}

/// Prints the shortest and the longest time of each script.
fn tell(slow: &[Slow]) {
    let mut kinds: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for slow in slow {
        let words = slow.command.split(' ');
        let keys = words.filter(|word| word.starts_with("sf:")).take(4).collect::<Vec<_>>();
        kinds.entry(keys.join(" ")).or_default().push(slow.us);
    }
    for (kind, times) in kinds {
        println!("{} to {} us, {} times: {kind}", times[times.len() - 1], times[0], times.len());
    }
}

/// Empties the slow log, and lets it note every command that takes this many microseconds.
pub fn log_from(server: &RedisServer, us: &str) {
    for setting in [["slowlog-log-slower-than", us], ["slowlog-max-len", "1000000"]] {
        server.cmd(&["CONFIG", "SET", setting[0], setting[1]]);
    }
    server.cmd(&["SLOWLOG", "RESET"]);
}

/// An error names the scripts of one run that took longer than allowed.
pub type Verdict = Result<(), String>;

/// Fails if scripts took longer than allowed in three runs in a row.
pub async fn in_one_of_three(run: impl AsyncFn() -> Verdict) {
    let mut slow = Vec::new();
    while let Err(found) = run().await {
        slow.push(found);
        assert!(slow.len() < 3, "three times in a row:\n{}", slow.join("\n"));
    }
}
