//! Plans that are rejected, and the laws of those that are not: a model of worker, Redis and crashes runs random plans.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::job::{
    DeadReason, Failure, FailureKind, Ledger, Outcome, Policy, Retry, StepLimits, StepState, Timestamp,
    end_step,
};

fn step(name: &str, kind: StepKind, after: &[&str]) -> PlannedStep {
    let after = after.iter().map(|name| name.parse().unwrap()).collect();
    PlannedStep { name: name.parse().unwrap(), kind, after }
}

fn refused(steps: Vec<PlannedStep>) -> String {
    Plan::new(steps).unwrap_err().to_string()
}

fn ledger(states: &[(&str, &str)]) -> Ledger {
    let fields: Vec<_> = states.iter().map(|(step, state)| (format!("{step}:state"), *state)).collect();
    read(&fields)
}

fn read(fields: &[(impl AsRef<str>, &str)]) -> Ledger {
    Ledger::read(fields.iter().map(|(name, value)| (name.as_ref().as_bytes(), value.as_bytes())))
}

const NOW: Timestamp = Timestamp::MAX;

#[test]
fn empty_duplicate_and_cyclic_step_lists_are_refused_by_name() {
    assert!(refused(vec![]).contains("at least one step"));
    let twice = vec![step("a", StepKind::Auto, &[]), step("a", StepKind::Once, &[])];
    assert_eq!(refused(twice), "the step a appears twice");
    let lost = vec![step("a", StepKind::Auto, &["b"])];
    assert_eq!(refused(lost), "the step a comes after b, which is not a step of the job");
    let circle = vec![
        step("a", StepKind::Auto, &["c"]),
        step("b", StepKind::Auto, &[]),
        step("c", StepKind::Auto, &["a", "b"]),
    ];
    assert_eq!(refused(circle), "these steps wait for each other: a, c");
    assert_eq!(refused(vec![step("a", StepKind::Auto, &["a"])]), "these steps wait for each other: a");
    let many = (0..65).map(|nth| step(&format!("s{nth}"), StepKind::Auto, &[])).collect();
    assert_eq!(refused(many), "65 steps, but at most 64 are allowed");
}

#[test]
fn a_plan_is_read_back_from_its_text() {
    let steps = vec![
        step("render", StepKind::Auto, &[]),
        step("charge", StepKind::Once, &[]),
        step("mail", StepKind::Auto, &["render", "charge"]),
    ];
    let plan = Plan::new(steps).unwrap();
    assert_eq!(plan.to_string(), "render auto\ncharge once\nmail auto render,charge");
    assert_eq!(plan.to_string().parse(), Ok(plan));
}

#[test]
fn a_failed_step_stops_only_the_steps_after_it() {
    let plan: Plan = "charge once\nmail auto charge\nrender auto".parse().unwrap();
    let after = |states: &[(&str, &str)]| plan.next(&ledger(states), "", NOW, &BTreeSet::new());
    assert_eq!(after(&[("charge", "failed")]), Next::Run(2));
    assert_eq!(after(&[("charge", "failed"), ("render", "done")]), Next::Stuck(DeadReason::NeedsDecision));
    let exhausted = [("charge", "unknown"), ("render", "exhausted")];
    assert_eq!(after(&exhausted), Next::Stuck(DeadReason::NeedsDecision));
    assert_eq!(
        after(&[("charge", "done"), ("mail", "done"), ("render", "exhausted")]),
        Next::Stuck(DeadReason::Exhausted)
    );
    assert_eq!(after(&[("charge", "given_up"), ("render", "done")]), Next::Stuck(DeadReason::Fatal));
    let mail = "mail".parse().unwrap();
    assert_eq!(plan.standing(&ledger(&[("charge", "given_up")]), &mail), Standing::Skipped);
}

#[test]
fn a_step_that_another_generation_has_started_is_tried_once_and_then_waited_for() {
    let plan: Plan = "charge once\nmail auto".parse().unwrap();
    let fields = [("charge:state", "started"), ("charge:life", "1-0"), ("mail:state", "done")];
    let ledger = read(&fields);
    assert_eq!(plan.next(&ledger, "2-0", NOW, &BTreeSet::new()), Next::Run(0));
    assert_eq!(plan.next(&ledger, "2-0", NOW, &BTreeSet::from([0])), Next::Wait(Duration::from_secs(1)));
}

#[test]
fn a_step_exhausted_by_a_living_job_of_the_same_id_is_exhausted() {
    let plan: Plan = "mail auto".parse().unwrap();
    let next = |fields: &[(&str, &str)]| plan.next(&read(fields), "2-0", NOW, &BTreeSet::new());
    let fields = [("mail:state", "exhausted"), ("mail:life", "1-0"), ("@1-0", "1")];
    assert_eq!(next(&fields), Next::Stuck(DeadReason::Exhausted));
    assert_eq!(next(&fields[..2]), Next::Run(0));
}

#[test]
fn the_job_is_done_when_all_its_steps_are() {
    let plan: Plan = "charge once\nmail auto".parse().unwrap();
    let all = ledger(&[("charge", "done"), ("mail", "done"), ("of-an-older-plan", "failed")]);
    assert_eq!(plan.next(&all, "0", NOW, &BTreeSet::new()), Next::Done);
    assert_eq!(plan.after_decision(&all), AfterDecision::Done);
}

#[test]
fn a_decision_replays_what_can_run_and_nothing_else() {
    let plan: Plan = "charge once\nrefund once\nmail auto charge".parse().unwrap();
    let then = |charge, refund, mail| {
        plan.after_decision(&ledger(&[("charge", charge), ("refund", refund), ("mail", mail)]))
    };
    assert_eq!(then("done", "unknown", "pending"), AfterDecision::Replay);
    assert_eq!(then("done", "unknown", "done"), AfterDecision::Stay);
    assert_eq!(then("given_up", "done", "pending"), AfterDecision::Stay);
    assert_eq!(then("done", "done", "exhausted"), AfterDecision::Replay);
}

