//! The judge can say no: what breaks a rule is found, by the name of the rule, and what has a cause is not.

use super::account::{Facts, Letter, Record};
use super::causes::Causes;
use super::diary::Diary;
use super::judge::Case;
use super::register::{Deed, Entries, Follow, Kind, Reply, Sent};
use super::ticks::Recurring;
use crate::harness::weather::{Cause, Event};

const LEASE: u64 = 2_000_000_000;
const PID: u32 = 7;

/// A storm made up: jobs of this kind were accepted, and this is what the diary says, with times in milliseconds.
struct Tale {
    entries: Entries,
    diary: Diary,
    facts: Facts,
    events: Vec<Event>,
    ticks: Vec<Recurring>,
}

impl Tale {
    fn of(jobs: &[(&str, Kind)], lines: &[&str]) -> Self {
        let mut entries = Entries::default();
        for (mark, kind) in jobs {
            let (id, reply) = (Some((*mark).to_owned()), Reply::Accepted);
            let sent = Sent { kind: *kind, id, reply, not_before_ms: 0, key: None };
            entries.sent.insert((*mark).to_owned(), sent);
        }
        let mut diary = Diary::default();
        lines.iter().for_each(|line| diary.take(&line.replace("ms", "000000")));
        Self { entries, diary, facts: Facts::default(), events: Vec::new(), ticks: Vec::new() }
    }

    fn hit(mut self, cause: Cause, from_ms: u64, until_ms: u64) -> Self {
        let (from, until) = (from_ms * 1_000_000, until_ms * 1_000_000);
        self.events.push(Event { cause, pid: Some(PID), from, until });
        self
    }

    fn deed(mut self, deed: Deed) -> Self {
        self.entries.deeds.push(deed);
        self
    }

    fn letter(mut self, mark: &str, reason: &str) -> Self {
        let (mark, id) = (mark.to_owned(), mark.to_owned());
        let (reason, error, offloaded) = (reason.to_owned(), String::new(), String::new());
        self.facts.letters.push(Letter { mark, id, reason, error, offloaded });
        self
    }

    /// The names of the rules that it breaks.
    fn broken(self) -> Vec<&'static str> {
        let causes = Causes::new(&self.events, &self.diary.stalls, LEASE);
        let Self { entries, diary, facts, ticks, .. } = self;
        let case = Case { entries, diary, facts, causes, processes: vec![(PID, 0)], ticks, lease: LEASE };
        case.judge().rules()
    }
}

const START: &str = "start a - a 1 new 1-0 7 100ms 100";
const OK: &str = "end a - 1-0 7 200ms ok";
const AGAIN: &str = "start a - a 1 again 5-0 8 5000ms 5000";

#[test]
fn a_job_that_runs_once_breaks_no_rule() {
    assert_eq!(Tale::of(&[("a", Kind::Done)], &[START, OK]).broken(), Vec::<&str>::new());
}

#[test]
fn a_lost_job_is_found() {
    assert_eq!(Tale::of(&[("a", Kind::Done)], &[]).broken(), ["nothing is lost"]);
    let cut_short = Tale::of(&[("a", Kind::Done)], &[START]).hit(Cause::Kill, 150, 151);
    assert_eq!(cut_short.broken(), ["nothing is lost"]);
}

#[test]
fn a_second_run_needs_a_cause() {
    let twice = || Tale::of(&[("a", Kind::Done)], &[START, OK, AGAIN]);
    assert_eq!(twice().broken(), ["nothing runs twice without a cause"]);
    assert_eq!(twice().hit(Cause::Kill, 201, 202).broken(), Vec::<&str>::new());
    assert_eq!(twice().hit(Cause::Freeze, 150, 2_150).broken(), Vec::<&str>::new());
    // Others waited for it, or should have.
    assert_eq!(twice().hit(Cause::Freeze, 150, 1_500).broken(), ["nothing runs twice without a cause"]);
    assert_eq!(twice().hit(Cause::Network, 150, 1_100).broken(), ["nothing runs twice without a cause"]);
    assert_eq!(twice().hit(Cause::Network, 150, 1_200).broken(), Vec::<&str>::new());
    assert_eq!(twice().hit(Cause::Kill, 4_900, 4_901).broken(), ["nothing runs twice without a cause"]);
}

