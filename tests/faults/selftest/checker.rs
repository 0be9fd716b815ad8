//! Tests of `harness::checker`: for each invariant, a history that keeps it and one that breaks it.
//!
//! The histories are ledger lines whose times are milliseconds. Attempts are limited to 2, losses to 1; an
//! outcome is settled within 100 ms, a killed worker's jobs start again within 1000 ms.

use std::time::Duration;

use harness::checker::{Case, Facts, Report, Rules};
use harness::clock::thread_cpu_ns;
use harness::history::History;
use harness::ledger::Record;
use harness::weather::{Cause, Event, Weather};

const MS: u64 = 1_000_000;
const ONE_RUN: &str = "submit a 0|start a 0 1-0 7 10|end a 0 1-0 7 20 ok";

fn in_ms(line: &str) -> Record {
    match line.trim().parse().unwrap() {
        Record::Submit { job, t } => Record::Submit { job, t: t * MS },
        Record::Unknown { job, t } => Record::Unknown { job, t: t * MS },
        Record::Start { run, t } => Record::Start { run, t: t * MS },
        Record::End { run, t, how } => Record::End { run, t: t * MS, how },
    }
}

fn fault(cause: Cause, pid: u32, from: u64, until: u64) -> Event {
    Event { cause, pid: Some(pid), from: from * MS, until: until * MS }
}

fn common(cause: Cause, from: u64, until: u64) -> Event {
    Event { cause, pid: None, from: from * MS, until: until * MS }
}

fn kill(pid: u32, at: u64) -> Event {
    fault(Cause::Kill, pid, at, at)
}

fn dead(job: &str, letters: usize) -> Facts {
    Facts { dead: [(job.to_owned(), letters)].into(), ..Facts::default() }
}

fn judge(lines: &str, facts: &Facts, events: &[Event]) -> Report {
    judge_with_timeout(lines, facts, events, None)
}

fn judge_with_timeout(lines: &str, facts: &Facts, events: &[Event], timeout: Option<Duration>) -> Report {
    let history = History::new(lines.split('|').filter(|line| !line.is_empty()).map(in_ms).collect());
    let weather = Weather::new(events);
    let rules = Rules {
        max_attempts: 2,
        max_losses: 1,
        timeout,
        settled_within: Duration::from_millis(100),
        recovered_within: Duration::from_secs(1),
        is_allowed_key: &|key| key.ends_with(":dead"),
    };
    Case { history: &history, facts, weather: &weather, rules: &rules }.check()
}

#[track_caller]
fn keeps(lines: &str, facts: &Facts, events: &[Event]) {
    judge(lines, facts, events).assert_clean();
}

#[track_caller]
fn breaks(invariant: &str, lines: &str, facts: &Facts, events: &[Event]) {
    let report = judge(lines, facts, events);
    assert_eq!(report.broken(), [invariant], "{report}");
}

#[test]
fn no_loss_wants_every_submitted_job_done_or_dead_or_cancelled() {
    let none = Facts::default();
    let cancelled = Facts { cancelled: ["a".to_owned()].into(), ..Facts::default() };
    keeps(ONE_RUN, &none, &[]);
    keeps("submit a 0", &dead("a", 1), &[]);
    keeps("submit a 0", &cancelled, &[]);
    keeps("unknown a 0", &none, &[]);
    breaks("no_loss", "submit a 0", &none, &[]);
    breaks("no_loss", "submit a 0|start a 0 1-0 7 10|end a 0 1-0 7 20 failed", &none, &[]);
}

#[test]
fn one_place_wants_one_end() {
    let cancelled = Facts { cancelled: ["a".to_owned()].into(), ..Facts::default() };
    keeps("submit a 0|start a 0 1-0 7 10|end a 0 1-0 7 20 fatal", &dead("a", 1), &[]);
    breaks("one_place", "submit a 0", &dead("a", 2), &[]);
    breaks("one_place", ONE_RUN, &dead("a", 1), &[]);
    breaks("one_place", ONE_RUN, &cancelled, &[]);
}

#[test]
fn one_place_forgives_a_success_whose_worker_died_before_it_was_settled() {
    keeps(ONE_RUN, &dead("a", 1), &[kill(7, 50)]);
    breaks("one_place", ONE_RUN, &dead("a", 1), &[kill(7, 5000)]);
    breaks("one_place", ONE_RUN, &dead("a", 1), &[kill(8, 50)]);
}

#[test]
fn no_unexpected_wants_a_submission_for_every_run_and_every_dead_letter() {
    let none = Facts::default();
    keeps("unknown a 0|start a 0 1-0 7 10|end a 0 1-0 7 20 ok", &none, &[]);
    breaks("no_unexpected", "start a 0 1-0 7 10|end a 0 1-0 7 20 ok", &none, &[]);
    breaks("no_unexpected", "", &dead("ghost", 1), &[]);
    breaks("no_unexpected", &format!("{ONE_RUN}|end a 0 9-9 7 30 ok"), &none, &[]);
}