#[test]
fn a_result_is_added_once_to_a_step_that_a_person_declared_done() {
    let plan: Plan = "charge once\nmail auto charge".parse().unwrap();
    let may = |more: &[(&str, &str)]| {
        let declared = [("charge:state", "done"), ("charge:decision", "1 done ann paid")];
        plan.may_amend(&read(&[&declared[..], more].concat()), &"charge".parse().unwrap())
    };
    assert!(may(&[]));
    assert!(may(&[("mail:state", "exhausted")]));
    assert!(!may(&[("charge:result", "17")]));
    assert!(!may(&[("mail:state", "started")]));
    assert!(!may(&[("charge:decision", "2 run ann again")]));
}

/// A job with steps, the Redis that keeps its ledger, and what happens to it.
struct Model {
    plan: Plan,
    ledger: Ledger,
    now: Timestamp,
    /// How often each step's handler ran, without the runs that said they did nothing.
    runs: Vec<u32>,
    attempt: u32,
}

impl Model {
    /// Runs one attempt and returns its result; `None` if its worker died in the middle of it.
    fn attempt(&mut self, events: &mut impl Iterator<Item = Event>) -> Option<Next> {
        self.attempt += 1;
        let (mut tried, run) = (BTreeSet::new(), self.attempt.to_string());
        loop {
            let next = self.plan.next(&self.ledger, "1", self.now, &tried);
            let Next::Run(at) = next else { return Some(next) };
            assert!(tried.insert(at), "no step runs twice in one attempt");
            let PlannedStep { name, kind, .. } = self.plan.steps()[at].clone();
            // Like the script: a once step that another run started is unknown.
            if kind == StepKind::Once && self.ledger.state(&name) == StepState::Started {
                let end = end_step(
                    (kind, 0, None),
                    &StepLimits::default(),
                    &Policy::default(),
                    &Outcome::Interrupted,
                    0.5,
                );
                self.ledger.ended(&name, &end, self.now);
                continue;
            }
            let before = self.ledger.get(&name).map_or(0, |record| record.attempts_in("1", kind));
            self.ledger.began(&name, &run, "1");
            let event = events.next().unwrap_or(Event::Ends(Outcome::Done(None)));
            let Event::Ends(outcome) = event else { return None };
            if !matches!(outcome, Outcome::Snoozed(_)) {
                self.runs[at] += 1;
            }
            let end =
                end_step((kind, before, None), &StepLimits::default(), &Policy::default(), &outcome, 0.5);
            assert!(StepState::Started.may_become(kind, end.state));
            self.ledger.ended(&name, &end, self.now);
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    Dies,
    Ends(Outcome),
}

fn any_event() -> impl Strategy<Value = Event> {
    let failed = |kind, retry| Outcome::Failed(Failure::new(kind, "no", retry));
    prop_oneof![
        Just(Event::Dies),
        Just(Event::Ends(Outcome::Interrupted)),
        Just(Event::Ends(Outcome::Snoozed(Duration::ZERO))),
        Just(Event::Ends(failed(FailureKind::Error, Retry::Policy))),
        Just(Event::Ends(failed(FailureKind::Error, Retry::Never))),
        Just(Event::Ends(failed(FailureKind::Timeout, Retry::Policy))),
        Just(Event::Ends(Outcome::Done(None))),
    ]
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let draft = (any::<bool>(), any::<u8>());
    proptest::collection::vec(draft, 1..7).prop_map(|drafts| {
        let steps = drafts.iter().enumerate().map(|(at, (once, after))| {
            let kind = if *once { StepKind::Once } else { StepKind::Auto };
            let before = (0..at).filter(|before| after & (1 << before) != 0);
            let before: Vec<String> = before.map(|before| format!("s{before}")).collect();
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            step(&format!("s{at}"), kind, &before)
        });
        Plan::new(steps.collect()).unwrap()
    })
}

proptest! {
    #[test]
    fn every_job_ends_and_no_once_step_starts_twice_on_its_own(
        plan in any_plan(), events in proptest::collection::vec(any_event(), 0..40),
    ) {
        let now = Timestamp::from_ms(1_000).unwrap();
        let runs = vec![0; plan.steps().len()];
        let mut model = Model { plan, ledger: Ledger::default(), now, runs, attempt: 0 };
        let mut events = events.into_iter();
        let end = loop {
            // Every attempt that does not end the job consumes an event or waits, so the loop is bounded.
            prop_assert!(model.attempt < 200, "{:?}", model.ledger);
            match model.attempt(&mut events) {
                Some(Next::Wait(wait)) => model.now = model.now.after(wait),
                Some(Next::Run(_)) => unreachable!("an attempt runs all that is ready"),
                Some(end @ (Next::Done | Next::Stuck(_))) => break end,
                None => {}
            }
        };
        let states: Vec<_> = model.plan.steps().iter().map(|step| model.ledger.state(&step.name)).collect();
        prop_assert_eq!(end == Next::Done, states.iter().all(|state| *state == StepState::Done));
        for (step, runs) in model.plan.steps().iter().zip(&model.runs) {
            prop_assert!(step.kind == StepKind::Auto || *runs <= 1, "{} ran {runs} times", step.name);
        }
        if end == Next::Stuck(DeadReason::NeedsDecision) {
            prop_assert!(states.iter().any(|state| matches!(state, StepState::Failed | StepState::Unknown)));
        }
    }
}
