//! What follows from the class of an error.

use super::*;
use crate::handlers::pool::message::Verdict;
use crate::handlers::pool::outcome::said;
use crate::job::RuleAction;

#[tokio::test]
async fn a_program_may_say_that_it_does_not_know() {
    let stage =
        Stage::new("ready()\nfor job in jobs(): answer(job, 'retry', error='no answer', unknown=True)");
    let failed = failure(stage.run("1").await);
    assert_eq!((failed.kind, failed.error.as_str()), (FailureKind::Unknown, "no answer"));
    assert_eq!(failed.retry, Retry::Policy);
    stage.stop().await;
}

#[tokio::test]
async fn the_class_of_an_error_decides_unless_the_program_has() {
    let of_pool = ErrorRules::new([
        ("LookupError", RuleAction::Drop),
        ("ValueError", RuleAction::Fatal),
        ("Exception", RuleAction::RetryAfter(Duration::from_secs(30))),
    ]);
    let stage = Stage::with(
        "ready()
for job in jobs():
    classes = [kind.__name__ for kind in getattr(__builtins__, job['payload']).__mro__]
    if job['attempt'] == 2: answer(job, 'fatal', error='its own decision', classes=classes)
    elif job['attempt'] == 3: answer(job, 'retry', error='an old program')
    elif job['attempt'] == 4: answer(job, 'retry', error='busy', classes=classes, delay_ms=60000)
    elif job['attempt'] == 5: answer(job, 'retry', error='busy', classes=classes, delay_ms=1000)
    else: answer(job, 'retry', error=job['payload'], classes=classes)",
        |config| config.errors(of_pool),
    );
    let of_type = ErrorRules::new([("ValueError", RuleAction::Retry), ("UnicodeError", RuleAction::Done)]);
    let report = stage.pool.serving(&"report".parse().unwrap(), &Policy::default().errors(of_type));
    let ask = async |class: &str, attempt: &str| {
        let payload = json!(class).to_string();
        soon(run(&report, payload.as_bytes(), context(&[("attempt", attempt)]))).await
    };
    assert_eq!(ask("KeyError", "0").await, Err(Outcome::Dropped("KeyError".to_owned())));
    assert_eq!(failure(ask("ValueError", "0").await).retry, Retry::Policy, "the type's rule comes first");
    assert_eq!(ask("UnicodeDecodeError", "0").await, Ok(Value::Null));
    assert_eq!(failure(ask("OSError", "0").await).retry, Retry::After(Duration::from_secs(30)));
    for (attempt, seconds) in [("3", 60), ("4", 30)] {
        let later = failure(ask("OSError", attempt).await).retry;
        assert_eq!(later, Retry::After(Duration::from_secs(seconds)), "the later of both");
    }
    assert_eq!(failure(ask("SystemExit", "0").await).retry, Retry::Policy, "no rule fits");
    assert_eq!(failure(ask("KeyError", "1").await).retry, Retry::Never);
    assert_eq!(failure(ask("KeyError", "2").await).retry, Retry::Policy);
    stage.stop().await;
}

#[test]
fn a_snooze_says_why_in_the_log_of_its_job() {
    let minute = Duration::from_secs(60);
    let rules = ErrorRules::new([("Closed", RuleAction::Snooze(minute))]);
    let logged = |verdict: Verdict| {
        let context = context(&[]);
        let ended = said(verdict, &context, &rules).map_err(JobError::into_outcome);
        assert_eq!(ended, Err(Outcome::Snoozed(minute)));
        context.reported().1
    };
    let by_program = |reason: &str| Verdict::Snooze { delay: minute, reason: reason.to_owned() };
    let classes = vec!["Closed".to_owned()];
    let by_rule = Verdict::Retry { error: "Closed: until 8".to_owned(), delay: None, classes };
    assert_eq!(logged(by_program("the bank is closed")), ["snoozed: the bank is closed"]);
    assert_eq!(logged(by_rule), ["snoozed: Closed: until 8"]);
    assert!(logged(by_program("")).is_empty());
}

#[test]
fn no_class_means_that_a_step_that_must_not_run_twice_did_nothing() {
    let minute = Duration::from_secs(60);
    let rules = ErrorRules::new([
        ("Closed", RuleAction::Snooze(minute)),
        ("Gone", RuleAction::Drop),
        ("Lost", RuleAction::Unknown),
        ("Never", RuleAction::Fatal),
    ]);
    let ended = |context: JobContext, class: &str| {
        let classes = vec![class.to_owned(), "Exception".to_owned()];
        let verdict = Verdict::Retry { error: "no answer".to_owned(), delay: None, classes };
        said(verdict, &context, &rules).map_err(JobError::into_outcome)
    };
    let once = || context(&[]).with_once_step("charge");
    for class in ["Closed", "Gone"] {
        let failed = failure(ended(once(), class));
        assert_eq!((failed.kind, failed.retry), (FailureKind::Error, Retry::Policy), "{class}");
        assert_eq!(failed.error, "no answer", "{class}");
    }
    assert_eq!(failure(ended(once(), "Lost")).kind, FailureKind::Unknown);
    assert_eq!(failure(ended(once(), "Never")).retry, Retry::Never);
    assert_eq!(ended(context(&[]), "Closed"), Err(Outcome::Snoozed(minute)));
    let by_itself = Verdict::Snooze { delay: minute, reason: String::new() };
    assert_eq!(
        said(by_itself, &once(), &rules).map_err(JobError::into_outcome),
        Err(Outcome::Snoozed(minute))
    );
    let dropped = Verdict::Drop { reason: "unwanted".to_owned() };
    assert_eq!(
        said(dropped, &once(), &rules).map_err(JobError::into_outcome),
        Err(Outcome::Dropped("unwanted".to_owned()))
    );
}