#[test]
fn bounded_wants_no_failure_beyond_max_attempts() {
    let twice =
        "submit a 0|start a 0 1-0 7 10|end a 0 1-0 7 20 failed|start a 1 2-0 7 30|end a 1 2-0 7 40 failed";
    keeps(twice, &dead("a", 1), &[]);
    let thrice = format!("{twice}|start a 2 3-0 7 50|end a 2 3-0 7 60 failed");
    breaks("bounded", &thrice, &dead("a", 1), &[]);
    // The same attempt failed in a frozen worker and in its successor, which counts as one failure.
    let zombie = "submit a 0|start a 0 1-0 7 10|start a 0 2-0 8 500|end a 0 2-0 8 520 failed\
        |end a 0 1-0 7 600 failed|start a 1 3-0 8 700|end a 1 3-0 8 710 failed";
    keeps(zombie, &dead("a", 1), &[fault(Cause::Freeze, 7, 20, 590)]);
}

#[test]
fn bounded_wants_no_start_beyond_attempts_and_losses_and_interruptions() {
    let run = |nth: u64, how: &str| {
        let t = nth * 100;
        format!("|start a 0 {nth}-0 7 {t}|end a 0 {nth}-0 7 {} {how}", t + 10)
    };
    let runs = |interruptions| -> String { (1..=interruptions).map(|nth| run(nth, "interrupted")).collect() };
    let ending = run(9, "ok");
    keeps(&format!("submit a 0{}{ending}", runs(5)), &Facts::default(), &[]);
    let lost = "submit a 0|start a 0 1-0 1 10|start a 0 2-0 2 20|start a 0 3-0 3 30|start a 0 4-0 4 40\
        |end a 0 4-0 4 50 ok";
    breaks("bounded", lost, &Facts::default(), &[kill(1, 15), kill(2, 25), kill(3, 35)]);
}

#[test]
fn fence_monotone_wants_growing_fences() {
    let retry = "submit a 0|start a 0 5-1 7 10|end a 0 5-1 7 20 failed";
    keeps(&format!("{retry}|start a 1 5-2 7 30|end a 1 5-2 7 40 ok"), &Facts::default(), &[]);
    breaks(
        "fence_monotone",
        &format!("{retry}|start a 1 5-1 7 30|end a 1 5-1 7 40 ok"),
        &Facts::default(),
        &[],
    );
    breaks(
        "fence_monotone",
        &format!("{retry}|start a 1 4-9 7 30|end a 1 4-9 7 40 ok"),
        &Facts::default(),
        &[],
    );
}

#[test]
fn fence_monotone_forgives_a_worker_that_was_frozen_before_its_start() {
    let late = "submit a 0|start a 0 2-0 8 500|end a 0 2-0 8 510 ok|start a 0 1-0 7 600|end a 0 1-0 7 610 ok";
    keeps(late, &Facts::default(), &[fault(Cause::Freeze, 7, 100, 590)]);
    let report = judge(late, &Facts::default(), &[]);
    assert_eq!(report.broken(), ["fence_monotone", "calm_once"], "{report}");
}

#[test]
fn no_overlap_wants_one_run_at_a_time() {
    let both =
        "submit a 0|start a 0 1-0 7 10|start a 0 2-0 8 500|end a 0 2-0 8 600 ok|end a 0 1-0 7 700 failed";
    keeps(both, &Facts::default(), &[fault(Cause::Freeze, 7, 100, 650)]);
    keeps(both, &Facts::default(), &[common(Cause::Network, 100, 650)]);
    breaks("no_overlap", both, &Facts::default(), &[fault(Cause::Freeze, 8, 100, 650)]);
    let one_after_the_other = "submit a 0|start a 0 1-0 7 10|end a 0 1-0 7 20 failed|start a 1 2-0 8 20\
        |end a 1 2-0 8 30 ok";
    keeps(one_after_the_other, &Facts::default(), &[]);
}

#[test]
fn calm_once_wants_no_start_that_was_not_needed() {
    let again = format!("{ONE_RUN}|start a 0 2-0 8 500|end a 0 2-0 8 510 ok");
    keeps(&again, &Facts::default(), &[kill(7, 50)]);
    keeps(&again, &Facts::default(), &[fault(Cause::Stop, 7, 15, 60)]);
    breaks("calm_once", &again, &Facts::default(), &[]);
    breaks("calm_once", &again, &Facts::default(), &[kill(7, 5000)]);
}

