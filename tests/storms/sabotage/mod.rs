//! Deliberate bugs, and the scenes that must notice them: each bug breaks the rule that the table names, and without a bug
//! no scene breaks any rule.
//!
//! Each scene runs in its own process, because a bug always affects a whole process: this same test binary, started again with
//! the bug's name in its environment. [`scenes`] define what happens, [`worker`] is the process that runs the jobs, [`place`] is how the
//! processes communicate, and the [`judge`] compares what was seen with what is expected of each job.

mod judge;
mod place;
mod scene;
mod scenes;
mod worker;

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use judge::*;
use scene::Report;
use scenes::Story::{self, *};

use harness::alone::alone;
use harness::process::{Launch, SABOTAGE, orders};

/// Each bug, the story that notices it, and the rule that it breaks.
const TABLE: [(&str, Story, &str); 29] = [
    ("AckBeforeRun", Killed, LOST),
    ("FenceIgnored", Frozen, ONE_PLACE),
    ("FencedSuccessCounted", Frozen, REPORTED),
    ("DrainAcksRunning", Stopped, LOST),
    ("PendingForgotten", Stopped, LOST),
    ("LeaseNotRenewed", Calm, TWICE),
    ("ClaimedEarly", Frozen, TWICE),
    ("ClaimedFromHeadOnly", Killed, GOES_ON),
    ("ClockTrusted", Hostile, TWICE),
    ("DeletedFirst", Hostile, LOST),
    ("AckedNotDeleted", Calm, LEFT),
    ("BuriedWithoutLetter", Calm, LOST),
    ("BuriedAndKept", Calm, LEFT),
    ("LetterKeptByReplay", Calm, ONE_PLACE),
    ("RetryNotCounted", Calm, TWICE),
    ("SnoozeCounted", Calm, COUNTED),
    ("PromotedEarly", Calm, EARLY),
    ("BatchAbortedByOne", Hostile, LOST),
    ("RetryOverwritten", Calm, LOST),
    ("RecordOfAnotherDeleted", Calm, TWICE),
    ("LedgerOfAnotherDeleted", Calm, ONCE),
    ("CancelledById", Calm, LOST),
    ("LedgerAfterCall", Killed, ONCE),
    ("IdAcceptedAgain", Calm, TWICE),
    ("LockKeptByDead", Calm, ANSWERS),
    ("CallbackEachTime", Calm, FOLLOWS),
    ("TickUnguarded", Calm, TICKS),
    ("UnknownIsRefused", Hostile, TWICE),
    ("PayloadCut", Calm, WHOLE),
];

/// How many scenes run at a time: they wait more than they compute.
const AT_ONCE: usize = 5;
const OVER: Duration = Duration::from_secs(120);
/// How often a scene runs at most. It runs again if the machine gave its processes no CPU time, or if a bug broke another rule than
/// expected: the machine's speed decides what a bug does first.
const TRIES: usize = 4;

/// The orders for a scene's process.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Orders {
    story: Story,
    report: PathBuf,
}

/// A scene to run, with or without a bug.
#[derive(Clone, Copy)]
struct Run {
    bug: Option<&'static str>,
    story: Story,
    rule: &'static str,
}

impl Run {
    fn all() -> VecDeque<Self> {
        let sound = Story::ALL.map(|story| Self { bug: None, story, rule: "" });
        let spoiled = TABLE.map(|(bug, story, rule)| Self { bug: Some(bug), story, rule });
        sound.into_iter().chain(spoiled).collect()
    }

    /// Runs the scene until the machine had enough CPU time for it and the bug has done what the table says.
    fn report(self) -> Result<Report, String> {
        let mut outcome = self.run();
        for _ in 1..TRIES {
            match &outcome {
                Ok(report) if !report.stalls.is_empty() => {
                    eprintln!("running {:?} again: {:?}", self.story, report.stalls);
                }
                Ok(report) if self.is_missed(report) => {
                    eprintln!("running {:?} again: {:?}", self.story, report.offences);
                }
                Ok(_) | Err(_) => break,
            }
            outcome = self.run();
        }
        outcome
    }

