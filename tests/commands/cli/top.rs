//! `top` in a terminal: what somebody sees, and what their keys do.

use std::fs;

use harness::cli::{json, launch, sf};
use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::terminal::Terminal;
use harness::wait::until;

const CONFIG: &str = "[types.note]\nhandler = \"noop\"\n[telemetry]\nlisten = \"off\"\n";

/// Starts `top` on a terminal, and waits until it shows the queue `default`.
fn top(server: &RedisServer, terminal: &Terminal) -> Worker {
    let top = launch(server, &["top", "--every", "100ms", "--by", "ann"]).start_on(terminal);
    sees(terminal, "default");
    top
}

/// Waits until the screen shows a text.
fn sees(terminal: &Terminal, text: &str) {
    until(&format!("{text:?} on the screen"), SOON, || terminal.shows(text));
}

/// Whether a process is stopped.
fn is_stopped(process: &Worker) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('T')
}

#[test]
fn somebody_pauses_a_queue_opens_a_job_drains_a_worker_and_quits() {
    let server = RedisServer::start();
    let args = ["--config", "{config}", "--redis", &server.url(), "worker"];
    let _worker = Launch::new(&args).config(CONFIG).start();
    let worker = || json(&server, &["workers", "list"])["items"][0].clone();
    until("the worker to be listed", SOON, || worker()["consumer"].is_string());
    let terminal = Terminal::open(100, 30);
    let top = top(&server, &terminal);

    terminal.press("p");
    sees(&terminal, "Pause the queue default");
    sees(&terminal, "by ann");
    terminal.press("\rthe relay is down");
    sees(&terminal, "reason: the relay is down");
    terminal.press("\r");
    sees(&terminal, "queue of default is paused");
    let gate = json(&server, &["gates", "list"])["items"][0].clone();
    assert_eq!(
        (&gate["state"], &gate["paused_by"], &gate["reason"]),
        (&"paused".into(), &"ann".into(), &"the relay is down".into())
    );

    let enqueued = sf(&server, &["enqueue", "note", "{\"customer\": 9}", "--id", "order-7", "--delay", "1h"]);
    assert_eq!(enqueued.code, Some(0), "{enqueued:?}");
    terminal.press("\r");
    sees(&terminal, "jobs of default");
    sees(&terminal, "order-7");
    terminal.press("\r");
    sees(&terminal, "job order-7 of default");
    sees(&terminal, "customer");
    terminal.press("\u{1b}");
    sees(&terminal, "jobs of default");

    terminal.press("5");
    sees(&terminal, "running");
    let name = worker()["consumer"].as_str().unwrap().to_owned();
    sees(&terminal, &name);
    terminal.press("D");
    sees(&terminal, &format!("Drain {name}"));
    terminal.press("\rits disk\r");
    sees(&terminal, "was asked to drain");
    until("the worker to be drained", SOON, || worker()["state"] == "drained");
    let notes = json(&server, &["audit", "--who", "ann"]);
    let noted: Vec<_> = notes["items"].as_array().unwrap().iter().map(|note| note["what"].clone()).collect();
    assert_eq!(noted, ["workers drain", "pause"], "{notes}");

    terminal.press("q");
    assert_eq!(top.wait_exit(SOON).code(), Some(0));
    until("the terminal to be given back", SOON, || terminal.is_given_back());
}

