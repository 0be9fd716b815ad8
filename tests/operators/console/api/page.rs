//! docs/api.md: every command and program on it works.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::client::{Console, SOON};
use harness::process::Launch;
use harness::redis_server::RedisServer;
use harness::wait::until_async;

/// A worker that knows the type of the page's jobs.
const WORKER: &str = "[types.\"mail.send\"]\nhandler = { exec = { command = [\"cat\"] } }\ntracking = \"all\"\n[telemetry]\nlisten = \"off\"\n";

/// The blocks of a page, each with its language.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let fences = page.split("\n```").skip(1).step_by(2);
    fences.filter_map(|block| block.split_once('\n')).collect()
}

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api.md")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_block_of_the_page_about_the_api_works() {
    let server = RedisServer::start();
    let console = Console::start(&server).await;
    let worker =
        Launch::new(&["--config", "{config}", "--redis", &server.url(), "worker"]).config(WORKER).start();
    until_async("the worker to run", SOON, async || console.get("workers").await.text.contains("mail.send"))
        .await;
    let folder = tempfile::tempdir().unwrap();
    let (page, mut count) = (page(), 0);
    for (language, text) in blocks(&page) {
        let program = match language {
            "sh" => ["sh", "-euc"],
            "python" => ["python3", "-c"],
            "php" if is_installed("php") => ["php", "-r"],
            "php" | "text" => continue,
            "json" => {
                serde_json::from_str::<Value>(text).unwrap();
                continue;
            }
            other => panic!("a block of the unknown language {other}"),
        };
        let text = text.strip_prefix("<?php\n").unwrap_or(text);
        let output = Command::new(program[0])
            .args([program[1], text])
            .env("CONSOLE", console.address())
            .env("TOKEN", "admin")
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{language}:\n{text}\n{output:?}");
        count += 1;
    }
    assert!(count >= 10, "only {count} blocks were run");
    worker.term();
    worker.wait_exit(SOON);
}

/// The checks of the packages bring this interpreter; other machines may lack it.
fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}
