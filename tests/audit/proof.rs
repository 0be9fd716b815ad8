//! The judge of the audit can say no: it finds what breaks a rule, by the name of the rule, and excuses what has a cause.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::HashSet;
use std::time::Duration;

use audit::account::{Facts, Letter, Record};
use audit::causes::Causes;
use audit::diary::Diary;
use audit::judge::Case;
use audit::offsets::Offsets;
use audit::plan::{Blow, plan};
use audit::register::{Deed, Entries, Follow, Kind, Reply, Sent};
use audit::report::Judgement;
use audit::ticks::Recurring;
use audit::{Dose, Options};
use harness::weather::{Cause, Event};

const LEASE: u64 = 2_000_000_000;
const PID: u32 = 7;

/// An invented audit: the jobs that were accepted, and what the diary says, with times in milliseconds.
struct Tale {
    entries: Entries,
    diary: Diary,
    facts: Facts,
    events: Vec<Event>,
    ticks: Vec<Recurring>,
    offsets: Offsets,
}

impl Tale {
    fn of(jobs: &[(&str, Kind)], lines: &[&str]) -> Self {
        let mut entries = Entries::default();
        for (mark, kind) in jobs {
            let (id, reply) = (Some((*mark).to_owned()), Reply::Accepted);
            let sent = Sent { kind: *kind, id, reply, at: 0, not_before_ms: 0, key: None };
            entries.sent.insert((*mark).to_owned(), sent);
        }
        let mut diary = Diary::default();
        lines.iter().for_each(|line| diary.take(&line.replace("ms", "000000")));
        Self {
            entries,
            diary,
            facts: Facts::default(),
            events: Vec::new(),
            ticks: Vec::new(),
            offsets: Offsets::default(),
        }
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
        let (entry, mark, id) = (format!("letter of {mark}"), mark.to_owned(), mark.to_owned());
        let (reason, error, offloaded) = (reason.to_owned(), String::new(), String::new());
        self.facts.letters.push(Letter { entry, mark, id, reason, error, offloaded, is_whole: true });
        self
    }

    /// Returns the names of the rules that it breaks.
    fn broken(self) -> Vec<&'static str> {
        let causes = Causes::new(&self.events, &self.diary.stalls, LEASE);
        let Self { entries, diary, facts, ticks, offsets, .. } = self;
        let (processes, replies) = (vec![(PID, 0)], Vec::new());
        let case = Case { entries, replies, diary, facts, causes, processes, ticks, offsets, lease: LEASE };
        case.judge().broken()
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
    // The producer got no answer, but the job ran.
    let mut unheard = Tale::of(&[("a", Kind::Done)], &[START]).hit(Cause::Kill, 150, 151);
    unheard.entries.sent.get_mut("a").unwrap().reply = Reply::Unknown;
    assert_eq!(unheard.broken(), ["nothing is lost"]);
}

#[test]
fn a_second_run_needs_a_cause() {
    let twice = || Tale::of(&[("a", Kind::Done)], &[START, OK, AGAIN]);
    assert_eq!(twice().broken(), ["nothing runs twice without a cause"]);
    assert_eq!(twice().hit(Cause::Kill, 201, 202).broken(), Vec::<&str>::new());
    assert_eq!(twice().hit(Cause::Freeze, 150, 2_150).broken(), Vec::<&str>::new());
    // These pauses are too short, or too late, to be the cause.
    assert_eq!(twice().hit(Cause::Freeze, 150, 1_500).broken(), ["nothing runs twice without a cause"]);
    assert_eq!(twice().hit(Cause::Network, 150, 1_100).broken(), ["nothing runs twice without a cause"]);
    assert_eq!(twice().hit(Cause::Network, 150, 1_200).broken(), Vec::<&str>::new());
    assert_eq!(twice().hit(Cause::Kill, 4_900, 4_901).broken(), ["nothing runs twice without a cause"]);
}

#[test]
fn a_start_after_a_takeover_is_found_even_if_its_worker_was_frozen() {
    let lines = ["start a - a 1 again 5-0 8 90ms 90", "end a - 5-0 8 95ms ok", START, OK];
    let tale = Tale::of(&[("a", Kind::Done)], &lines).hit(Cause::Freeze, 0, 1_500);
    assert_eq!(tale.broken(), ["a job that others took over does not start"]);
}

