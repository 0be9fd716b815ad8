//! What pages hide: from those who see no payloads everything that a producer or a handler wrote, and from everybody the values of
//! masked fields.

use serde_json::json;
use streamfleet::JobError;
use streamfleet::job::State;

use crate::console::client::{Console, tokens};
use crate::console::trouble::{GROUP, incidents};
use harness::desk::sf;
use harness::fleet::{Acts, Running, queue, quick, until_state};
use harness::redis_server::RedisServer;
use harness::wait::until;

/// What the producer and the handler write, wherever they can.
const SECRET: &str = "ann-4711";

fn enqueue(server: &RedisServer, id: &str, payload: &str, more: &[&str]) {
    let order = ["enqueue", "test", payload, "--id", id, "--track", "--header", &format!("card={SECRET}")];
    let done = sf(server, &[&order[..], more].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// Lets a fleet run a job that succeeds, and one that dies.
async fn run_jobs(server: &RedisServer) -> Running {
    let handler = Acts::new(|context, payload| {
        context.log(&format!("charging card: {SECRET}"));
        context.progress(40, &format!("charged card={SECRET}"));
        match payload {
            b"{\"card\":\"ann-4711\",\"dies\":true}" => {
                Err(JobError::retry(format!("no money on {{\"card\": \"{SECRET}\"}}")))
            }
            _ => Ok(json!({"card": SECRET, "rows": 31})),
        }
    });
    let fleet = Running::start(&server.url(), quick(2), handler);
    enqueue(server, "well", &format!("{{\"card\":\"{SECRET}\"}}"), &[]);
    enqueue(server, "ill", &format!("{{\"card\":\"{SECRET}\",\"dies\":true}}"), &[]);
    let queue = queue(server).await;
    until_state(&queue, &"well".parse().unwrap(), State::Done).await;
    until_state(&queue, &"ill".parse().unwrap(), State::Dead).await;
    enqueue(server, "later", &format!("{{\"card\":\"{SECRET}\"}}"), &["--delay", "1h"]);
    fleet
}

fn letter(server: &RedisServer) -> String {
    let letters = harness::desk::json(server, &["dead", "list"]);
    letters["items"][0]["letter"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_see_no_payloads_see_nothing_of_them_on_any_page() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let fleet = run_jobs(&server).await;
    incidents(&server);
    server.cmd(&["HSET", "sf:alerts:{alerts}:open", GROUP, &incident()]);
    let paused = sf(&server, &["pause", "--queue", "default", "--key", &format!("h.card={SECRET}")]);
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let console = Console::start(&server, &tokens(folder.path()));
    let dead = format!("/queues/default/dead/{}", letter(&server));
    let job = |id: &str| format!("/queues/default/jobs/{id}");
    for path in [
        job("well"),
        format!("{}?tab=result", job("well")),
        job("ill"),
        format!("{}?tab=headers", job("ill")),
        job("later"),
        dead,
        "/queues/default/dead".to_owned(),
        "/queues/default/dead?letters=all".to_owned(),
        "/queues/default?tab=dead".to_owned(),
        "/jobs?state=dead".to_owned(),
        "/gates".to_owned(),
        "/audit".to_owned(),
        "/incidents".to_owned(),
        format!("/incidents/{GROUP}"),
    ] {
        let shown = |token: &str| {
            // A search on a busy machine may end before it has found the job, and says so.
            until(&format!("{path} to be whole"), super::live::SOON, || {
                let page = console.get_as(token, &path);
                assert_eq!(page.status, 200, "{path}: {page:?}");
                (!page.body.contains("Next page")).then_some(page.body)
            })
        };
        assert!(shown("admin").contains(SECRET), "{path}");
        let hidden = shown("viewer");
        assert!(!hidden.contains(SECRET), "{path}: {hidden}");
    }
    for (query, status) in
        [("q=ann-4711", 303), ("text=ann-4711", 403), ("where=payload.card%3Dann-4711", 403)]
    {
        let page = console.get_as("viewer", &format!("/jobs?{query}"));
        assert_eq!(page.status, status, "{query}: {page:?}");
        assert!(!page.body.contains("/jobs/well") && !page.body.contains("/jobs/ill"), "{query}: {page:?}");
    }
    fleet.stop().await;
}

/// Whether a page has the value of the field.
fn has_secret(body: &str) -> bool {
    body.contains(SECRET) || String::from_utf8_lossy(&in_hexadecimal(body)).contains(SECRET)
}

/// The bytes that a page shows in hexadecimal: lines of an offset, up to 16 bytes, and the same as text.
fn in_hexadecimal(body: &str) -> Vec<u8> {
    let lines = body.lines().map(|line| line.rsplit_once("tabindex=\"0\">").map_or(line, |(_, rest)| rest));
    let digits = lines.filter(|line| line.len() > 58 && line.is_ascii() && line[8..].starts_with("  "));
    let digits = digits.flat_map(|line| line[10..58].split_whitespace());
    digits.filter_map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

/// An open incident with an example of a dead job.
fn incident() -> String {
    let example = json!({"job": "ill", "error": format!("no money on {SECRET}")});
    let incident = json!({
        "id": GROUP, "kind": "dead_group", "queue": "default", "key": "0123456789abcdef", "type": "test", "state": "open",
        "detail": "1 job died", "count": 1, "since_ms": 1_700_000_000_000_u64, "seen_ms": 1_700_000_000_000_u64,
        "example": example,
    });
    incident.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_the_values_of_masked_fields_on_any_page() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let fleet = run_jobs(&server).await;
    fleet.stop().await;
    let dead = format!("/queues/default/dead/{}", letter(&server));
    let mut paths: Vec<String> = ["ill", "later"]
        .iter()
        .flat_map(|id| {
            [
                "tab=payload",
                "tab=payload&form=text",
                "tab=payload&form=hex",
                "tab=payload&form=msgpack",
                "tab=headers",
            ]
            .map(|query| format!("/queues/default/jobs/{id}?{query}"))
        })
        .collect();
    paths.extend(
        ["?tab=result", "?tab=result&form=text", "?tab=result&form=hex"]
            .map(|query| format!("/queues/default/jobs/well{query}")),
    );
    paths.extend(["", "?tab=headers", "?form=text", "?form=hex", "/edit"].map(|end| format!("{dead}{end}")));
    paths.extend(["/queues/default/jobs/later/edit", "/submit?queue=default&job=later"].map(str::to_owned));
    for (mask, is_shown) in [("", true), ("mask = [\"Card\"]\n", false)] {
        let console = Console::start(&server, &format!("{}{mask}", tokens(folder.path())));
        for path in &paths {
            let page = console.get_as("admin", path);
            if is_shown {
                assert!(page.status == 200 && has_secret(&page.body), "{path}: {page:?}");
            } else {
                assert!(!has_secret(&page.body), "{path}: {page:?}");
            }
        }
    }
}

#[test]
fn a_masked_value_is_on_no_page_in_a_text_or_in_a_member_that_comes_twice() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let twice = format!("{{\"card\":{{\"n\":\"{SECRET}\"}},\"card\":\"***\"}}");
    let (note, trace) = (format!("card={SECRET} x"), format!("card: {SECRET}"));
    let fields = ["type", "test", "payload", &*twice, "h.note", &*note, "traceparent", &*trace];
    let entry = "1700000000000-0";
    server.cmd(&[&["XADD", "sf:{default}:jobs", entry, "id", "waits"][..], &fields].concat());
    let died = ["id", "died", "dead_reason", "fatal"];
    server.cmd(&[&["XADD", "sf:{default}:dead", entry][..], &died, &fields].concat());
    let forms = ["form=text", "form=hex", "form=msgpack", "tab=headers"];
    let mut paths: Vec<String> = forms.map(|form| format!("/queues/default/dead/{entry}?{form}")).into();
    // The facts of a job have its trace.
    paths.push("/queues/default/jobs/waits".to_owned());
    for (mask, is_shown) in [("", true), ("mask = [\"card\"]\n", false)] {
        let console = Console::start(&server, &format!("{}{mask}", tokens(folder.path())));
        for path in &paths {
            let page = console.get_as("admin", path);
            assert_eq!((page.status, has_secret(&page.body)), (200, is_shown), "{path}: {page:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_cannot_be_decoded_is_on_no_page_if_anything_is_masked() {
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let handler = Acts::new(|_, _| Ok(json!(format!("paid by {SECRET}"))));
    let fleet = Running::start(&server.url(), quick(1), handler);
    enqueue(&server, "text", "{}", &[]);
    let queue = queue(&server).await;
    until_state(&queue, &"text".parse().unwrap(), State::Done).await;
    fleet.stop().await;
    for (mask, is_shown) in [("", true), ("mask = [\"card\"]\n", false)] {
        let console = Console::start(&server, &format!("{}{mask}", tokens(folder.path())));
        for form in ["json", "text", "hex"] {
            let page = console.get_as("admin", &format!("/queues/default/jobs/text?tab=result&form={form}"));
            assert_eq!((page.status, has_secret(&page.body)), (200, is_shown), "{form}: {page:?}");
        }
    }
}
