//! `import` of the lists that other systems keep in a Redis. Their messages are written here as those systems document them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use harness::cli::{json as shown, launch};
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::wait::until;

/// A time that is due much later, in seconds.
const LATER: u64 = 4_000_000_000;

/// Two servers, that of the other system and ours, and a mapping.
struct Takeover {
    old: RedisServer,
    ours: RedisServer,
    folder: tempfile::TempDir,
}

impl Takeover {
    fn new(lists: &str) -> Self {
        let scene = Self {
            old: RedisServer::start(),
            ours: RedisServer::start(),
            folder: tempfile::tempdir().unwrap(),
        };
        scene.map(lists);
        scene
    }

    fn map(&self, lists: &str) {
        std::fs::write(self.folder.path().join("url"), self.old.url()).unwrap();
        let url = self.folder.path().join("url").display().to_string();
        std::fs::write(self.mapping(), format!("url_file = {url:?}\n{lists}")).unwrap();
    }

    fn mapping(&self) -> String {
        self.folder.path().join("redis.toml").display().to_string()
    }

    fn launch(&self, flags: &[&str]) -> harness::process::Launch {
        launch(&self.ours, &[&["import", &self.mapping(), "-o", "json"], flags].concat())
    }

    /// Imports, and returns the exit code and the report of the only list.
    fn import(&self, flags: &[&str]) -> (Option<i32>, Value) {
        let output = self.launch(flags).output(SOON);
        let report: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        (output.code, report["tables"][0].clone())
    }

    fn push(&self, command: &str, key: &str, message: &Value) {
        self.old.cmd(&[command, key, &message.to_string()]);
    }

    fn plan_at(&self, key: &str, score: f64, message: &Value) {
        self.old.cmd(&["ZADD", key, &score.to_string(), &message.to_string()]);
    }

    fn left(&self, command: &str, key: &str) -> i64 {
        redis::from_redis_value(self.old.cmd(&[command, key])).unwrap()
    }

    /// The payloads of the jobs of a state, by their types, sorted.
    fn jobs(&self, state: &str) -> Vec<(String, Value)> {
        let page = shown(&self.ours, &["jobs", "--state", state, "--limit", "1000"]);
        let ids = page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap());
        let known = ids.map(|id| shown(&self.ours, &["status", id]));
        let mut jobs: Vec<(String, Value)> =
            known.map(|job| (job["type"].as_str().unwrap().to_owned(), job["payload"].clone())).collect();
        jobs.sort_by_key(|(job_type, payload)| (job_type.clone(), payload.to_string()));
        jobs
    }
}

fn counts(report: &Value) -> [u64; 4] {
    ["submitted", "filed", "existing", "refused"].map(|name| report[name].as_u64().unwrap())
}

#[test]
fn sidekiq_is_taken_over_with_its_schedule_retries_and_dead_jobs() {
    let scene = Takeover::new(
        "[[list]]\nsystem = \"sidekiq\"\nname = \"mailers\"\nqueue = \"default\"\n[list.types]\nMailWorker = \"mail.send\"\nWelcomeJob = \"mail.welcome\"\n",
    );
    let job =
        |queue: &str, args: Value| json!({"class": "MailWorker", "args": args, "jid": "a1", "queue": queue});
    scene.push("LPUSH", "queue:mailers", &job("mailers", json!([1, "ann"])));
    let rails = json!({"class": "Sidekiq::ActiveJob::Wrapper", "wrapped": "WelcomeJob", "queue": "mailers",
        "args": [{"job_class": "WelcomeJob", "arguments": [7]}]});
    scene.push("LPUSH", "queue:mailers", &rails);
    scene.plan_at("schedule", LATER as f64 + 0.5, &job("mailers", json!([2])));
    scene.plan_at("schedule", LATER as f64, &job("other", json!([3])));
    scene.plan_at("retry", LATER as f64, &job("mailers", json!([4])));
    let mut dead = job("mailers", json!([5]));
    dead["error_class"] = json!("Net::ReadTimeout");
    dead["error_message"] = json!("no answer");
    dead["retry_count"] = json!(24);
    dead["failed_at"] = json!(1_764_547_200.25);
    scene.plan_at("dead", 1_764_547_200.0, &dead);

    let (code, plan) = scene.import(&["--dry-run"]);
    assert_eq!((code, counts(&plan)), (Some(0), [4, 1, 0, 0]), "{plan}");
    assert_eq!(plan["keys"], json!({"queue:mailers": 2, "schedule": 2, "retry": 1, "dead": 1}));
    assert_eq!(scene.left("LLEN", "queue:mailers"), 2);

    let (code, report) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&report)), (Some(0), [4, 1, 0, 0]), "{report}");
    let mail = |args: Value| ("mail.send".to_owned(), args);
    let welcome = ("mail.welcome".to_owned(), json!({"job_class": "WelcomeJob", "arguments": [7]}));
    assert_eq!(scene.jobs("waiting"), [mail(json!([1, "ann"])), welcome]);
    assert_eq!(scene.jobs("scheduled"), [mail(json!([2])), mail(json!([4]))]);
    let letters = shown(&scene.ours, &["dead", "list"]);
    let letter = &letters["items"][0];
    assert_eq!(letter["error"], "Net::ReadTimeout: no answer");
    assert_eq!((&letter["attempts"], &letter["died_ms"]), (&json!(25), &json!(1_764_547_200_250_u64)));
    // Those of other queues stay.
    assert_eq!(scene.left("ZCARD", "schedule"), 1);
    assert_eq!((scene.left("LLEN", "queue:mailers"), scene.left("ZCARD", "dead")), (0, 0));

    let notes = shown(&scene.ours, &["audit"]);
    assert_eq!((&notes["items"][0]["what"], &notes["items"][0]["count"]), (&json!("import"), &json!(5)));
    let (code, again) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&again)), (Some(0), [0, 0, 0, 0]), "{again}");
}