/// Each of its threads had decided to start one job when it was frozen.
#[test]
fn a_frozen_worker_is_excused_for_one_start_per_thread() {
    let frozen = |count: usize| {
        let marks: Vec<String> = (0..count).map(|nth| format!("a{nth}")).collect();
        let jobs: Vec<(&str, Kind)> = marks.iter().map(|mark| (mark.as_str(), Kind::Done)).collect();
        let lines = marks.iter().flat_map(|mark| {
            let taken = [
                format!("start {mark} - {mark} 1 again 5-0 8 2500ms 2500"),
                format!("end {mark} - 5-0 8 2510ms ok"),
            ];
            let late = [
                format!("start {mark} - {mark} 1 new 1-0 7 3001ms 3001"),
                format!("end {mark} - 1-0 7 3002ms ok"),
            ];
            [taken, late].concat()
        });
        let lines: Vec<String> = lines.collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        Tale::of(&jobs, &lines).hit(Cause::Freeze, 100, 3_000).broken()
    };
    assert_eq!(frozen(2), Vec::<&str>::new());
    assert_eq!(frozen(3), ["a job that others took over does not start"]);
}

#[test]
fn a_double_submission_is_found_even_if_the_worker_was_killed() {
    let lines = [START, OK, "start a - a 1 new 5-0 8 5000ms 5000"];
    let tale = Tale::of(&[("a", Kind::Done)], &lines).hit(Cause::Kill, 201, 202);
    assert_eq!(tale.broken(), ["only a replay starts a job afresh"]);
}

#[test]
fn a_retry_needs_no_cause_but_a_replay_needs_a_person() {
    let failed =
        ["end a - 1-0 7 200ms failed", "start a - a 2 new 5-0 8 300ms 300", "end a - 5-0 8 400ms ok"];
    let tale = Tale::of(&[("a", Kind::Done)], &[START, failed[0], failed[1], failed[2]]);
    assert_eq!(tale.broken(), Vec::<&str>::new());
    let fatal = "end a - 1-0 7 200ms fatal";
    let replayed = || {
        let (again, done) = ("start a - a 1 new 5-0 8 900ms 900", "end a - 5-0 8 950ms ok");
        Tale::of(&[("a", Kind::Mended)], &[START, fatal, again, done])
    };
    assert_eq!(replayed().deed(Deed::Replayed { generation: "a".to_owned() }).broken(), Vec::<&str>::new());
    assert!(replayed().broken().contains(&"nothing runs twice without a cause"));
}

