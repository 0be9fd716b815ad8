//! One bad queue and the other queues of its worker: a key of the wrong type, or a missing right.

mod commands;
mod queues;

use std::time::Duration;

use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::scrape::{address, get};
use harness::wait::until;

const SOON: Duration = Duration::from_secs(30);

/// The configuration of a worker of three queues.
const CONFIG: &str = r#"
[queues.a]
[queues.b]
[queues.c]
[types.note]
handler = "noop"
[telemetry]
listen = "127.0.0.1:0"
"#;

/// What a worker's login needs besides the keys of its queues.
const LOGIN: &str = "reset on >secret allchannels +@all ~sf:worker:*";

fn launch(url: &str) -> (Worker, String) {
    let launch = Launch::new(&["--config", "{config}", "--json", "worker"]).config(CONFIG);
    let worker = launch.env("STREAMFLEET__REDIS__URL", url).start();
    let address = address(&worker);
    (worker, address)
}

/// Gives the login `fleet` the rights to these queues only.
fn grant(server: &RedisServer, queues: &[&str]) {
    let mut command: Vec<String> = ["ACL", "SETUSER", "fleet"].map(str::to_owned).into();
    command.extend(LOGIN.split(' ').map(str::to_owned));
    command.extend(queues.iter().map(|queue| format!("~sf:{{{queue}}}:*")));
    server.cmd(&command);
}

/// Returns the address with the login `fleet`.
fn url_of_fleet(server: &RedisServer) -> String {
    format!("redis://fleet:secret@{}", server.addr())
}

/// Submits a job to each of these queues, and waits until they are done.
fn works(server: &RedisServer, queues: &[&str]) {
    for queue in queues {
        server.cmd(&["XADD", &format!("sf:{{{queue}}}:jobs"), "*", "type", "note"]);
    }
    for queue in queues {
        until(&format!("the job of {queue} to be done"), SOON, || {
            let left = server.try_cmd(&["XLEN", &format!("sf:{{{queue}}}:jobs")]);
            left.is_ok_and(|left| redis::from_redis_value::<i64>(left).unwrap() == 0)
        });
    }
}

/// Waits until the process is ready and `/readyz` contains all of these words about queues that it does not serve. Without words,
/// waits for `ok` alone.
fn until_said(address: &str, words: &[&str]) {
    until(&format!("/readyz to say {words:?}"), SOON, || {
        let (status, said) = get(address, "/readyz")?;
        let fits =
            if words.is_empty() { said == "ok\n" } else { words.iter().all(|word| said.contains(word)) };
        (status == 200 && fits).then_some(())
    });
}
