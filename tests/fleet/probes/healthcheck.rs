//! `streamfleet healthcheck`, which Docker runs next to a worker.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use super::{CONFIG, SOON, launch, status};
use harness::process::{Launch, Output};
use harness::redis_server::{RedisServer, free_port};
use harness::wait::until;

fn healthcheck(listen: &str, args: &[&str]) -> Output {
    let args = [&["--config", "{config}", "healthcheck"], args].concat();
    Launch::new(&args).env("STREAMFLEET__TELEMETRY__LISTEN", listen).config(CONFIG).output(SOON)
}

#[test]
fn a_healthcheck_asks_the_worker_with_the_same_configuration() {
    let server = RedisServer::start();
    let port = free_port();
    let (listen, asked) = (format!("0.0.0.0:{port}"), format!("127.0.0.1:{port}"));
    let nobody = healthcheck(&listen, &[]);
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    assert_eq!(
        nobody.stdout,
        format!("not live: failed to connect: Connection refused (os error 111) ({asked})\n")
    );
    let _worker = launch(&server.url()).env("STREAMFLEET__TELEMETRY__LISTEN", &listen).start();
    until("the worker is ready", SOON, || status(&asked, "/readyz") == Some(200));
    for (probe, name) in [("live", "live"), ("ready", "ready"), ("startup", "started")] {
        let well = healthcheck(&listen, &["--probe", probe]);
        assert_eq!((well.code, well.stdout), (Some(0), format!("{name}: ok ({asked})\n")));
    }
    server.kill9();
    let unready = until("it is not ready", SOON, || {
        Some(healthcheck(&listen, &["--probe", "ready"])).filter(|output| output.code == Some(1))
    });
    assert_eq!(unready.stdout, format!("not ready: redis does not answer ({asked})\n"));
    let json = healthcheck("off", &["--address", &asked, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let want = serde_json::json!({"probe": "live", "address": asked, "healthy": true, "said": "ok"});
    assert_eq!(json, want);
}

#[test]
fn a_healthcheck_of_a_silent_worker_times_out() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let asked = Instant::now();
    let address = mute.local_addr().unwrap().to_string();
    let output = healthcheck(&address, &["--timeout", "300ms"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(output.stdout, format!("not live: no response within 300ms ({address})\n"));
    assert!(asked.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_healthcheck_that_cannot_ask_exits_with_1_and_says_why() {
    let off = healthcheck("off", &[]);
    assert_eq!((off.code, off.stdout.as_str()), (Some(1), ""));
    assert!(off.stderr.contains("telemetry.listen is \"off\""), "{off:?}");
    let wrong = healthcheck("nowhere", &[]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert!(wrong.stderr.contains("telemetry.listen"), "{wrong:?}");
}

#[test]
fn the_probe_of_the_console_asks_healthz() {
    let console = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = console.local_addr().unwrap().to_string();
    let asked = thread::spawn(move || {
        let (mut stream, _) = console.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok").unwrap();
        head
    });
    let output = healthcheck("off", &["--probe", "console", "--address", &address]);
    assert_eq!((output.code, output.stdout), (Some(0), format!("serving: ok ({address})\n")));
    assert_eq!(asked.join().unwrap()[0], "GET /healthz HTTP/1.1");
}
