//! A worker of the real binary with a pool of programs.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::cli::json;
use crate::process::{Launch, Worker, python};
use crate::redis_server::RedisServer;
use crate::rest::state_of;
use crate::wait::until;

/// How long a job or a program may take.
pub const SOON: Duration = Duration::from_secs(60);

/// A program that does what its payloads say, one job at a time or several. It notes each start of a program in `pids`, and each
/// job that it begins in `ran`.
pub const PROGRAM: &str = r#"
import base64, json, os, signal, subprocess, sys, threading, time

def say(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()

def note(file, text):
    with open(file, "a") as notes:
        notes.write(f"{text}\n")

def answer(job, outcome="done", **fields):
    say(type="result", ref=job["ref"], outcome=outcome, **fields)

def perform(job):
    note("ran", job["id"])
    what = job.get("payload")
    if "payload_base64" in job: answer(job, result_base64=job["payload_base64"])
    elif what == "retry-once": answer(job, "retry", error="not yet") if job["attempt"] == 1 else answer(job, result="at last")
    elif what == "fatal": answer(job, "fatal", error="never")
    elif what == "snooze-once" and not os.path.exists("snoozed"):
        note("snoozed", job["id"])
        answer(job, "snooze", delay_ms=50, reason="later")
    elif what == "drop": answer(job, "drop", reason="unwanted")
    elif what == "crash":
        sys.stderr.write("out of luck\n")
        os._exit(3)
    elif what == "abort":
        time.sleep(0.2)
        os.abort()
    elif what == "nonsense":
        print("PHP Warning: undefined", flush=True)
        time.sleep(1000)
    elif what == "flood":
        while True: say(type="log", ref=job["ref"], message="x" * 200)
    elif what == "hang": time.sleep(1000)
    elif what == "hang-with-children":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for how in ["heeds", "ignores"]: subprocess.Popen([sys.executable, "-c", CHILD, how, "worker.py"])
        time.sleep(1000)
    elif what == "grow":
        hoard.append(b"x" * (128 << 20))
        answer(job, result=os.getpid())
    elif what == "wait":
        while not os.path.exists("gate"): time.sleep(0.01)
        answer(job, result=os.getpid())
    elif isinstance(what, (int, float)):
        time.sleep(what)
        answer(job, "done" if what < 10 else "retry")
    else: answer(job, result=os.getpid())

# A child that ends when it is asked to, or does not.
CHILD = """
import os, signal, sys, time
def end(*_):
    with open("terms", "a") as terms: terms.write("1\\n")
    os._exit(0)
signal.signal(signal.SIGTERM, end if sys.argv[1] == "heeds" else signal.SIG_IGN)
with open("children", "a") as children: children.write(f"{os.getpid()}\\n")
time.sleep(1000)
"""
hoard = []

note("pids", os.getpid())
hello = json.loads(sys.stdin.readline())
say(type="ready", protocol=1, types=os.environ["TYPES"].split(","), inflight=hello["inflight"], ahead=hello["ahead"], sdk="test 1")
for line in sys.stdin:
    job = json.loads(line)
    if job["type"] != "job": continue
    if hello["inflight"] == 1: perform(job)
    else: threading.Thread(target=perform, args=[job], daemon=True).start()
    if job.get("headers", {}).get("last"):
        say(type="bye")
        sys.exit(0)
"#;

/// A server, a folder for the program, and a configuration with a pool that is named `py`.
pub struct Stage {
    pub server: RedisServer,
    pub dir: tempfile::TempDir,
    pub toml: String,
}

impl Stage {
    /// `pool` has further settings of the pool, `types` the sections of the types.
    pub fn new(pool: &str, types: &str) -> Self {
        let (server, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
        fs::write(dir.path().join("worker.py"), PROGRAM).unwrap();
        let (path, python) = (dir.path().to_str().unwrap(), python());
        let toml = format!(
            "[worker]\nlease = \"3s\"\n[queues.default]\nconcurrency = 64\ntracking = \"all\"\n[telemetry]\nlisten = \"off\"\n\
             [pools.py]\ncommand = [\"{python}\", \"worker.py\"]\ndirectory = \"{path}\"\nenv = {{ TYPES = \"act,other\" }}\n\
             {pool}\n{types}\n"
        );
        Self { server, dir, toml }
    }

    /// With one type that is named `act`, which has these further settings.
    pub fn acting(pool: &str, act: &str) -> Self {
        Self::new(pool, &format!("[types.act]\nhandler = {{ pool = \"py\" }}\n{act}"))
    }

    pub fn launch(&self) -> Launch {
        Launch::new(&["--config", "{config}", "--redis", &self.server.url(), "worker"]).config(&self.toml)
    }

    pub fn start(&self) -> Worker {
        self.launch().start()
    }

    pub fn submit(&self, id: &str, payload: &str) {
        self.submit_with(id, &["payload", payload]);
    }

    pub fn submit_with(&self, id: &str, fields: &[&str]) {
        self.server.cmd(&[&["XADD", "sf:{default}:jobs", "*", "type", "act", "id", id], fields].concat());
    }

    /// Waits until a job has ended. Returns its state.
    pub fn until_over(&self, id: &str) -> String {
        until(&format!("{id} to end"), SOON, || {
            state_of(&self.server, id).filter(|state| ["done", "dead", "cancelled"].contains(&state.as_str()))
        })
    }

    /// Waits until a job has ended. Returns its status as the program tells it.
    pub fn until_ended(&self, id: &str) -> Value {
        self.until_over(id);
        json(&self.server, &["status", id])
    }

    /// Submits a job and returns its status once it has ended.
    pub fn run(&self, id: &str, payload: &str) -> Value {
        self.submit(id, payload);
        self.until_ended(id)
    }

    /// Creates an empty file in the folder of the programs, such as the `gate` that some jobs wait for.
    pub fn touch(&self, file: &str) {
        fs::write(self.dir.path().join(file), "").unwrap();
    }

    pub fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub fn runs(&self, id: &str) -> usize {
        self.lines("ran").iter().filter(|ran| *ran == id).count()
    }

    pub fn until_runs(&self, id: &str) {
        until(&format!("{id} to run"), SOON, || self.runs(id) > 0);
    }

    /// The programs that run now.
    pub fn alive(&self) -> Vec<String> {
        self.lines("pids").into_iter().filter(|pid| is_alive(pid)).collect()
    }
}

/// Whether a program still has this id. A zombie, which only waits to be reaped, has no command line.
pub fn is_alive(pid: &str) -> bool {
    let command = fs::read(Path::new("/proc").join(pid).join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains("worker.py")
}
