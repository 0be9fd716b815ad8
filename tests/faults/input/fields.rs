//! Entries by plain `XADD` whose fields are wrong, odd or huge.

use std::time::Duration;

use streamfleet::job::{Envelope, Lane, State};
use streamfleet_engine::admin::Cancellation;

use harness::fleet::{Acts, Running, config, queue, quick, submit, until_empty, until_state};
use harness::redis_server::RedisServer;
use harness::wait::until_async;

const SOON: Duration = Duration::from_secs(20);
const STREAM: &[u8] = b"sf:{default}:jobs";
const TYPE: (&[u8], &[u8]) = (b"type", b"test");

type Fields<'a> = &'a [(&'a [u8], &'a [u8])];

/// One server and one worker for many entries.
struct Bench {
    server: RedisServer,
    queue: streamfleet::Queue,
    handler: Acts,
    fleet: Running,
}

impl Bench {
    async fn new() -> Self {
        let server = RedisServer::start();
        let queue = queue(&server).await;
        let handler = Acts::well();
        let mut config = config(&server.url());
        config.worker.lease = Duration::from_secs(60);
        let fleet = Running::start_with(config, quick(3), handler.clone());
        Self { server, queue, handler, fleet }
    }

    fn xadd(&self, fields: Fields<'_>) {
        let mut command: Vec<&[u8]> = vec![b"XADD", STREAM, b"*"];
        command.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
        self.server.cmd(&command);
    }

    /// Asserts that the entry is buried as malformed, byte for byte, with an error that contains this text.
    async fn buries(&self, fields: Fields<'_>, want: &str) {
        let before = self.queue.dead_letters().page(None, 1000).await.unwrap().len();
        self.xadd(fields);
        let letter = until_async(want, SOON, async || {
            self.queue.dead_letters().page(None, 1000).await.unwrap().into_iter().nth(before)
        })
        .await;
        assert_eq!(letter.text("dead_reason"), "malformed");
        let error = letter.text("dead_error");
        assert!(error.contains(want), "wanted {want:?}, got {error:?}");
        // The fleet's own counters are reset, so that a replay starts afresh.
        let counters: [&[u8]; 3] = [b"attempt", b"lost", b"created_ms"];
        let kept: Vec<_> = fields.iter().filter(|(name, _)| !counters.contains(name)).copied().collect();
        assert_eq!(letter.fields.fields().take(kept.len()).collect::<Vec<_>>(), kept);
    }

    /// Asserts that the entry is a job and runs once.
    async fn runs(&self, fields: Fields<'_>) {
        let before = self.handler.all_runs();
        self.xadd(fields);
        until_async("the job to run", SOON, async || self.handler.all_runs() == before + 1).await;
    }

