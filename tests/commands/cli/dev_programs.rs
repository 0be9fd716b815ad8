//! What `dev` gives the programs of handlers, and what it shows of them.

use std::fs;
use std::time::Duration;

use harness::process::{Launch, Worker, python};
use harness::wait::until;

const SOON: Duration = Duration::from_secs(60);

/// A program that writes the variables that it misses or should not have, and something for the terminal, and then each payload.
const PROGRAM: &str = r#"
import json, os, sys
host = os.environ.get("APP_HOST")
if host is None: sys.exit("APP_HOST is not set")
own = [name for name, value in os.environ.items() if name.startswith("STREAMFLEET__") or "canary" in value]
print(f"host {host}, secrets {own}", file=sys.stderr, flush=True)
hello = json.loads(sys.stdin.readline())
print(json.dumps({"type": "ready", "protocol": 1}), flush=True)
for line in sys.stdin:
    job = json.loads(line)
    print("\x1b[2Jwarning \u202e about", job.get("payload"), file=sys.stderr, flush=True)
    print("  and a line without an end", file=sys.stderr, end="", flush=True)
    print(json.dumps({"type": "result", "ref": job["ref"], "outcome": "done"}), flush=True)
"#;

/// A folder with the program and a private server.
struct Cli {
    dir: tempfile::TempDir,
}

impl Cli {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("worker.py"), PROGRAM).unwrap();
        fs::write(dir.path().join("login"), "canary\n").unwrap();
        Self { dir }
    }

    fn path(&self) -> &str {
        self.dir.path().to_str().unwrap()
    }

    /// Prepares `dev`, with these settings of the pool and further arguments.
    fn dev(&self, pool: &str, more: &[&str]) -> Launch {
        let (python, path) = (python(), self.path());
        let toml = format!(
            "[telemetry]\nlisten = \"off\"\n[types.\"mail.send\"]\nhandler.pool = \
             {{ command = [\"{python}\", \"worker.py\"], directory = \"{path}\"{pool} }}\n"
        );
        let folder = self.dir.path().join("dev");
        let args = ["--config", "{config}", "dev", "--folder", folder.to_str().unwrap()];
        let launch = Launch::new(&[&args, more].concat()).config(&toml).env("APP_HOST", "db.local");
        let login = self.dir.path().join("login");
        let launch = launch.env("STREAMFLEET__REDIS__PASSWORD_FILE", login.to_str().unwrap());
        let launch =
            launch.env("CACHE_PASSWORD", "canary").env("CACHE_URL", "redis://worker:canary@127.0.0.1/0");
        launch.env("STREAMFLEET__TELEMETRY__LOG_FORMAT", "human")
    }

    /// Submits a job as another terminal does.
    fn submit(&self, process: &Worker, payload: &str) {
        let folder = self.dir.path().join("dev");
        let port = until("the port", SOON, || {
            process
                .stdout()
                .contains("Ctrl-C")
                .then(|| fs::read_to_string(folder.join("port")).ok())
                .flatten()
        });
        let submitted = Launch::new(&["enqueue", "mail.send", payload])
            .env("STREAMFLEET__REDIS__URL", format!("redis://127.0.0.1:{}", port.trim()))
            .env("STREAMFLEET__REDIS__PASSWORD_FILE", folder.join("password").to_str().unwrap())
            .output(SOON);
        assert_eq!(submitted.code, Some(0), "{submitted:?}");
    }
}

fn stop(process: &Worker) {
    process.interrupt();
    assert_eq!(process.wait_exit(SOON).code(), Some(0));
}