    /// Returns true if a bug has not broken the rule in the table: some of them show only if a fault comes at the right moment, which
    /// it may not on a busy machine. A process without a bug gets no second try.
    fn is_missed(self, report: &Report) -> bool {
        self.bug.is_some() && report.offences.iter().all(|offence| offence.rule != self.rule)
    }

    fn run(self) -> Result<Report, String> {
        let dir = tempfile::tempdir().unwrap();
        let report = dir.path().join("report");
        let orders = Orders { story: self.story, report: report.clone() };
        let scene = Launch::this_program("sabotage::scene_entry", &orders);
        let scene = scene.env(SABOTAGE, self.bug.unwrap_or_default()).output(OVER);
        match fs::read_to_string(&report) {
            Ok(text) => Ok(serde_json::from_str(&text).unwrap()),
            Err(_) => Err(format!("the scene wrote no report:\n{}\n{}", scene.stdout, scene.stderr)),
        }
    }

    /// Returns a row of the output, and what is wrong with it.
    fn row(self, report: Result<Report, String>, took: Duration) -> (String, Option<String>) {
        let broken: BTreeSet<String> = match &report {
            Ok(report) => report.offences.iter().map(|offence| offence.rule.clone()).collect(),
            Err(_) => BTreeSet::new(),
        };
        let is_as_it_should = match (&report, self.bug) {
            (Err(_), _) => false,
            (Ok(_), None) => broken.is_empty(),
            (Ok(_), Some(_)) => broken.contains(self.rule),
        };
        let bug = self.bug.unwrap_or("no bug");
        let row = format!("{bug} -> {:?} ({:.1} s): {broken:?}", self.story, took.as_secs_f64());
        let details = match report {
            Ok(report) => report
                .offences
                .iter()
                .fold(String::new(), |text, Offence { rule, what }| format!("{text}    {rule}: {what}\n")),
            Err(error) => error,
        };
        let wrong = (!is_as_it_should).then(|| format!("{row}, expected {:?}\n{details}", self.rule));
        (row, wrong)
    }
}

#[test]
fn each_bug_is_caught_and_sound_code_breaks_no_rule() {
    let _alone = alone();
    let (waiting, wrong) = (Mutex::new(only(Run::all())), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(run) = waiting.lock().unwrap().pop_front() else { break };
                    let started = Instant::now();
                    let (row, bad) = run.row(run.report(), started.elapsed());
                    eprintln!("{row}");
                    wrong.lock().unwrap().extend(bad);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Keeps only the bugs whose name contains `STREAMFLEET_TEST_BUG`, if that is set.
fn only(mut runs: VecDeque<Run>) -> VecDeque<Run> {
    #[expect(clippy::disallowed_methods, reason = "for the person who runs the tests")]
    let part = std::env::var("STREAMFLEET_TEST_BUG");
    if let Ok(part) = part {
        runs.retain(|run| run.bug.unwrap_or("none").contains(&part));
    }
    runs
}

#[test]
fn the_table_and_the_page_list_every_bug() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/sabotage.md")).unwrap();
    let mut known: Vec<&str> = streamfleet::sabotage::bugs().map(|(name, _)| name).collect();
    let mut listed: Vec<&str> = TABLE.iter().map(|(bug, ..)| *bug).collect();
    known.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, known);
    for (bug, about) in streamfleet::sabotage::bugs() {
        let (_, story, rule) = TABLE.iter().find(|(name, ..)| *name == bug).unwrap();
        let row = format!("| `{bug}` | {about} | {} | {rule} |", format!("{story:?}").to_lowercase());
        assert!(page.contains(&row), "docs/sabotage.md lacks this row:\n{row}");
    }
}

/// Returns at once unless this process was started to run a scene.
#[test]
fn scene_entry() {
    if let Some(Orders { story, report }) = orders() {
        fs::write(report, serde_json::to_string(&story.run()).unwrap()).unwrap();
    }
}