#[test]
fn a_worker_that_starts_what_others_took_over_is_found_though_it_stood_still() {
    let lines = ["start a - a 1 again 5-0 8 90ms 90", "end a - 5-0 8 95ms ok", START, OK];
    let tale = Tale::of(&[("a", Kind::Done)], &lines).hit(Cause::Freeze, 0, 1_500);
    assert_eq!(tale.broken(), ["what others took over does not start"]);
}

#[test]
fn a_job_that_was_submitted_twice_is_found_though_its_worker_was_killed() {
    let lines = [START, OK, "start a - a 1 new 5-0 8 5000ms 5000"];
    let tale = Tale::of(&[("a", Kind::Done)], &lines).hit(Cause::Kill, 201, 202);
    assert_eq!(tale.broken(), ["nothing begins anew but by a replay"]);
}

#[test]
fn a_retry_needs_no_cause_and_a_replay_a_person() {
    let failed =
        ["end a - 1-0 7 200ms failed", "start a - a 2 new 5-0 8 300ms 300", "end a - 5-0 8 400ms ok"];
    let tale = Tale::of(&[("a", Kind::Done)], &[START, failed[0], failed[1], failed[2]]);
    assert_eq!(tale.broken(), Vec::<&str>::new());
    let fatal = "end a - 1-0 7 200ms fatal";
    let replayed = || {
        let (again, done) = ("start a - a 1 new 5-0 8 900ms 900", "end a - 5-0 8 950ms ok");
        Tale::of(&[("a", Kind::Mended)], &[START, fatal, again, done])
    };
    assert_eq!(replayed().deed(Deed::Replayed { life: "a".to_owned() }).broken(), Vec::<&str>::new());
    assert!(replayed().broken().contains(&"nothing runs twice without a cause"));
}

#[test]
fn a_once_step_that_started_twice_is_found_whatever_happened() {
    let first = ["start a charge a 1 new 1-0 7 100ms 100", "end a charge 1-0 7 200ms ok"];
    let lines = [first[0], first[1], "start a charge a 1 again 5-0 8 5000ms 5000"];
    let twice = || {
        let mut tale = Tale::of(&[("a", Kind::Gift)], &lines).hit(Cause::Kill, 201, 202);
        let record = Record { state: "done".to_owned(), ..Record::default() };
        tale.facts.records.insert("a".to_owned(), record);
        tale
    };
    assert_eq!(twice().broken(), ["a once step starts once"]);
    assert_eq!(twice().deed(Deed::RunAgain { id: "a".to_owned() }).broken(), Vec::<&str>::new());
}

#[test]
fn what_was_never_accepted_does_not_run() {
    assert_eq!(Tale::of(&[], &[START, OK]).broken(), ["nothing runs that was not accepted"]);
    let mut refused = Tale::of(&[("a", Kind::Done)], &[START, OK]);
    refused.entries.sent.get_mut("a").unwrap().reply = Reply::Refused;
    assert_eq!(refused.broken(), ["nothing runs that was not accepted"]);
}

#[test]
fn a_job_in_two_places_and_a_letter_that_nobody_expects_are_found() {
    let both = Tale::of(&[("a", Kind::Fatal)], &[START, OK]).letter("a", "fatal");
    assert_eq!(both.broken(), ["each life ends in one place"]);
    let worn = Tale::of(&[("a", Kind::Done)], &[]).letter("a", "exhausted");
    assert_eq!(worn.broken(), ["letters are those that were to be expected"]);
}

#[test]
fn a_start_before_its_time_is_found() {
    let mut tale = Tale::of(&[("a", Kind::Done)], &[START, OK]);
    tale.entries.sent.get_mut("a").unwrap().not_before_ms = 101;
    assert_eq!(tale.broken(), ["nothing starts before its time"]);
}

