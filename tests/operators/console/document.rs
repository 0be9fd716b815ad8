//! What the console gives to browsers: one document for every page, the files that it names, and the policy that holds for all answers.

use super::client::{Answer, Console, tokens};
use harness::redis_server::RedisServer;

/// The paths of the scripts, styles and pictures that a document names.
fn assets(document: &Answer) -> Vec<String> {
    let named = document.body.split('"').filter(|text| text.starts_with("/assets/"));
    named.map(str::to_owned).collect()
}

#[test]
fn every_answer_has_the_whole_policy_of_what_a_browser_may_do() {
    const HEADERS: [(&str, &str); 6] = [
        (
            "content-security-policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    let (server, folder) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let console = Console::start(&server, &tokens(folder.path()));
    let asset = assets(&console.get("/", &[])).remove(0);
    let kept_for_good = "public, max-age=31536000, immutable";
    for (path, status, kept) in [
        ("/", 200, "no-cache"),
        ("/queues/mail/jobs/order-7", 200, "no-cache"),
        ("/login?key=AAAA", 200, "no-cache"),
        (&*asset, 200, kept_for_good),
        ("/assets/other.js", 404, "no-store"),
        ("/favicon.ico", 404, "no-store"),
        ("/api/v1/queues", 200, "no-store"),
        ("/api/v1/nowhere", 404, "no-store"),
        ("/healthz", 200, "no-store"),
    ] {
        let answer = console.get_as("admin", path);
        assert_eq!((answer.status, answer.header("cache-control")), (status, Some(kept)), "{path}");
        for (name, value) in HEADERS {
            assert_eq!(answer.header(name), Some(value), "{path}: {name}");
        }
    }
    // Those who may not see it get them, too.
    let refused = console.get("/api/v1/queues", &[]);
    assert_eq!((refused.status, refused.header(HEADERS[0].0)), (401, Some(HEADERS[0].1)));
}

#[test]
fn every_page_is_the_same_document_and_has_no_data() {
    let server = RedisServer::start();
    server.cmd(&["XADD", "sf:{secret-queue}:jobs", "*", "type", "test"]);
    let console = Console::start(&server, "");
    let document = console.get("/", &[]);
    assert_eq!(document.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(!document.body.contains("secret-queue"), "{document:?}");
    for path in [
        "/queues/secret-queue",
        "/incidents/0b5ff109",
        "/campaigns?state=done",
        "/queues/mail/jobs/..%20",
        "/x",
    ] {
        let page = console.get(path, &[]);
        assert_eq!((page.status, &page.body, page.cookie()), (200, &document.body, None), "{path}");
    }
    let head = console.ask("HEAD", "/queues/mail", &[], "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let assets = assets(&document);
    assert!(assets.iter().any(|path| path.ends_with(".js")), "{assets:?}");
    for path in assets {
        assert_eq!(console.get(&path, &[]).status, 200, "{path}");
    }
}

#[test]
fn what_is_no_page_is_a_problem() {
    let server = RedisServer::start();
    let console = Console::start(&server, "");
    for (method, path) in [
        ("GET", "/api/v2/queues"),
        ("GET", "/assets/index.00000000.js"),
        ("GET", "/assets/..%2findex.html"),
        ("GET", "/metrics"),
        ("GET", "/robots.txt"),
        ("POST", "/queues/mail"),
        ("POST", "/logout"),
    ] {
        let answer = console.ask(method, path, &[("Accept", "text/html")], "");
        let kind = answer.header("content-type");
        assert_eq!((answer.status, kind), (404, Some("application/problem+json")), "{method} {path}");
    }
}