#[test]
fn a_once_step_that_started_twice_is_always_found() {
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
fn a_letter_of_an_exhausted_step_stays_only_if_its_replay_may_have_failed() {
    let fatal = ["start a mail a 1 new 1-0 7 100ms 100", "end a mail 1-0 7 200ms fatal"];
    let dead = || Tale::of(&[("a", Kind::Gift)], &fatal).letter("a", "exhausted");
    let broken = ["attempts stay within their bounds", "only expected jobs leave dead letters"];
    assert_eq!(dead().broken(), broken);
    assert_eq!(dead().deed(Deed::Abandoned { letter: "another".to_owned() }).broken(), broken);
    assert_eq!(
        dead().deed(Deed::Abandoned { letter: "letter of a".to_owned() }).broken(),
        Vec::<&str>::new()
    );
}

#[test]
fn a_run_of_a_job_that_was_never_accepted_is_found() {
    assert_eq!(Tale::of(&[], &[START, OK]).broken(), ["nothing runs that was not accepted"]);
    let mut refused = Tale::of(&[("a", Kind::Done)], &[START, OK]);
    refused.entries.sent.get_mut("a").unwrap().reply = Reply::Refused;
    assert_eq!(refused.broken(), ["nothing runs that was not accepted"]);
}

#[test]
fn a_job_in_two_places_and_an_unexpected_letter_are_found() {
    let both = Tale::of(&[("a", Kind::Fatal)], &[START, OK]).letter("a", "fatal");
    assert_eq!(both.broken(), ["each generation ends in one place"]);
    let worn = Tale::of(&[("a", Kind::Done)], &[]).letter("a", "fatal");
    assert_eq!(worn.broken(), ["only expected jobs leave dead letters"]);
    let mut cut = Tale::of(&[("a", Kind::Fatal)], &[]).letter("a", "fatal");
    cut.facts.letters[0].is_whole = false;
    assert_eq!(cut.broken(), ["only expected jobs leave dead letters"]);
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
fn a_follow_up_that_runs_twice_or_never_is_found() {
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
    assert_eq!(tale(&[]).broken(), ["a follow-up runs once"]);
    assert!(tale(&[3, 4]).broken().contains(&"a follow-up runs once"));
}

#[test]
fn a_cancelled_job_that_starts_is_found() {
    let cancelled = |is_done, at: u64| Deed::Cancelled {
        id: "a".to_owned(),
        is_done,
        asked: (at - 10) * 1_000_000,
        answered: at * 1_000_000,
    };
    let tale = || Tale::of(&[("a", Kind::Cancelled)], &[START, OK]);
    assert_eq!(tale().deed(cancelled(true, 90)).broken(), ["a cancelled job does not start"]);
    assert_eq!(tale().deed(cancelled(false, 90)).broken(), Vec::<&str>::new());
    assert_eq!(tale().deed(cancelled(true, 90)).hit(Cause::Freeze, 0, 2_000).broken(), Vec::<&str>::new());
}

#[test]
fn a_skipped_or_repeated_tick_is_found() {
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
    assert!(twice.contains(&"each tick is one job") && twice.contains(&"only a replay starts a job afresh"));
}

#[test]
fn a_run_missing_from_the_record_is_found() {
    let lines = [START, OK, AGAIN, "end a - 5-0 8 5100ms ok"];
    let named = |noted| {
        let mut tale = Tale::of(&[("a", Kind::Done)], &lines).hit(Cause::Kill, 201, 202);
        let record = Record { state: "done".to_owned(), rows: Vec::new(), noted };
        tale.facts.records.insert("a".to_owned(), record);
        tale.broken()
    };
    assert_eq!(named(2), Vec::<&str>::new());
    assert_eq!(named(1), ["the record lists every run"]);
}

#[test]
fn one_attempt_too_many_or_too_few_is_found() {
    const BOUNDS: [&str; 1] = ["attempts stay within their bounds"];
    let attempt = |nth: u32, how: &str| {
        let start = format!("start a - a {nth} new {nth}-0 7 {nth}00ms 100");
        [start, format!("end a - {nth}-0 7 {nth}50ms {how}")]
    };
    let tale = |ends: &[&str]| {
        let lines: Vec<String> = (1..).zip(ends).flat_map(|(nth, how)| attempt(nth, how)).collect();
        Tale::of(&[("a", Kind::Done)], &lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_eq!(tale(&["failed", "failed", "failed", "ok"]).broken(), Vec::<&str>::new());
    assert_eq!(tale(&["failed", "failed", "failed", "failed", "ok"]).broken(), BOUNDS);
    // A killed worker spends no attempt.
    assert_eq!(tale(&["interrupted", "ok"]).hit(Cause::Kill, 150, 151).broken(), BOUNDS);
    let failed = ["start a - a 3 new 1-0 7 100ms 100", "end a - 1-0 7 200ms failed"];
    let given_up = Tale::of(&[("a", Kind::Exhausted)], &failed).letter("a", "exhausted");
    assert!(given_up.broken().contains(&BOUNDS[0]));
}

#[test]
fn a_handler_not_cut_off_at_its_timeout_is_found() {
    let hung = |until: &str| {
        let end = format!("end a - 1-0 7 {until}ms interrupted");
        let second = ["start a - a 2 new 5-0 8 9000ms 9000", "end a - 5-0 8 9700ms interrupted"];
        Tale::of(&[("a", Kind::Hanging)], &[START, &end, second[0], second[1]]).letter("a", "exhausted")
    };
    assert_eq!(hung("800").broken(), Vec::<&str>::new());
    assert_eq!(hung("7000").broken(), ["attempts stay within their bounds"]);
    assert_eq!(hung("7000").hit(Cause::Freeze, 700, 6_900).broken(), Vec::<&str>::new());
}

#[test]
fn a_server_clock_step_excuses_an_equally_early_start() {
    let early = |not_before_ms, by_ms| {
        let mut tale = Tale::of(&[("a", Kind::Done)], &[START, OK]);
        tale.entries.sent.get_mut("a").unwrap().not_before_ms = not_before_ms;
        tale.offsets.step(50_000_000, by_ms);
        tale.broken()
    };
    assert_eq!(early(1_100, 1_000), Vec::<&str>::new());
    assert_eq!(early(1_101, 1_000), ["nothing starts before its time"]);
}

/// Writes the diary of a bulk of plain jobs with these replies, and judges it.
fn in_bulk(replies: &[Reply], lines: &[&str]) -> Judgement {
    let folder = tempfile::tempdir().unwrap();
    let text: String = lines.iter().map(|line| format!("{}\n", line.replace("ms", "000000"))).collect();
    std::fs::write(folder.path().join("worker"), text).unwrap();
    let diary = Diary::read(folder.path(), replies, &HashSet::new(), &[]);
    let causes = Causes::new(&[], &diary.stalls, LEASE);
    let mut case = Case {
        entries: Entries::default(),
        replies: replies.to_vec(),
        diary,
        facts: Facts::default(),
        causes,
        processes: vec![(PID, 0)],
        ticks: Vec::new(),
        offsets: Offsets::default(),
        lease: LEASE,
    };
    case.name_odd_ones();
    case.judge()
}

#[test]
fn bulk_jobs_are_judged_like_others() {
    const ONE: [&str; 2] = ["start p0 - 1-0 1 new 1-0 7 100ms 100", "end p0 - 1-0 7 200ms ok"];
    const AGAIN: [&str; 2] = ["start p0 - 1-0 1 again 1-0 8 5000ms 5000", "end p0 - 1-0 8 5100ms ok"];
    let accepted = [Reply::Accepted];
    let judged = in_bulk(&accepted, &ONE);
    assert_eq!((judged.broken(), judged.total().done, judged.starts), (vec![], 1, 1));
    assert_eq!(in_bulk(&accepted, &[]).broken(), ["nothing is lost"]);
    assert_eq!(in_bulk(&accepted, &ONE[..1]).broken(), ["nothing is lost"]);
    let twice = in_bulk(&accepted, &[ONE, AGAIN].concat());
    assert_eq!(twice.broken(), ["nothing runs twice without a cause"]);
    assert_eq!(in_bulk(&[Reply::Refused], &ONE).broken(), ["nothing runs that was not accepted"]);
    assert_eq!(in_bulk(&[Reply::Refused], &[]).broken(), Vec::<&str>::new());
    assert_eq!(in_bulk(&[Reply::Unknown], &ONE).broken(), Vec::<&str>::new());
}

/// The workers of an audit are further processes of this program, which run only this test.
#[test]
fn audit() {
    audit::worker::run_if_launched();
}

#[test]
fn a_calm_audit_finds_each_job_done_once() {
    let report = audit::run(&options(400, Duration::from_secs(5), Dose::NONE), |_| {});
    let total = report.judgement.total();
    assert!(report.is_clean(), "{report}");
    assert!(total.accepted >= 400, "{total:?}");
    assert_eq!(total.accepted, total.done + total.dead + total.cancelled + total.dropped);
}

fn options(jobs: u64, length: Duration, dose: Dose) -> Options {
    Options { seed: 1, jobs, length, workers: 2, lease: Duration::from_secs(2), dose, env: Vec::new() }
}

#[test]
fn a_seed_plans_the_same_faults_in_the_requested_number() {
    let length = Duration::from_secs(1_800);
    let dose = Dose { kills: 200, freezes: 60, redis_kills: 20, ..Dose::over(length) };
    let (one, other) = (plan(&options(1, length, dose)), plan(&options(1, length, dose)));
    assert_eq!(one, other);
    let count = |blow: &str, at_once: usize| {
        let named = one.iter().filter(|strike| strike.blow.name() == blow);
        let sizes = named.map(|strike| if matches!(strike.blow, Blow::KillAll) { at_once } else { 1 });
        sizes.sum::<usize>()
    };
    assert_eq!(
        [count("worker killed", 2), count("worker frozen", 1), count("Redis killed", 1)],
        [200, 60, 20]
    );
}
