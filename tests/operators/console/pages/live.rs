//! Pages about a fleet that runs: what they show was written by its workers.

use std::time::Duration;

use serde_json::{Value, json};
use streamfleet::job::{State, StepState, Verdict};
use streamfleet::{Handler, JobContext, JobError, Queue, RawPayload};
use tokio::sync::watch;

use super::every::faults;
use crate::console::browser::{Browser, Page};
use harness::desk::sf;
use harness::fleet::{Running, queue, quick, submit, until_state};
use harness::redis_server::RedisServer;
use harness::steps::{Scene, Walks};
use harness::wait::until;

pub(super) const SOON: Duration = Duration::from_secs(60);

/// Does what its payload says: `"fail"` fails, `"hold"` reports and then waits until it is let go, and anything else succeeds.
#[derive(Clone)]
pub(super) struct Speaks(watch::Sender<bool>);

impl Speaks {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn let_go(&self) {
        self.0.send_replace(true);
    }
}

impl Handler for Speaks {
    type Payload = RawPayload;
    type Output = Value;

    async fn run(&self, payload: RawPayload, context: JobContext) -> Result<Value, JobError> {
        match &payload.0[..] {
            b"\"fail\"" => return Err(JobError::retry("connection refused\nby 10.0.0.7")),
            b"\"hold\"" => {
                context.log("reading <b>sales</b>");
                context.progress(40, "13 of 31 days");
                let let_go = self.0.subscribe().wait_for(|open| *open).await.map(drop);
                let_go?;
            }
            _ => {}
        }
        Ok(json!({"rows": 31}))
    }
}

/// A server with a fleet, and somebody who looks.
struct Stage {
    server: RedisServer,
    queue: Queue,
    handler: Speaks,
    fleet: Running,
    browser: Browser,
}

impl Stage {
    async fn new() -> Self {
        let (server, handler) = (RedisServer::start(), Speaks::new());
        let fleet = Running::start(&server.url(), quick(2), handler.clone());
        let (queue, browser) = (queue(&server).await, Browser::open(&server));
        Self { server, queue, handler, fleet, browser }
    }

    /// Opens a page again and again until it shows this in its part.
    fn until_shown(&mut self, path: &str, part: &str, text: &str) -> Page {
        until(&format!("{text} in {part} of {path}"), SOON, || {
            let page = self.browser.get(path);
            (page.status == 200 && page.text(part).contains(text)).then_some(page)
        })
    }
}