#[test]
fn two_holders_of_a_key_are_found() {
    let lines = ["start b - b 1 new 2-0 8 150ms 150", "end b - 2-0 8 160ms ok"];
    let held = || {
        let mut tale =
            Tale::of(&[("a", Kind::Unique), ("b", Kind::Unique)], &[START, OK, lines[0], lines[1]]);
        tale.entries.sent.values_mut().for_each(|sent| sent.key = Some("u".to_owned()));
        tale
    };
    assert_eq!(held().broken(), ["a unique key has one holder at a time"]);
    assert_eq!(held().hit(Cause::Kill, 140, 141).broken(), Vec::<&str>::new());
}

#[test]
fn what_follows_twice_or_never_is_found() {
    let follower = |nth: u32| format!("start f - {nth}-0 1 new {nth}-0 7 {nth}00ms 300");
    let tale = |followers: &[u32]| {
        let mut lines = vec![START.to_owned(), OK.to_owned()];
        for nth in followers {
            lines.extend([follower(*nth), format!("end f - {nth}-0 7 {nth}50ms ok")]);
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut tale = Tale::of(&[("a", Kind::Done), ("f", Kind::Done)], &lines);
        let (mark, of) = ("f".to_owned(), vec!["a".to_owned()]);
        tale.entries.follows.push(Follow { mark, of, on_death: false });
        tale.entries.sent.get_mut("f").unwrap().reply = Reply::Unknown;
        tale
    };
    assert_eq!(tale(&[3]).broken(), Vec::<&str>::new());
    assert_eq!(tale(&[]).broken(), ["what follows an end follows it once"]);
    assert!(tale(&[3, 4]).broken().contains(&"what follows an end follows it once"));
}

#[test]
fn a_cancelled_job_that_starts_is_found() {
    let told = |is_done, at: u64| Deed::Cancelled {
        id: "a".to_owned(),
        is_done,
        asked: (at - 10) * 1_000_000,
        answered: at * 1_000_000,
    };
    let tale = || Tale::of(&[("a", Kind::Cancelled)], &[START, OK]);
    assert_eq!(tale().deed(told(true, 90)).broken(), ["what is cancelled does not start"]);
    assert_eq!(tale().deed(told(false, 90)).broken(), Vec::<&str>::new());
    assert_eq!(tale().deed(told(true, 90)).hit(Cause::Freeze, 0, 2_000).broken(), Vec::<&str>::new());
}

#[test]
fn a_tick_that_is_skipped_or_comes_twice_is_found() {
    let ticked = |ids: [&str; 2]| {
        let line = |nth: usize, id: &str| format!("start {id} - {id} 1 new {nth}-0 7 {nth}0ms 9");
        let end = |nth: usize, id: &str| format!("end {id} - {nth}-0 7 {nth}5ms ok");
        let lines = [line(1, ids[0]), end(1, ids[0]), line(2, ids[1]), end(2, ids[1])];
        let mut tale = Tale::of(&[], &lines.each_ref().map(String::as_str));
        let (name, every_ms, all, offset_ms) = ("all", 1000, true, 0);
        tale.ticks.push(Recurring { name, every_ms, first: 1000, last: 2000, all, offset_ms });
        tale.broken()
    };
    assert_eq!(ticked(["cron.all.1000", "cron.all.2000"]), Vec::<&str>::new());
    let twice = ticked(["cron.all.1000", "cron.all.1000"]);
    assert!(
        twice.contains(&"each tick is one job") && twice.contains(&"nothing begins anew but by a replay")
    );
}

#[test]
fn a_run_that_the_record_does_not_name_is_found() {
    let lines = [START, OK, AGAIN, "end a - 5-0 8 5100ms ok"];
    let named = |noted| {
        let mut tale = Tale::of(&[("a", Kind::Done)], &lines).hit(Cause::Kill, 201, 202);
        let record = Record { state: "done".to_owned(), rows: Vec::new(), noted };
        tale.facts.records.insert("a".to_owned(), record);
        tale.broken()
    };
    assert_eq!(named(2), Vec::<&str>::new());
    assert_eq!(named(1), ["the record names each run"]);
}