#[test]
fn hyperf_and_laravel_give_the_properties_of_their_jobs_or_the_whole_message() {
    let scene = Takeover::new(
        "[[list]]\nsystem = \"hyperf\"\nname = \"{queue}\"\nqueue = \"default\"\ntypes = { 'App\\Job' = \"mail.send\" }\n",
    );
    let wrapped = |id: u32| {
        let job = format!("O:7:\"App\\Job\":1:{{s:2:\"id\";i:{id};}}");
        format!("O:28:\"Hyperf\\AsyncQueue\\JobMessage\":2:{{s:8:\"attempts\";i:1;s:3:\"job\";{job}}}")
    };
    for (command, key, id) in [("LPUSH", "waiting", 1), ("LPUSH", "failed", 3), ("LPUSH", "timeout", 4)] {
        scene.old.cmd(&[command, &format!("{{queue}}:{key}"), &wrapped(id)]);
    }
    scene.old.cmd(&["ZADD", "{queue}:delayed", &LATER.to_string(), &wrapped(2)]);
    scene.old.cmd(&["ZADD", "{queue}:reserved", "1764547200", &wrapped(5)]);
    let (_, plan) = scene.import(&["--dry-run"]);
    assert!(plan["remarks"].to_string().contains("held = true"), "{plan}");
    let (code, report) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&report)), (Some(0), [2, 2, 0, 0]), "{report}");
    assert_eq!(scene.jobs("waiting"), [("mail.send".to_owned(), json!({"id": 1}))]);
    assert_eq!(scene.jobs("scheduled"), [("mail.send".to_owned(), json!({"id": 2}))]);
    assert_eq!(scene.left("ZCARD", "{queue}:reserved"), 1);

    scene.map(
        "[[list]]\nsystem = \"laravel\"\nname = \"default\"\nprefix = \"shop_database_\"\nqueue = \"default\"\ntype = \"laravel.job\"\npayload = \"message\"\nheld = true\n",
    );
    let command = "O:8:\"App\\Mail\":1:{s:2:\"to\";s:3:\"ann\";}";
    let message = json!({"uuid": "u-1", "job": "Illuminate\\Queue\\CallQueuedHandler@call",
        "data": {"commandName": "App\\Mail", "command": command}});
    scene.push("RPUSH", "shop_database_queues:default", &message);
    scene.plan_at("shop_database_queues:default:reserved", 1_764_547_200.0, &message);
    let (code, report) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&report)), (Some(0), [2, 0, 0, 0]), "{report}");
    let jobs = scene.jobs("waiting");
    assert_eq!(jobs[..2], [("laravel.job".to_owned(), message.clone()), ("laravel.job".to_owned(), message)]);
}