#[test]
fn calm_once_wants_every_allowed_attempt_before_a_burial() {
    let once = "submit a 0|start a 0 1-0 7 10|end a 0 1-0 7 20 failed";
    keeps(&format!("{once}|start a 1 2-0 7 30|end a 1 2-0 7 40 failed"), &dead("a", 1), &[]);
    breaks("calm_once", once, &dead("a", 1), &[]);
}

#[test]
fn calm_once_wants_every_run_to_end_on_its_own_or_by_its_timeout() {
    let endless = "submit a 0|start a 0 1-0 7 10";
    breaks("calm_once", endless, &dead("a", 1), &[]);
    let retried = format!("{endless}|start a 1 2-0 7 600|end a 1 2-0 7 610 ok");
    let timeout = Some(Duration::from_millis(500));
    judge_with_timeout(&retried, &Facts::default(), &[], timeout).assert_clean();
}

#[test]
fn clean_wants_nothing_left_but_the_allowed_keys() {
    let left = |key: &str| Facts { keys: vec![key.to_owned()], ..Facts::default() };
    keeps(ONE_RUN, &left("sf:{q}:dead"), &[]);
    breaks("clean", ONE_RUN, &left("sf:{q}:job:a"), &[]);
    breaks("clean", ONE_RUN, &Facts { entries: 1, ..Facts::default() }, &[]);
    breaks("clean", ONE_RUN, &Facts { pending: 1, ..Facts::default() }, &[]);
    breaks("clean", ONE_RUN, &Facts { delayed: 1, ..Facts::default() }, &[]);
}

#[test]
fn recovery_wants_the_jobs_of_a_killed_worker_started_again_in_time() {
    let again =
        |at: u64| format!("submit a 0|start a 0 1-0 7 10|start a 0 2-0 8 {at}|end a 0 2-0 8 {} ok", at + 10);
    keeps(&again(900), &Facts::default(), &[kill(7, 20)]);
    breaks("recovery", &again(1100), &Facts::default(), &[kill(7, 20)]);
    // Redis was down for 200 ms of that time.
    keeps(&again(1100), &Facts::default(), &[kill(7, 20), common(Cause::Redis, 300, 500)]);
    // The job had been taken over before the kill.
    keeps(&again(900), &Facts::default(), &[fault(Cause::Freeze, 7, 20, 5000), kill(7, 5000)]);
    let never = "submit a 0|start a 0 1-0 7 10";
    keeps(never, &dead("a", 1), &[kill(7, 20)]);
    let report = judge(never, &Facts::default(), &[kill(7, 20)]);
    assert_eq!(report.broken(), ["no_loss", "recovery"], "{report}");
}

#[test]
fn recovery_reports_its_percentiles() {
    let lines = (1..=100).map(|n| {
        let (orphan, again) = (format!("start j{n} 0 {n}-0 7 10"), 20 + n);
        format!("submit j{n} 0|{orphan}|start j{n} 0 {n}-1 8 {again}|end j{n} 0 {n}-1 8 {again} ok|")
    });
    let report = judge(&lines.collect::<String>(), &Facts::default(), &[kill(7, 20)]);
    report.assert_clean();
    let ms = Duration::from_millis;
    let recovery = report.recovery;
    assert_eq!((recovery.orphans, recovery.p50, recovery.p99, recovery.max), (100, ms(51), ms(100), ms(100)));
    let totals = report.totals;
    assert_eq!((totals.submitted, totals.done, totals.dead, totals.starts), (100, 100, 0, 200));
}

#[test]
fn a_report_shows_twenty_offenders_with_their_timelines() {
    let lines: String = (1..=30).map(|n| format!("submit j{n} 0|start j{n} 0 {n}-0 7 10|")).collect();
    let report = judge(&lines, &Facts::default(), &[kill(7, 20)]);
    let violation = &report.violations[0];
    assert_eq!((violation.invariant, violation.count, violation.shown.len()), ("no_loss", 30, 20));
    assert_eq!(violation.shown[0].timeline.len(), 2);
    let text = report.to_string();
    assert!(text.contains("VIOLATED no_loss: 30 offenders"), "{text}");
    assert!(text.contains("    +0.010 s  Kill of pid 7 for 0.000 s"), "{text}");
}

#[test]
fn a_hundred_thousand_jobs_are_judged_in_seconds() {
    let started = thread_cpu_ns();
    let jobs = 100_000;
    let lines: String = (0..jobs)
        .map(|n| {
            format!("submit j{n} 0|start j{n} 0 {n}-0 {} 10|end j{n} 0 {n}-0 {} 20 ok|", n % 200, n % 200)
        })
        .collect();
    let kills: Vec<Event> = (0..200).map(|pid| kill(pid, 500)).collect();
    judge(&lines, &Facts::default(), &kills).assert_clean();
    let took = Duration::from_nanos(thread_cpu_ns() - started);
    assert!(took < Duration::from_secs(20), "{took:?}");
}