    /// Asserts that the worker lives and nothing is left.
    async fn ends(self) {
        let last = submit(&self.queue, "{}").await;
        until_async("a later job to run", SOON, async || self.handler.runs(&last) == 1).await;
        until_empty(&self.queue).await;
        self.fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_invalid_type_is_buried() {
    let bench = Bench::new().await;
    bench.buries(&[(b"payload", b"{}")], "the field type is missing").await;
    for bad in [&b""[..], b"Mail", b"a b", b"\xff\xfe", b"a\0b", b"-a", &[b'a'; 129]] {
        bench.buries(&[(b"type", bad)], "type").await;
    }
    bench.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_number_is_buried_with_the_name_of_its_field() {
    let bench = Bench::new().await;
    let numbers = [
        "attempt",
        "lost",
        "created_ms",
        "run_at_ms",
        "delay_ms",
        "expires_at_ms",
        "max_attempts",
        "timeout_ms",
    ];
    let bad: [&[u8]; 9] =
        [b"", b"x", b"-1", b"+1", b"1.5", b"1e3", b" 1", b"99999999999999999999999", b"\xff"];
    for name in numbers {
        for value in bad {
            bench.buries(&[TYPE, (name.as_bytes(), value)], name).await;
        }
    }
    bench.buries(&[TYPE, (b"max_attempts", b"0")], "max_attempts").await;
    bench.buries(&[TYPE, (b"timeout_ms", b"0")], "timeout_ms").await;
    bench.buries(&[TYPE, (b"run_at_ms", b"18446744073709551615")], "year 10000").await;
    bench.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_id_is_buried() {
    let bench = Bench::new().await;
    let long = [b'a'; 129];
    for bad in [&b""[..], b"a b", b"a\nb", b"a\0b", b"\x1b[31m", b"\xff", "a\u{85}b".as_bytes(), &long] {
        bench.buries(&[TYPE, (b"id", bad)], "id").await;
    }
    bench.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_value_is_buried_with_the_list_of_known_ones() {
    let bench = Bench::new().await;
    bench.buries(&[TYPE, (b"encoding", b"xml")], "one of json, msgpack, raw").await;
    bench.buries(&[TYPE, (b"encoding", b"")], "one of json, msgpack, raw").await;
    bench.buries(&[TYPE, (b"encoding", b"\xff\0")], "one of json, msgpack, raw").await;
    bench.buries(&[TYPE, (b"tracking", b"perhaps")], "none, failures or all").await;
    bench.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_with_too_many_fields_is_buried_with_every_byte() {
    let bench = Bench::new().await;
    let names: Vec<Vec<u8>> = (0..5_000).map(|nth| format!("field-{nth}").into_bytes()).collect();
    let mut fields: Vec<(&[u8], &[u8])> = vec![TYPE];
    fields.extend(names.iter().map(|name| (name.as_slice(), b"\xff\0".as_slice())));
    bench.xadd(&fields);
    let letter = until_async("the letter", SOON, async || {
        bench.queue.dead_letters().page(None, 1).await.unwrap().into_iter().next()
    })
    .await;
    assert!(letter.text("dead_error").contains("5001 fields"), "{}", letter.text("dead_error"));
    let (kept, lane) = Envelope::unpack(letter.fields.get(b"raw").unwrap()).unwrap();
    assert_eq!((kept.fields().collect::<Vec<_>>(), lane), (fields, Lane::Normal));
    bench.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_but_valid_entries_run() {
    let bench = Bench::new().await;
    let (large, name) = (vec![b'x'; 1 << 20], vec![b'n'; 64 * 1024]);
    let odd: [Fields<'_>; 16] = [
        &[TYPE],
        &[TYPE, (b"payload", b"")],
        &[TYPE, (b"payload", &large)],
        &[TYPE, (b"payload", b"\xff\xfe\0\x01")],
        &[TYPE, (&name, b"a long name")],
        &[TYPE, (b"", b"an empty name")],
        &[TYPE, (b"", b"")],
        &[TYPE, (b"\0\xff", b"\0\xff")],
        &[TYPE, (b"h.broken", b"\xff\xfe"), (b"h.\xff", b"x"), (b"h.", b"x")],
        &[TYPE, (b"traceparent", b"\xff")],
        &[TYPE, (b"wire", b"99"), (b"partition", b"7"), (b"x.future", b"{}")],
        &[TYPE, (b"attempt", b"4294967295")],
        &[TYPE, (b"lost", b"4294967295")],
        &[TYPE, (b"created_ms", b"253402300799999")],
        &[TYPE, (b"max_attempts", b"4294967295"), (b"timeout_ms", b"604800000")],
        &[(b"type", b"Not A Type"), TYPE, (b"payload", b"1"), (b"payload", b"2")],
    ];
    for fields in &odd[..15] {
        bench.runs(fields).await;
    }
    // If a field is present twice, both must be valid.
    bench.buries(odd[15], "type").await;
    bench.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_bytes_survive_a_retry_a_burial_and_a_replay() {
    let server = RedisServer::start();
    let queue = queue(&server).await;
    let handler = Acts::new(|context, payload| {
        assert_eq!(payload, b"\xff\0\x01");
        match context.header("works") {
            Some(_) => Ok(serde_json::Value::Null),
            None => Err(streamfleet::JobError::retry("no \u{0}\u{1b}[31m")),
        }
    });
    let fleet = Running::start(&server.url(), quick(2), handler.clone());
    let odd: [(&[u8], &[u8]); 5] =
        [TYPE, (b"id", "j\u{e4}".as_bytes()), (b"payload", b"\xff\0\x01"), (b"", b"\0"), (b"\xfe", b"")];
    let mut command: Vec<&[u8]> = vec![b"XADD", STREAM, b"*"];
    command.extend(odd.iter().flat_map(|(name, value)| [*name, *value]));
    server.cmd(&command);
    let id = "j\u{e4}".parse().unwrap();
    let status = until_state(&queue, &id, State::Dead).await;
    let letter = queue.dead_letters().get(status.dead.unwrap()).await.unwrap().unwrap();
    let fields: Vec<_> = letter.fields.fields().collect();
    for field in odd {
        assert!(fields.contains(&field), "{field:?} is not in {fields:?}");
    }
    let mut command: Vec<&[u8]> = vec![b"XADD", STREAM, b"*"];
    command.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
    command.extend([&b"h.works"[..], b"yes"]);
    server.cmd(&command);
    until_state(&queue, &id, State::Done).await;
    assert_eq!(handler.runs(&id), 3);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_an_unknown_type_waits_for_a_worker_that_knows_it() {
    let bench = Bench::new().await;
    bench.xadd(&[(b"type", b"unheard.of"), (b"id", b"u")]);
    let id = "u".parse().unwrap();
    let length = ["XLEN", "sf:{default}:room:unknown:unheard.of"];
    until_async("it to be in its waiting list", SOON, async || {
        bench.server.cmd(&length) == redis::Value::Int(1)
    })
    .await;
    let status = until_state(&bench.queue, &id, State::Waiting).await;
    assert_eq!((status.job_type.as_str(), status.attempts.len()), ("unheard.of", 0));
    assert_eq!(bench.queue.cancel(&id, "a test", SOON).await.unwrap(), Cancellation::Done);
    bench.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_due_in_the_year_9999_is_parked_until_then() {
    let bench = Bench::new().await;
    for (id, field) in [("a", "delay_ms"), ("b", "run_at_ms")] {
        bench.xadd(&[TYPE, (b"id", id.as_bytes()), (field.as_bytes(), b"253402300799999")]);
        let status = until_state(&bench.queue, &id.parse().unwrap(), State::Scheduled).await;
        assert_eq!(status.due.unwrap().as_ms(), 253_402_300_799_999, "{field}");
        assert_eq!(bench.queue.cancel(&status.id, "a test", SOON).await.unwrap(), Cancellation::Done);
    }
    bench.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_job_with_unreadable_fields_is_buried() {
    let bench = Bench::new().await;
    let all: [&[u8]; 7] = [
        b"",
        b"\xff\xff",
        b"\x93\xa6normal\xa4type",
        b"\x93\xa6normal\xa4type\xc0",
        b"\x92\xa6normal\xa4type",
        b"\xdc\x00",
        b"\xdd\xff\xff\xff\xff",
    ];
    for (nth, broken) in all.into_iter().enumerate() {
        let id = nth.to_string();
        bench.server.cmd(&[&b"HSET"[..], b"sf:{default}:delayed:fields", id.as_bytes(), broken]);
        bench.server.cmd(&["ZADD", "sf:{default}:delayed", "1", &id]);
    }
    until_async("a letter of each", SOON, async || {
        bench.queue.dead_letters().page(None, 9).await.unwrap().len() == all.len()
    })
    .await;
    for letter in bench.queue.dead_letters().page(None, 9).await.unwrap() {
        assert_eq!(letter.text("dead_reason"), "malformed");
        assert!(letter.text("dead_error").contains("cannot be read"));
    }
    bench.ends().await;
}