/// The texts of the cells of each row.
fn rows(page: &Page, table: &str) -> Vec<Vec<String>> {
    let select = |selector: &str| scraper::Selector::parse(selector).unwrap();
    let (row, cell) = (select(&format!("{table} tbody tr")), select("td"));
    let html = page.html();
    let texts = |row: scraper::ElementRef<'_>| row.select(&cell).map(|cell| cell.text().collect()).collect();
    html.select(&row).map(texts).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_shows_its_progress_and_its_log_and_then_its_result() {
    let mut stage = Stage::new().await;
    let path = format!("/queues/default/jobs/{}", submit(&stage.queue, "\"hold\"").await);
    let page = stage.until_shown(&path, "#now", "40 % 13 of 31 days");
    assert_eq!(page.attributes("progress", "value"), ["40"]);
    assert!(page.text("#log").contains("reading <b>sales</b>"), "{}", page.text("main"));
    assert_eq!(faults(&page), Vec::<String>::new());
    stage.handler.let_go();
    // A browser that shows the page asks for its parts again.
    until("the part to say that it is done", SOON, || {
        let part = stage.browser.get_with(&path, ("x-part", "live"));
        !part.body.contains("<html") && part.text("#head").contains("done")
    });
    let result = stage.browser.get(&format!("{path}?tab=result"));
    assert!(result.text("#body").contains("\"rows\": 31"), "{}", result.text("main"));
    stage.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_a_bar_and_a_row_with_the_lines_of_its_error() {
    let mut stage = Stage::new().await;
    let job = submit(&stage.queue, "\"fail\"").await;
    let status = until_state(&stage.queue, &job, State::Dead).await;
    let page = stage.browser.get(&format!("/queues/default/jobs/{job}"));
    assert_eq!((status.attempts.len(), faults(&page)), (2, Vec::new()));
    let attempts = rows(&page, "#attempts");
    assert_eq!(attempts.len(), 2, "{attempts:?}");
    for (row, attempt) in attempts.iter().zip(status.attempts.iter().rev()) {
        let row = row.join("|");
        assert!(row.contains("connection refused\nby 10.0.0.7") && row.contains(&attempt.worker), "{row}");
    }
    assert_eq!(page.attributes("svg.line-of-time rect.failed", "y").len(), 2);
    assert!(page.text("#now pre").contains("connection refused\nby 10.0.0.7"), "{}", page.text("#now"));
    let groups = stage.browser.get("/queues/default/dead");
    assert_eq!(groups.attributes("svg.bars", "aria-label"), ["1 died in the last hour"]);
    stage.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_waits_for_a_decision_is_drawn_listed_and_named_on_the_overview() {
    let scene = Scene::new().await;
    let fleet = scene.usual(&Walks::but("charge"));
    let job = scene.submit().await;
    assert_eq!(scene.reason(&job).await, "needs_decision");
    let mut browser = Browser::open(&scene.server);
    let page = browser.get(&format!("/queues/default/jobs/{job}"));
    assert_eq!(faults(&page), Vec::<String>::new());
    let mut drawn: Vec<String> = page.text("svg.steps text:not(.under)").lines().map(str::to_owned).collect();
    drawn.sort();
    assert_eq!(drawn, ["charge", "mail", "render"]);
    assert_eq!(page.attributes("svg.steps > path", "d").len(), 1, "only mail comes after another step");
    let decide = format!("/queues/default/jobs/{job}/steps/charge/decide?verdict=");
    let verdicts = page.attributes("#steps a[href]", "href");
    for verdict in ["done", "run", "give-up"] {
        assert!(verdicts.contains(&format!("{decide}{verdict}")), "{verdict}: {verdicts:?}");
    }
    assert!(verdicts.iter().all(|link| link.starts_with(&decide)), "only charge waits: {verdicts:?}");
    let inbox = rows(&browser.get("/decisions"), "main");
    assert!(inbox.len() == 1 && inbox[0].contains(&"charge".to_owned()), "{inbox:?}");
    let overview = browser.get("/");
    assert!(overview.text(".needs").contains("default: 1 job waits for a decision"));
    assert!(overview.attributes(".needs a", "href").contains(&"/decisions?queue=default".to_owned()));
    let form = browser.get(&format!("{decide}done"));
    let wrong = browser.send(&form, &[("reason", "receipt 17 of the bank"), ("result", "17}")]);
    assert!(wrong.text(".message").contains("it is not JSON"), "{}", wrong.body);
    assert_eq!(scene.state_of(&job, "charge").await, StepState::Failed);
    let done =
        browser.send(&form, &[("reason", "receipt 17 of the bank"), ("result", r#" {"receipt":17} "#)]);
    assert!(!done.text(".message.good").is_empty(), "{}", done.text("main"));
    until_state(&scene.queue, &job, State::Done).await;
    assert_eq!(scene.state_of(&job, "charge").await, StepState::Done);
    let charge = scene.step(&job, "charge").await;
    assert_eq!(charge.result.as_deref(), Some(&br#"{"receipt":17}"#[..]));
    let decision = charge.decision.unwrap();
    assert_eq!((decision.verdict, &*decision.reason), (Verdict::Done, "receipt 17 of the bank"));
    assert!(browser.get("/").text(".needs").is_empty());
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_leads_to_the_jobs_that_followed_it_and_they_lead_back() {
    let mut stage = Stage::new().await;
    let then = r#"[{"type":"test","payload":"hold"}]"#;
    let order = ["enqueue", "test", "\"first\"", "--id", "order-7", "--then", then];
    assert_eq!(sf(&stage.server, &order).code, Some(0));
    let status = until_state(&stage.queue, &"order-7".parse().unwrap(), State::Done).await;
    let parent = "/queues/default/jobs/order-7".to_owned();
    let child = format!("/queues/default/jobs/{}", status.children[0]);
    let page = stage.browser.get(&parent);
    assert!(page.attributes("#facts a", "href").contains(&child), "{}", page.text("#facts"));
    let page = stage.until_shown(&child, "#now", "13 of 31 days");
    assert!(page.attributes("#facts a", "href").contains(&parent), "{}", page.text("#facts"));
    stage.handler.let_go();
    stage.fleet.stop().await;
}