#[test]
fn somebody_takes_back_an_edit_and_replays_a_dead_job() {
    let server = RedisServer::start();
    let args = ["--config", "{config}", "--redis", &server.url(), "worker"];
    let _worker = Launch::new(&args).config(CONFIG).start();
    // It has expired: whenever a worker takes it, it dies.
    server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "note", "id", "order-8", "expires_at_ms", "1000"]);
    let dead = || json(&server, &["dead", "list"])["items"].as_array().unwrap().len();
    until("the job to die", SOON, || dead() == 1);
    let edited = sf(&server, &["dead", "edit", "order-8", "--set", "h.tenant=9"]);
    assert_eq!(edited.code, Some(0), "{edited:?}");
    let terminal = Terminal::open(100, 30);
    let top = top(&server, &terminal);

    terminal.press("2");
    sees(&terminal, "order-8");
    terminal.press("\r");
    sees(&terminal, "u takes all edits back");
    terminal.press("u");
    sees(&terminal, "Take back all edits of the dead letter of the job order-8");
    terminal.press("the wrong tenant\r");
    sees(&terminal, "the edits of order-8 are taken back");
    until("the page to show no edit", SOON, || !terminal.shows("u takes all edits back"));
    terminal.press("r");
    sees(&terminal, "Replay the job order-8");
    terminal.press("again\r");
    sees(&terminal, "order-8 runs again");
    let notes = json(&server, &["audit", "--who", "ann"]);
    let noted: Vec<_> = notes["items"].as_array().unwrap().iter().map(|note| note["what"].clone()).collect();
    assert_eq!(noted, ["dead replay", "dead edit"], "{notes}");
    terminal.press("q");
    assert_eq!(top.wait_exit(SOON).code(), Some(0));
}

#[test]
fn somebody_moves_the_jobs_of_a_queue_after_a_plan_and_sees_who_did_it() {
    let server = RedisServer::start();
    for (queue, id) in [("bulk", "a"), ("default", "b"), ("default", "c")] {
        sf(&server, &["enqueue", "note", "--queue", queue, "--id", id, "--delay", "1h"]);
    }
    let terminal = Terminal::open(100, 30);
    let top = top(&server, &terminal);
    sees(&terminal, "Redis uses ");
    terminal.press("G");
    terminal.press("m");
    sees(&terminal, "Move the jobs of the queue default");
    terminal.press("b\t");
    sees(&terminal, "to which queue: bulk");
    terminal.press("\rit delays the others\r");
    sees(&terminal, "Move 2 jobs of the queue default to bulk (2 note)");
    terminal.press("\r");
    sees(&terminal, "moves them; 7 lists tasks");
    let task = json(&server, &["tasks", "list", "--queue", "default"])["items"][0].clone();
    assert_eq!((&task["kind"], &task["to"], &task["who"]), (&"move".into(), &"bulk".into(), &"ann".into()));

    terminal.press("a");
    sees(&terminal, "it delays the others");
    terminal.press("/who=bob\r");
    sees(&terminal, "nothing is here");
    terminal.press(":job b\r");
    sees(&terminal, "scheduled");
    terminal.press(":job gone\r");
    sees(&terminal, "no queue has a record of the job gone");
    terminal.press("q");
    assert_eq!(top.wait_exit(SOON).code(), Some(0));
}

#[test]
fn the_terminal_is_given_back_while_it_is_stopped_and_when_a_signal_ends_it() {
    let server = RedisServer::start();
    sf(&server, &["enqueue", "note"]);
    let terminal = Terminal::open(60, 15);
    let top = top(&server, &terminal);
    terminal.press("\u{1a}");
    until("it to be stopped", SOON, || is_stopped(&top));
    until("the terminal to be given back", SOON, || terminal.is_given_back());
    top.thaw();
    until("the terminal to be taken again", SOON, || terminal.is_taken());
    sees(&terminal, "default");
    top.term();
    let status = top.wait_exit(SOON);
    assert_eq!(status.code(), Some(0), "{}", terminal.text());
    until("the terminal to be given back", SOON, || terminal.is_given_back());
}

#[test]
fn figures_are_stale_while_redis_is_away_and_keys_do_not_wait_for_it() {
    let server = RedisServer::start();
    sf(&server, &["enqueue", "note"]);
    let terminal = Terminal::open(60, 15);
    let top = top(&server, &terminal);
    server.freeze();
    sees(&terminal, "stale for ");
    assert!(terminal.shows("default"), "the last figures stay: {}", terminal.text());
    terminal.press("?");
    sees(&terminal, "Enter opens a row");
    terminal.press("x");
    server.thaw();
    until("new figures", SOON, || terminal.shows("default") && !terminal.shows("stale for "));
    terminal.press("q");
    assert_eq!(top.wait_exit(SOON).code(), Some(0));
}