#[test]
fn webman_takes_its_queues_out_of_the_keys_that_they_share() {
    let scene = Takeover::new(
        "[[list]]\nsystem = \"webman\"\nname = \"send-mail\"\nqueue = \"default\"\ntype = \"mail.send\"\n",
    );
    let package = |queue: &str, id: u32| json!({"id": id, "time": 1, "delay": 0, "attempts": 5, "queue": queue, "data": {"id": id}, "error": "no route"});
    scene.push("LPUSH", "{redis-queue}-waitingsend-mail", &package("send-mail", 1));
    scene.plan_at("{redis-queue}-delayed", LATER as f64, &package("send-mail", 2));
    scene.plan_at("{redis-queue}-delayed", 1.0, &package("other", 3));
    for (queue, id) in [("other", 4), ("send-mail", 5), ("other", 6)] {
        scene.push("LPUSH", "{redis-queue}-failed", &package(queue, id));
    }
    let (code, report) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&report)), (Some(0), [2, 1, 0, 0]), "{report}");
    let letters = shown(&scene.ours, &["dead", "list"]);
    assert_eq!(
        (&letters["items"][0]["error"], &letters["items"][0]["attempts"]),
        (&json!("no route"), &json!(5))
    );
    assert_eq!(
        (scene.left("ZCARD", "{redis-queue}-delayed"), scene.left("LLEN", "{redis-queue}-failed")),
        (1, 2)
    );
}

#[test]
fn bullmq_and_rq_keep_the_fields_of_a_job_elsewhere() {
    let scene = Takeover::new("[[list]]\nsystem = \"bullmq\"\nname = \"mail\"\nqueue = \"default\"\n");
    let record = |id: &str, data: &str| {
        let key = format!("bull:mail:{id}");
        let failed = ["failedReason", "no route", "attemptsMade", "3", "finishedOn", "1764547200250"];
        scene.old.cmd(&[&["HSET", &key, "name", "mail.send", "data", data], &failed[..]].concat());
    };
    for id in ["1", "2", "3", "4"] {
        record(id, &format!("{{\"id\":{id}}}"));
    }
    scene.old.cmd(&["LPUSH", "bull:mail:wait", "0:0", "1", "9"]);
    let due = (LATER * 1000 * 4096 + 7).to_string();
    scene.old.cmd(&["ZADD", "bull:mail:delayed", &due, "2"]);
    scene.old.cmd(&["ZADD", "bull:mail:prioritized", "8589934592", "3"]);
    scene.old.cmd(&["ZADD", "bull:mail:failed", "1764547200250", "4"]);
    let (code, report) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&report)), (Some(5), [3, 1, 0, 1]), "{report}");
    assert!(report["refused_rows"][0]["error"].as_str().unwrap().contains("its record is gone"), "{report}");
    let mail = |id: u32| ("mail.send".to_owned(), json!({"id": id}));
    assert_eq!(scene.jobs("waiting"), [mail(1), mail(3)]);
    let due = shown(&scene.ours, &["jobs", "--state", "scheduled"]);
    assert_eq!(due["items"][0]["due_ms"], json!(LATER * 1000), "{due}");
    assert_eq!(scene.left("EXISTS", "bull:mail:1"), 0);
    // What was refused stays, and is tried again.
    record("9", "{\"id\":9}");
    let (code, report) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&report)), (Some(0), [1, 0, 0, 0]), "{report}");

    scene.map("[[list]]\nsystem = \"rq\"\nname = \"mail\"\nqueue = \"default\"\ntypes = { \"app.tasks.send\" = \"mail.rq\" }\n");
    // What Python's pickle.dumps((\"app.tasks.send\", None, (7,), {\"to\": \"ann\"})) writes.
    let pickle = b"\x80\x04\x95(\x00\x00\x00\x00\x00\x00\x00(\x8c\x0eapp.tasks.send\x94NK\x07\x85\x94}\x94\x8c\x02to\x94\x8c\x03ann\x94st\x94.";
    scene.old.cmd(&[&b"HSET"[..], b"rq:job:a", b"data", pickle]);
    scene.old.cmd(&["HSET", "rq:job:b", "data", "[\"app.tasks.send\", null, [8], {}]"]);
    scene.old.cmd(&["RPUSH", "rq:queue:mail", "a"]);
    scene.old.cmd(&["ZADD", "rq:scheduled:mail", &LATER.to_string(), "b"]);
    let (code, report) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&report)), (Some(0), [2, 0, 0, 0]), "{report}");
    let called = scene.jobs("waiting").into_iter().find(|(job_type, _)| job_type == "mail.rq").unwrap();
    assert_eq!(called.1, json!({"args": [7], "kwargs": {"to": "ann"}}));
}