#[test]
fn programs_get_the_environment_without_secrets_and_what_they_write_is_shown_harmlessly() {
    let cli = Cli::new();
    let process = cli.dev("", &[]).start();
    cli.submit(&process, "\"ann\"");
    let shown = |text: &str| until(text, SOON, || process.stderr().contains(text));
    shown("host db.local, secrets []");
    shown("about ann");
    shown("an attempt ended");
    let log = process.stderr();
    let ended = log.lines().find(|line| line.contains("an attempt ended")).unwrap();
    for part in ["job_type=\"mail.send\"", "job=", "outcome=\"succeeded\"", "elapsed_ms="] {
        assert!(ended.contains(part), "{part}: {ended}");
    }
    assert!(!log.contains(['\u{1b}', '\u{202e}']), "{log}");
    assert!(log.contains("]   and a line without an end\n"), "{log}");
    // What a program writes has its job before it, and is not quoted.
    let written = log.lines().find(|line| line.contains("about ann")).unwrap();
    assert!(written.starts_with("[mail.send 1") && written.contains("] \\u{1b}[2Jwarning "), "{written}");
    // Nobody knows what its handler expects.
    let banner = process.stdout();
    assert!(!banner.contains("hello") && banner.contains("' type mail.send\n"), "{banner}");
    let withheld = "They do not get what has a password of Redis: CACHE_PASSWORD, CACHE_URL. ";
    for told in ["pass_env", withheld, "-v ", "A second one cuts them short"] {
        assert!(banner.contains(told), "{told}: {banner}");
    }
    stop(&process);
    assert!(
        process.stderr().contains("a second SIGTERM or SIGINT (Ctrl-C) cuts them short"),
        "{}",
        process.stderr()
    );
}

#[test]
fn a_program_without_its_variable_fails_with_a_hint_and_those_who_asked_for_that_get_no_other() {
    let cases: [(&str, &[&str]); 3] =
        [("", &["--clean-env"]), (", pass_env = []", &[]), (", pass_env = [\"HOME\"]", &[])];
    for (pool, more) in cases {
        let cli = Cli::new();
        let process = cli.dev(pool, more).start();
        // The end of the line about the failure, which begins with it.
        until("the hint", SOON, || process.stderr().contains("variables that pass_env names"));
        let log = process.stderr();
        assert!(log.contains("ended before it was ready") && log.contains("APP_HOST is not set"), "{log}");
        stop(&process);
    }
}

#[test]
fn the_log_is_as_configured_or_all_of_it() {
    let cli = Cli::new();
    let process = cli.dev("", &[]).env("STREAMFLEET__TELEMETRY__LOG", "warn").start();
    cli.submit(&process, "\"quiet\"");
    stop(&process);
    assert!(!process.stderr().contains("an attempt ended"), "{}", process.stderr());
    let process = cli.dev("", &["-v"]).env("STREAMFLEET__TELEMETRY__LOG", "warn").start();
    cli.submit(&process, "\"loud\"");
    until("a line of the worker", SOON, || process.stderr().contains("a handler starts"));
    stop(&process);
}

#[test]
fn a_change_starts_new_programs_and_a_mistake_leaves_the_old_ones_until_it_is_mended() {
    let cli = Cli::new();
    let file = cli.dir.path().join("worker.py");
    let process = cli.dev("", &["--watch"]).start();
    let count = |text: &str| process.stderr().matches(text).count();
    cli.submit(&process, "\"first\"");
    until("the first job", SOON, || count("warning") == 1);
    fs::write(&file, PROGRAM.replace("warning", "mended")).unwrap();
    until("new programs", SOON, || count("new ones replace all") == 1);
    cli.submit(&process, "\"second\"");
    until("the second job", SOON, || count("mended") == 1);
    fs::write(&file, "this is no Python\n").unwrap();
    until("the mistake", SOON, || process.stderr().contains("SyntaxError"));
    cli.submit(&process, "\"third\"");
    until("the third job", SOON, || count("mended") == 2);
    fs::write(&file, PROGRAM.replace("warning", "renewed")).unwrap();
    until("new programs again", SOON, || count("new ones replace all") == 2);
    cli.submit(&process, "\"fourth\"");
    until("the fourth job", SOON, || count("renewed") == 1);
    let watched = format!("Watched: {}\n", fs::canonicalize(cli.path()).unwrap().display());
    assert!(process.stdout().contains(&watched), "{}", process.stdout());
    stop(&process);
}

#[test]
fn programs_that_never_started_start_as_soon_as_the_mistake_is_mended() {
    let cli = Cli::new();
    let file = cli.dir.path().join("worker.py");
    fs::write(&file, "this is no Python\n").unwrap();
    let process = cli.dev("", &["--watch"]).start();
    cli.submit(&process, "\"ann\"");
    // By then, the pool waits longer and longer before it starts one by itself.
    until("some starts", SOON, || process.stderr().matches("ended before it was ready").count() >= 3);
    fs::write(&file, PROGRAM).unwrap();
    until("the job", SOON, || process.stderr().contains("about ann"));
    stop(&process);
}
