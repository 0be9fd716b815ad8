//! The fields of a record that outsiders may read: the documented commands, run against real jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use streamfleet::job::{Encoding, JobId, State, Tracking};
use streamfleet::{Fleet, JobError, Producer, Submission};

use harness::fleet::{Acts, Running, config, queue, quick};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

/// The job of the documented commands.
const DOCUMENTED: &str = "order-7";

type Record = BTreeMap<String, String>;

/// The section of the page about records.
fn section() -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/wire.md")).unwrap();
    let (_, rest) = page.split_once("\n## A job's record\n").unwrap();
    rest.split("\n## ").next().unwrap().to_owned()
}

/// The lines of the section's code in this language.
fn code(language: &str) -> Vec<String> {
    let section = section();
    let (_, rest) = section.split_once(&format!("\n```{language}\n")).unwrap();
    let (code, _) = rest.split_once("\n```").unwrap();
    code.lines().map(str::to_owned).collect()
}

/// The words of a command, in which only single quotes quote.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for letter in line.chars() {
        match letter {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The documented command that begins like this, for another job.
fn command(name: &str, id: &str) -> Vec<String> {
    let line = code("sh").into_iter().find(|line| line.starts_with(&format!("redis-cli {name} "))).unwrap();
    words(&line.replace(DOCUMENTED, id)).split_off(1)
}

/// The fields that the documented command reads.
fn names() -> Vec<String> {
    command("HMGET", DOCUMENTED).split_off(2)
}

/// What the documented command reads of this job, without the fields that are absent.
fn record(server: &RedisServer, id: &str) -> Record {
    let values: Vec<Option<String>> = redis::from_redis_value(server.cmd(&command("HMGET", id))).unwrap();
    names().into_iter().zip(values).filter_map(|(name, value)| Some((name, value?))).collect()
}

/// For how many ms the record of this job stays; -1 for no end.
fn stays(server: &RedisServer, id: &str) -> i64 {
    redis::from_redis_value(server.cmd(&command("PTTL", id))).unwrap()
}

/// Submits a job with the documented command and further fields. Returns when Redis accepted it.
fn submit(server: &RedisServer, id: &str, more: &[&str]) -> u64 {
    let mut command = command("XADD", id);
    command.extend(more.iter().map(ToString::to_string));
    let entry: String = redis::from_redis_value(server.cmd(&command)).unwrap();
    entry.split('-').next().unwrap().parse().unwrap()
}

async fn until_state(server: &RedisServer, id: &str, state: State) -> Record {
    until_async(&format!("{id} to be {state}"), SOON, async || {
        Some(record(server, id))
            .filter(|record| record.get("state").is_some_and(|is| *is == state.to_string()))
    })
    .await
}

/// Asserts that these fields have these values, and that no others are there, except times.
fn assert_record(record: &Record, want: &[(&str, &str)]) {
    let is_time = |name: &str| name.ends_with("_ms");
    let facts: Vec<_> = record.iter().filter(|(name, _)| !is_time(name)).collect();
    let mut want: Vec<_> = want.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    want.sort();
    assert_eq!(facts, want.iter().map(|(name, value)| (name, value)).collect::<Vec<_>>());
    for (name, value) in record.iter().filter(|(name, _)| is_time(name)) {
        assert!(value.len() == 13 && value.bytes().all(|byte| byte.is_ascii_digit()), "{name} is {value}");
    }
}

fn ms(record: &Record, name: &str) -> u64 {
    record[name].parse().unwrap()
}

fn handler() -> Acts {
    Acts::new(|context, _| match context.id().to_string().as_str() {
        DOCUMENTED => {
            context.progress(40, "rendering");
            Ok(json!({"sent": 1}))
        }
        "dead-7" => Err(JobError::fatal("no such account")),
        _ => Err(JobError::retry_after(HOUR, "busy")),
    })
}

#[test]
fn all_documented_examples_read_the_fields_of_the_table() {
    let section = section();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap().to_owned());
    let listed: Vec<String> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(names(), listed);
    for (language, start, quote) in [("php", "$names = [", '\''), ("python", "names = [", '"')] {
        let line = code(language).into_iter().find(|line| line.starts_with(start)).unwrap();
        let named: Vec<_> = line.split(quote).skip(1).step_by(2).map(str::to_owned).collect();
        assert_eq!(named, listed, "{language}");
    }
    let states = section.lines().find(|line| line.starts_with("| `state` |")).unwrap();
    use State::{Cancelled, Dead, Done, Retrying, Running as Runs, Scheduled, Waiting};
    for state in [Waiting, Scheduled, Runs, Retrying, Done, Dead, Cancelled] {
        assert!(states.contains(&format!("`{state}`")), "{state}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_commands_show_how_a_job_ended() {
    let server = RedisServer::start();
    let fleet = Fleet::builder(config(&server.url())).handler_with("mail.send", quick(3), handler());
    let fleet = Running::of(fleet.unwrap().build());
    assert_eq!(record(&server, DOCUMENTED), Record::new());

    let accepted = submit(&server, DOCUMENTED, &[]);
    let done = until_state(&server, DOCUMENTED, State::Done).await;
    let facts = [("result", r#"{"sent":1}"#), ("progress", "40"), ("note", "rendering")];
    assert_record(&done, &[&facts[..], &[("state", "done"), ("type", "mail.send")]].concat());
    assert_eq!(ms(&done, "created_ms"), accepted);
    assert!(ms(&done, "progress_ms") >= accepted);
    let days = 3 * 24 * HOUR;
    assert!((1..=i64::try_from(days.as_millis()).unwrap()).contains(&stays(&server, DOCUMENTED)));

    submit(&server, "dead-7", &[]);
    let dead = until_state(&server, "dead-7", State::Dead).await;
    let letter = dead["dead_id"].clone();
    let facts =
        [("error", "no such account"), ("state", "dead"), ("type", "mail.send"), ("dead_id", &letter)];
    assert_record(&dead, &facts);
    assert_eq!(stays(&server, "dead-7"), -1);
    let found = server.cmd(&["XRANGE", "sf:{default}:dead", &letter, &letter]);
    let found: Vec<(String, Vec<String>)> = redis::from_redis_value(found).unwrap();
    assert!(found[0].1.contains(&"fatal".to_owned()), "{found:?}");

    let accepted = submit(&server, "retry-7", &[]);
    let retrying = until_state(&server, "retry-7", State::Retrying).await;
    assert_record(&retrying, &[("error", "busy"), ("state", "retrying"), ("type", "mail.send")]);
    assert!(ms(&retrying, "due_ms") >= accepted + 3_600_000);

    let (id, accepted): (JobId, u64) = ("cancel-7".parse().unwrap(), ms(&dead, "created_ms"));
    let delayed = Submission::new("mail.send").unwrap().payload("{}", Encoding::Json).unwrap();
    let delayed = delayed.id(id.clone()).delay(HOUR).tracking(Tracking::All);
    let queue = queue(&server).await;
    Producer::new(queue.clone()).submit(delayed).await.unwrap();
    let scheduled = until_state(&server, "cancel-7", State::Scheduled).await;
    assert_record(&scheduled, &[("state", "scheduled"), ("type", "mail.send")]);
    assert!(ms(&scheduled, "created_ms") > accepted);
    assert_eq!(ms(&scheduled, "due_ms"), ms(&scheduled, "created_ms") + 3_600_000);
    queue.cancel(&id, "ann", HOUR).await.unwrap();
    let cancelled = until_state(&server, "cancel-7", State::Cancelled).await;
    let facts = [("error", "cancelled by ann"), ("cancelled_by", "ann"), ("type", "mail.send")];
    assert_record(&cancelled, &[&facts[..], &[("state", "cancelled")]].concat());
    // Its id is accepted only once for longer than its record is kept.
    assert!(stays(&server, "cancel-7") >= 1);
    fleet.stop().await;
}
