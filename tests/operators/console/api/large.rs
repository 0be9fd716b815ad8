//! What pages show of a queue is read quickly, however much there is. `make console-large` does it with a million waiting jobs.

/// What `make test` leaves to `make long`.
mod long {
    use std::time::{Duration, Instant};

    use super::super::client::Console;
    use crate::console::trouble::{GROUP, incidents};
    use harness::cli::{json, sf};
    use harness::redis_server::RedisServer;

    /// How many jobs wait, and how many are dead.
    #[derive(Debug, Clone, Copy)]
    struct Size {
        waiting: usize,
        dead: usize,
    }

    /// A queue that just fills a page of each list, so that these answers are as quick as they can be: one of twenty dead letters belongs to a
    /// group, of which a page shows fifty.
    const SMALL: Size = Size { waiting: 100, dead: 1_000 };

    /// The most time that an answer may take, the quickest of [`TRIES`] times: whatever else the machine does can only add to it …
    const MOST: Duration = Duration::from_millis(100);

    /// … unless the machine is so busy that the answer about a small queue takes long, too: then this many times as long.
    const MOST_TIMES: u32 = 4;

    /// How often each answer is asked for.
    const TRIES: usize = 9;

    /// How many jobs one script adds.
    const AT_ONCE: usize = 10_000;

    const ADD: &str = "for nth = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'type', 'mail.send', 'payload', '{}') end";

    const BURY: &str = "local at = redis.call('TIME') for nth = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', 'type', \
        'mail.send', 'id', 'd-' .. ARGV[3] .. '-' .. nth, 'dead_reason', 'exhausted', 'dead_error', ARGV[2], 'dead_fingerprint', \
        'f' .. nth % 20, 'dead_group', 'f' .. nth % 20, 'dead_at_ms', at[1] .. '000') end";

    const GROUPS: &str = "for nth = 0, 19 do redis.call('HSET', KEYS[1], 'f' .. nth, \
        ARGV[1] / 20 .. ' ' .. ARGV[1] / 20 .. ' 5 5 - mail.send exhausted ' .. ARGV[2]) end";

    /// With `STREAMFLEET_TEST_WAITING`=1000000 a million wait, and a tenth of it is dead.
    fn large() -> Size {
        let waiting = std::env::var_os("STREAMFLEET_TEST_WAITING");
        let waiting = waiting.map_or(20_000, |waiting| waiting.to_str().unwrap().parse().unwrap());
        Size { waiting, dead: waiting.div_ceil(10) }
    }

    fn server(size: Size) -> RedisServer {
        let (server, error) = (RedisServer::start(), "connection refused ".repeat(50));
        let portions = |all: usize| {
            (0..all.div_ceil(AT_ONCE)).map(move |nth| AT_ONCE.min(all - nth * AT_ONCE).to_string())
        };
        for count in portions(size.waiting) {
            server.cmd(&["EVAL", ADD, "1", "sf:{mail}:jobs", &count]);
        }
        for (nth, count) in portions(size.dead).enumerate() {
            server.cmd(&["EVAL", BURY, "1", "sf:{mail}:dead", &count, &error, &nth.to_string()]);
        }
        server.cmd(&["EVAL", GROUPS, "1", "sf:{mail}:dead:groups", &size.dead.to_string(), &error]);
        server
    }

    /// A console of a server with a queue of this size, a task and incidents.
    struct Stage {
        console: Console,
        /// What pages ask for.
        paths: Vec<String>,
        _server: RedisServer,
    }

    impl Stage {
        async fn new(size: Size) -> Self {
            let server = server(size);
            let replay =
                ["dead", "replay", "--queue", "mail", "--type", "mail.send", "--rate", "1/h", "--yes"];
            let begun = sf(&server, &[&replay[..], &["--detach"]].concat());
            assert_eq!(begun.code, Some(0), "{begun:?}");
            let tasks = json(&server, &["tasks", "list", "--queue", "mail"]);
            let task = tasks["items"][0]["id"].as_str().unwrap().to_owned();
            incidents(&server);
            let first = |key: &str| {
                let found = server.cmd(&["XRANGE", key, "-", "+", "COUNT", "1"]);
                let found: Vec<(String, Vec<String>)> = redis::from_redis_value(found).unwrap();
                found[0].0.clone()
            };
            let paths = paths(&first("sf:{mail}:jobs"), &first("sf:{mail}:dead"), &task);
            Self { console: Console::start(&server).await, paths, _server: server }
        }

        /// Asks for this, and returns how long that took.
        async fn ask(&self, nth: usize) -> Duration {
            let asked = Instant::now();
            let answer = self.console.get(&self.paths[nth]).await;
            assert_eq!(answer.status, 200, "{}: {answer:?}", self.paths[nth]);
            asked.elapsed()
        }
    }

    /// What pages ask about a queue with this waiting job, this dead letter and this task.
    fn paths(job: &str, letter: &str, task: &str) -> Vec<String> {
        let mut paths: Vec<String> = [
            "queues",
            "queues/mail",
            "needs",
            "stats",
            "jobs?limit=50",
            "queues/mail/jobs?limit=50",
            "queues/mail/delayed",
            "queues/mail/dead?limit=50",
            "queues/mail/dead?group=f7&limit=50",
            "queues/mail/dead/groups",
            "dead/groups",
            "decisions",
            "tasks",
            "incidents",
            "gates",
            "cron",
            "workers",
            "audit",
        ]
        .map(str::to_owned)
        .into();
        paths.push(format!("queues/mail/jobs/{job}"));
        paths.push(format!("queues/mail/dead/{letter}"));
        paths.push(format!("queues/mail/tasks/{task}"));
        paths.push(format!("incidents/{GROUP}"));
        paths
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_answer_about_a_large_queue_is_quick() {
        let (large, small) = (Stage::new(large()).await, Stage::new(SMALL).await);
        let mut slow = Vec::new();
        for nth in 0..large.paths.len() {
            let (mut took, mut beside) = (Duration::MAX, Duration::MAX);
            // By turns, so that both meet the same machine.
            for _ in 0..TRIES {
                took = took.min(large.ask(nth).await);
                beside = beside.min(small.ask(nth).await);
            }
            let path = &large.paths[nth];
            eprintln!("{path:<40} {:>3} ms, {:>3} ms of a small queue", took.as_millis(), beside.as_millis());
            if took > MOST.max(beside * MOST_TIMES) {
                slow.push(format!("{path}: {took:?}, and {beside:?} of a small queue"));
            }
        }
        assert!(slow.is_empty(), "{slow:?}");
    }
}