#[test]
fn celery_is_taken_over_from_the_lists_of_all_priorities() {
    let scene = Takeover::new("[[list]]\nsystem = \"celery\"\nname = \"celery\"\nqueue = \"default\"\n");
    let message = |id: u32, eta: Value, embed: Value| {
        let body = STANDARD.encode(json!([[id], {"to": "ann"}, embed]).to_string());
        json!({"body": body, "content-encoding": "utf-8", "content-type": "application/json",
            "headers": {"task": "mail.send", "id": "u", "eta": eta, "retries": 0},
            "properties": {"body_encoding": "base64", "delivery_tag": "t"}})
    };
    let plain = json!({"callbacks": null, "errbacks": null, "chain": null, "chord": null});
    scene.push("LPUSH", "celery", &message(1, Value::Null, plain.clone()));
    scene.push("LPUSH", "celery", &message(2, json!("2096-10-02T07:06:40+00:00"), plain.clone()));
    scene.push("LPUSH", "celery", &message(3, Value::Null, json!({"chain": [{"task": "next"}]})));
    scene.push("LPUSH", "celery\u{6}\u{16}9", &message(4, Value::Null, plain));
    let (code, report) = scene.import(&["--yes"]);
    assert_eq!((code, counts(&report)), (Some(5), [3, 0, 0, 1]), "{report}");
    assert!(report["refused_rows"][0]["error"].as_str().unwrap().contains("chain"), "{report}");
    let mail = |id: u32| ("mail.send".to_owned(), json!({"args": [id], "kwargs": {"to": "ann"}}));
    assert_eq!(scene.jobs("waiting"), [mail(1), mail(4)]);
    assert_eq!(scene.jobs("scheduled"), [mail(2)]);
}

#[test]
fn an_import_of_lists_that_is_killed_loses_nothing_and_repeats_nothing() {
    const JOBS: usize = 3000;
    let scene = Takeover::new(
        "[[list]]\nsystem = \"sidekiq\"\nname = \"default\"\nqueue = \"default\"\ntype = \"test\"\n",
    );
    for id in 0..JOBS {
        scene.push("LPUSH", "queue:default", &json!({"class": "A", "args": [id], "queue": "default"}));
    }
    let mut left = JOBS as i64;
    while left > 0 {
        let import = scene.launch(&["--yes"]).start();
        let aim = left - 700;
        until("elements are taken, or the import ends", SOON, || {
            scene.left("LLEN", "queue:default") <= aim || import.exit_status().is_some()
        });
        import.kill9();
        left = scene.left("LLEN", "queue:default");
    }
    let (code, _) = scene.import(&["--yes"]);
    assert_eq!(code, Some(0));
    let stored: i64 = redis::from_redis_value(scene.ours.cmd(&["XLEN", "sf:{default}:jobs"])).unwrap();
    assert_eq!(stored, JOBS as i64);
    let entries: Vec<redis::Value> =
        redis::from_redis_value(scene.ours.cmd(&["XRANGE", "sf:{default}:jobs", "-", "+"])).unwrap();
    let mut ids: Vec<String> = entries.iter().map(|entry| format!("{entry:?}")).map(arguments).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), JOBS);
}

/// The payload in an entry, as text.
fn arguments(entry: String) -> String {
    entry.split("payload").nth(1).unwrap_or_default().to_owned()
}

#[test]
fn what_is_wrong_with_a_mapping_of_lists_is_named() {
    let scene = Takeover::new("[[list]]\nsystem = \"resque\"\nname = \"a\"\nqueue = \"default\"\n");
    let told = || refusal(&scene);
    assert!(told().contains("list[0].system: unknown value"), "{}", told());
    let list = "[[list]]\nsystem = \"sidekiq\"\nname = \"a\"\nqueue = \"default\"\n";
    scene.map(&format!("{list}{list}"));
    assert!(told().contains("another `id`"), "{}", told());
    std::fs::write(scene.mapping(), format!("url = \"redis://:secret@localhost\"\n{list}")).unwrap();
    assert!(told().contains("password must not stand") && !told().contains("secret"), "{}", told());
    std::fs::write(scene.mapping(), format!("url = \"redis://127.0.0.1:1\"\n{list}")).unwrap();
    assert!(told().contains("cannot connect to the Redis that the mapping names"), "{}", told());
}

/// What an import that fails writes to its standard error.
fn refusal(scene: &Takeover) -> String {
    let output = scene.launch(&["--dry-run"]).output(SOON);
    assert_eq!(output.stdout, "", "{output:?}");
    assert_ne!(output.code, Some(0));
    output.stderr
}
