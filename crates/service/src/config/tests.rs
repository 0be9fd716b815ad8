//! How sources are merged, and how problems are reported.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::job::{Backoff, JobType};

mod push;

const REFERENCE: &str = include_str!("../../../../config/streamfleet.toml");

/// A file in its own folder. Its name is as long as the folder's is random, so tests show only the last part.
struct File {
    dir: tempfile::TempDir,
}

impl File {
    fn new(toml: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.toml"), toml).unwrap();
        Self { dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("a.toml")
    }
}

fn environment(variables: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn read_with(toml: &str, variables: &[(&str, &str)], flags: Flags) -> Result<Effective, Vec<String>> {
    let file = File::new(toml);
    let sources = Sources { files: vec![file.path()], environment: environment(variables), flags };
    let dir = format!("{}/", file.dir.path().display());
    let lines = |invalid: Invalid| {
        invalid.problems.iter().map(|problem| problem.to_string().replace(&dir, "")).collect::<Vec<_>>()
    };
    sources.read().map_err(lines)
}

fn read(toml: &str) -> Result<Effective, Vec<String>> {
    read_with(toml, &[], Flags::default())
}

fn wrong(toml: &str) -> Vec<String> {
    read(toml).map(|effective| effective.config).unwrap_err()
}

#[test]
fn the_reference_file_says_what_the_defaults_are() {
    let read = read(REFERENCE).unwrap();
    let defaults = Effective { config: Config::default(), tree: tree::Node::table(&"".into()) };
    assert_eq!(read.shown(), defaults.shown());
}

#[test]
fn the_reference_file_has_every_key_and_its_examples_are_the_defaults() {
    let is_key = |line: &str| {
        line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) || line.starts_with('[')
    };
    let uncomment = |line: &str| match line.strip_prefix("# ") {
        // Without TLS in the address, [redis.tls] is refused.
        Some(rest) if is_key(rest) && !rest.contains("secrets") && !rest.contains("server_name") => {
            rest.to_owned()
        }
        _ => line.to_owned(),
    };
    let everything: String = REFERENCE.lines().map(|line| uncomment(line) + "\n").collect();
    let read = read(&everything).unwrap();
    let section = read.config.types.values().next().unwrap();
    let handler = section.handler.clone();
    assert_eq!(*section, TypeSection { handler, ..TypeSection::default() });
    let mut keys = BTreeSet::new();
    leaves("", &read.shown(), &mut keys);
    let written: BTreeSet<_> =
        everything.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key).collect();
    for key in keys {
        assert!(written.contains(&*key), "{key} is not in config/streamfleet.toml");
    }
    for key in ["url_file", "password_file", "ca_file", "cert_file", "key_file", "server_name"] {
        assert!(REFERENCE.contains(&format!("# {key} = ")), "{key}");
    }
}

/// Collects the last parts of the paths of all values. A backoff is one value.
fn leaves(key: &str, value: &Value, keys: &mut BTreeSet<String>) {
    match value.as_object().filter(|_| key != "backoff") {
        Some(entries) => entries.iter().for_each(|(key, value)| leaves(key, value, keys)),
        None => {
            keys.insert(key.to_owned());
        }
    }
}

#[test]
fn all_problems_are_reported_at_once_with_key_reason_and_source() {
    let toml = r#"
[redis]
url = "http://user:canary@host"
[worker]
lese = "15s"
lease = 15
drain_timeout = "2h"
prefetch = -1
[queues.Default]
concurrency = 1
[queues.mail]
concurrency = 0
[types."report.generate"]
handler = { exec = { command = [], shell = true } }
timeout = "8d"
jitter = 2
max_attempts = 0
backoff = { fibonacci = "1s" }
[types.a]
handler = "exec"
backoff = { linear = { step = "1s" } }
tracking = "some"
[types.b]
handler = { exec = { comand = ["true"] } }
[telemtry]
listen = "off"
[telemetry]
listen = "nowhere"
log = "a=b=c"
"#;
    let variables = [("STREAMFLEET__WORKER__RETENTION", "soon"), ("STREAMFLEET__REDIS__PASSWORD", "canary")];
    let problems = read_with(toml, &variables, Flags::default()).unwrap_err();
    assert!(!problems.join("\n").contains("canary"), "{problems:#?}");
    insta::assert_snapshot!(problems.join("\n"));
}

#[test]
fn recurring_jobs_are_read_and_their_errors_reported_at_once() {
    let toml = r#"
[cron."report.nightly"]
schedule = "0 25 * * *"
timezone = "Europe/Nowhere"
type = "report.generate"
[cron.b]
schedule = "@daily"
[cron.c]
schedule = "0 3 * * *"
type = "c"
payload = "{oops"
missed = "some"
[cron.d]
schedule = "0 3 * * *"
type = "d"
payload = "{oops"
"#;
    insta::assert_snapshot!(wrong(toml).join("\n"));
    let right = "[cron.\"a.b\"]\nschedule = \"0 3 * * *\"\ntype = \"c\"\npayload = { n = 1 }\n";
    let variables =
        [("STREAMFLEET__CRON__A_B__LANE", "low"), ("STREAMFLEET__CRON__A_B__TIMEZONE", "Europe/Berlin")];
    let read = read_with(right, &variables, Flags::default()).unwrap();
    let section = read.config.cron.values().next().unwrap();
    assert_eq!((section.lane, &*section.timezone), (crate::job::Lane::Low, "Europe/Berlin"));
    assert!(read.toml().contains("[cron.\"a.b\"]\n"), "{}", read.toml());
    assert!(read.fleet().is_ok());
}

#[test]
fn variables_win_over_files_and_flags_over_variables() {
    let toml = "[redis]\nnamespace = \"file\"\n[worker]\nlease = \"1s\"\nprefetch = 1\n";
    let variables = [
        ("STREAMFLEET__REDIS__NAMESPACE", "variable"),
        ("STREAMFLEET__WORKER__PREFETCH", "7"),
        ("STREAMFLEET_PORT", "x"),
    ];
    let flags = Flags { namespace: Some("flag".to_owned()), ..Flags::default() };
    let config = read_with(toml, &variables, flags).unwrap().config;
    assert_eq!(config.redis.namespace.as_str(), "flag");
    assert_eq!((config.worker.lease, config.worker.prefetch), (Duration::from_secs(1), 7));
}

#[test]
fn opentelemetry_variables_apply_if_nothing_else_is_configured() {
    let shared = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://shared:4318");
    let wanted = |toml: &str, variables: &[(&str, &str)]| {
        let traces = read_with(toml, variables, Flags::default()).unwrap().config.telemetry.traces;
        (traces.wanted().map(str::to_owned), traces.service_name, traces.ratio)
    };
    let own = |endpoint: &str| Some(endpoint.to_owned());
    assert_eq!(wanted("", &[]), (None, "streamfleet".to_owned(), 1.0));
    let named = [shared, ("OTEL_SERVICE_NAME", "mail"), ("STREAMFLEET__TELEMETRY__TRACES__RATIO", "0.25")];
    assert_eq!(wanted("", &named), (own("http://shared:4318"), "mail".to_owned(), 0.25));
    let file = "[telemetry.traces]\nendpoint = \"http://own\"\n";
    assert_eq!(wanted(file, &[shared]).0, own("http://own"));
    assert_eq!(wanted("[telemetry.traces]\nendpoint = \"off\"\n", &[shared]).0, None);
    assert_eq!(wanted("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]).0, None);
    let problems = read_with("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4318")], Flags::default()).unwrap_err();
    assert!(problems[0].ends_with("(OTEL_EXPORTER_OTLP_ENDPOINT)"), "{problems:?}");
}

#[test]
fn a_wrong_trace_endpoint_is_reported_without_secrets() {
    let toml = "[telemetry.traces]\nendpoint = \"http://u:canary@host\"\nratio = 1.5\nservice_name = \"\"\n";
    insta::assert_snapshot!(wrong(toml).join("\n"), @r"
    telemetry.traces.endpoint: must have no login and no query; put secrets into headers_file (a.toml:2)
    telemetry.traces.ratio: is 1.5, but must be between 0 and 1 (a.toml:3)
    telemetry.traces.service_name: must have 1 to 255 bytes (a.toml:4)
    ");
    let reason = "telemetry.traces.ratio: expected a number such as 0.1, not \"half\" (a.toml:2)";
    assert_eq!(wrong("[telemetry.traces]\nratio = \"half\"\n"), [reason]);
}

#[test]
fn later_files_win_and_a_choice_is_replaced_as_a_whole() {
    let first = File::new("[types.a]\nhandler = \"noop\"\nbackoff = { fixed = \"1s\" }\ntimeout = \"1m\"\n");
    let second = File::new("[types.a]\nhandler.exec.command = [\"true\"]\nbackoff = { list = [\"2s\"] }\n");
    let sources = Sources { files: vec![first.path(), second.path()], ..Sources::default() };
    let config = sources.read().unwrap().config;
    let section = &config.types[&"a".parse::<JobType>().unwrap()];
    assert_eq!(section.policy.timeout, Duration::from_secs(60));
    assert_eq!(section.policy.backoff, Backoff::List(vec![Duration::from_secs(2)]));
    assert!(matches!(section.handler, Some(streamfleet::handlers::Config::Exec(_))));
}

#[test]
fn an_underscore_in_a_variable_matches_a_dot_or_hyphen() {
    let toml = "[types.\"report.generate\"]\n[queues.mail-out]\n";
    let variables = [
        ("STREAMFLEET__TYPES__REPORT_GENERATE__TIMEOUT", "7s"),
        ("STREAMFLEET__QUEUES__MAIL_OUT__CONCURRENCY", "3"),
        ("STREAMFLEET__TYPES__NEW_ONE__MAX_ATTEMPTS", "9"),
    ];
    let config = read_with(toml, &variables, Flags::default()).unwrap().config;
    let of = |name: &str| &config.types[&name.parse::<JobType>().unwrap()];
    assert_eq!(of("report.generate").policy.timeout, Duration::from_secs(7));
    assert_eq!(of("new_one").policy.max_attempts, 9);
    assert_eq!(config.queues["mail-out"].served.concurrency, 3);
}

#[test]
fn texts_that_look_like_numbers_stay_texts() {
    let variables =
        [("STREAMFLEET__REDIS__NAMESPACE", "00123"), ("STREAMFLEET__REDIS__URL", "redis://:1e5@h")];
    let config = read_with("", &variables, Flags::default()).unwrap().config;
    assert_eq!(config.redis.namespace.as_str(), "00123");
    assert!(secrecy::ExposeSecret::expose_secret(&config.redis.url).contains("1e5"));
}

#[test]
fn only_the_queues_of_the_command_line_are_served() {
    let toml = "[queues.a]\nconcurrency = 3\n[queues.b]\nconcurrency = 4\n";
    let serve = |concurrency| Flags { queues: vec!["b".into(), "c".into()], concurrency, ..Flags::default() };
    let slots = |concurrency| {
        let config = read_with(toml, &[], serve(concurrency)).unwrap().config;
        let shown = config.queues.iter().map(|(name, queue)| format!("{name}={}", queue.served.concurrency));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(slots(None), ["b=4", "c=64"]);
    assert_eq!(slots(Some(9)), ["b=9", "c=9"]);
    let flags = Flags { concurrency: Some(5), ..Flags::default() };
    assert_eq!(read_with("", &[], flags).unwrap().config.queues["default"].served.concurrency, 5);
}

#[test]
fn a_named_file_must_exist_and_be_toml_and_its_secrets_stay_in_it() {
    let missing = Sources { files: vec!["no/such.toml".into()], ..Sources::default() }.read().unwrap_err();
    assert_eq!(missing.problems[0].to_string(), "no/such.toml: file not found");
    let problems = wrong("[redis]\nurl = \"redis://:canary@host\nnamespace = \"canary\"\n");
    assert!(problems[0].starts_with("a.toml:2: is not TOML"), "{problems:?}");
    assert!(!problems.join("\n").contains("canary"), "{problems:?}");
}

#[test]
fn a_misplaced_value_is_not_repeated_if_it_may_be_a_secret() {
    let variables =
        [("STREAMFLEET__REDIS", "redis://:canary@host"), ("STREAMFLEET__WORKER__LEASE", "x://canary")];
    let toml = "[types.a]\nhandler = \"canary\"\n[types.b]\nhandler.exec = { command = [\"a\"], env = \"canary\" }\n\
        [types.c]\nhandler.exec.pass_env = { canary = \"canary\" }\n";
    let problems = read_with(toml, &variables, Flags::default()).unwrap_err();
    assert_eq!(problems.len(), 5, "{problems:#?}");
    assert!(!problems.join("\n").replace("pass_env.canary", "").contains("canary"), "{problems:#?}");
}

#[test]
fn effective_values_are_shown_with_sources_and_without_secrets() {
    let toml = r#"
[redis]
url = "redis://user:canary@host:1/2"
[types."report.generate"]
handler = { exec = { command = ["python3", "report.py"], env = { TOKEN = "canary" } } }
backoff = { exponential = { base = "1s", max = "10m" } }
[types.b]
handler = { http = { url = "https://example.com/", headers = { x-token = "canary" } } }
"#;
    let flags = Flags { queues: vec!["mail".into()], ..Flags::default() };
    let effective = read_with(toml, &[("STREAMFLEET__WORKER__LEASE", "90s")], flags).unwrap();
    let text: String = effective.toml().lines().map(|line| without_folder(line) + "\n").collect();
    assert!(!text.contains("canary") && !effective.shown().to_string().contains("canary"), "{text}");
    assert!(toml::from_str::<toml::Table>(&text).is_ok(), "{text}");
    insta::assert_snapshot!(text);
    let objectives = json!({"dead_ratio": 0.01, "latency": "5m"});
    let queues = json!({"mail": {"concurrency": 64, "max_payload": 8_388_608, "objectives": objectives, "tracking": "failures"}});
    assert_eq!(effective.shown()["queues"], queues);
}

#[test]
fn processes_that_do_their_work_alike_have_one_digest() {
    const BASE: &str = "[types.a]\nhandler = { exec = { command = [\"a\"], env = { T = \"one\" } } }\n";
    let digest = |toml: &str| read(toml).unwrap().digest();
    assert_eq!(digest(&BASE.replace("one", "two")), digest(BASE));
    assert_eq!(digest(&format!("[console]\nlisten = \"127.0.0.1:1\"\n{BASE}")), digest(BASE));
    assert_ne!(digest(&format!("[worker]\nlease = \"90s\"\n{BASE}")), digest(BASE));
}

#[test]
fn every_section_is_shown() {
    let toml = "[types.a]\nhandler = \"noop\"\n[cron.b]\nschedule = \"@daily\"\ntype = \"a\"\n";
    let effective = read_with(toml, &[], Flags::default()).unwrap();
    let shown: toml::Table = toml::from_str(&effective.toml()).unwrap();
    for section in effective.shown().as_object().unwrap().keys() {
        assert!(shown.contains_key(section), "{section}");
    }
}

fn without_folder(line: &str) -> String {
    match (line.find("# /"), line.rfind('/')) {
        (Some(start), Some(end)) => format!("{}{}", &line[..start + 2], &line[end + 1..]),
        _ => line.to_owned(),
    }
}

#[test]
fn objectives_are_read_and_their_bounds_checked() {
    let toml = "[queues.mail.objectives]\nlatency = \"30s\"\n[queues.other]\n";
    let variables = [("STREAMFLEET__QUEUES__MAIL__OBJECTIVES__DEAD_RATIO", "0.5")];
    let read = read_with(toml, &variables, Flags::default()).unwrap();
    let of = |name: &str| read.config.queues[name].objectives;
    let strict = crate::telemetry::Objectives { latency: Duration::from_secs(30), dead_ratio: 0.5 };
    assert_eq!([of("mail"), of("other")], [strict, crate::telemetry::Objectives::default()]);
    let told = wrong("[queues.mail.objectives]\nlatency = \"0s\"\ndead_ratio = 0.0\ndead = 1\n");
    let says = |part: &str| assert!(told.iter().any(|line| line.contains(part)), "{part} in {told:#?}");
    says("queues.mail.objectives.dead: unknown key");
    let told = wrong("[queues.mail.objectives]\nlatency = \"0s\"\ndead_ratio = 1.5\n");
    let says = |part: &str| assert!(told.iter().any(|line| line.contains(part)), "{part} in {told:#?}");
    says("queues.mail.objectives.latency: is 0s, but must be between 1ms and 365d");
    says("queues.mail.objectives.dead_ratio: is 1.5, but must be more than 0 and at most 1");
}

#[test]
fn types_whose_handlers_run_programs_are_known() {
    let program = "handler = { exec = { command = [\"true\"] } }";
    let steps = format!(
        "[types.b.steps.one]\nkind = \"auto\"\nhandler = \"noop\"\n[types.b.steps.two]\nkind = \"auto\"\n{program}\n"
    );
    let toml = format!("[types.a]\n{program}\n{steps}[types.c]\nhandler = \"noop\"\n");
    let programs = read(&toml).unwrap().config.programs();
    assert_eq!(programs.iter().map(JobType::as_str).collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn limits_of_dead_letters_are_read_and_bounded() {
    let read = read("[queues.mail]\ndead_retention = \"30d\"\ndead_max = 7\n").unwrap();
    let queue = read.config.fleet_config().worker.queues.into_values().next().unwrap();
    let month = Duration::from_secs(30 * 24 * 3600);
    assert_eq!((queue.dead_retention, queue.dead_max), (Some(month), Some(7)));
    let wrong = wrong("[queues.mail]\ndead_retention = \"59s\"\ndead_max = 0\n").join("\n");
    assert!(
        wrong.contains("queues.mail.dead_retention: is 59s, but must be between 1m and 3650d"),
        "{wrong}"
    );
    assert!(wrong.contains("queues.mail.dead_max: is 0, but must be at least 1"), "{wrong}");
}

#[test]
fn the_archive_of_dead_letters_is_read_and_bounded() {
    let plain = read("[types.a]\nhandler = \"noop\"\n").unwrap().config.fleet_config().worker;
    assert_eq!(plain.archive.folder, None);
    let toml = "[dead]\narchive = \"/var/archive\"\nrotate_size = \"2MiB\"\nrotate_after = \"1h\"\n";
    let archive = read(toml).unwrap().config.fleet_config().worker.archive;
    assert_eq!(archive.folder.as_deref(), Some(std::path::Path::new("/var/archive")));
    assert_eq!(archive.rotate_size, 2 << 20);
    assert_eq!(archive.rotate_after, Duration::from_secs(3600));
    let wrong = wrong("[dead]\narchive = \"\"\nrotate_size = 7\nrotate_after = \"1s\"\n").join("\n");
    for key in
        ["dead.archive: is empty", "dead.rotate_size: must be", "dead.rotate_after: is 1s, but must be"]
    {
        assert!(wrong.contains(key), "{wrong}");
    }
}

#[test]
fn types_without_a_handler_are_refused_by_a_worker_all_at_once() {
    let effective = read("[types.\"a.b\"]\n[types.c]\n[types.d]\nhandler = \"noop\"\n").unwrap();
    let refused = effective.fleet().map(|_| ()).unwrap_err();
    let keys: Vec<_> = refused.problems.iter().map(|problem| (&*problem.key, &*problem.reason)).collect();
    assert_eq!(keys, [("types.\"a.b\"", "has no handler"), ("types.c", "has no handler")]);
}

#[test]
fn a_fleet_gets_everything_that_is_configured() {
    let toml = "[worker]\nlease = \"2s\"\n[queues.mail]\nconcurrency = 5\n[types.a]\nhandler = \"noop\"\n";
    let effective = read(toml).unwrap();
    let fleet = effective.config.fleet_config();
    assert_eq!(fleet.worker.lease, Duration::from_secs(2));
    assert_eq!(fleet.worker.queues.values().map(|queue| queue.concurrency).collect::<Vec<_>>(), [5]);
    assert_eq!(effective.fleet().unwrap().types(), ["a".parse::<JobType>().unwrap()]);
}

#[test]
fn a_wrong_rule_is_reported_with_its_key_number_and_position() {
    let rules = |rules: &str| {
        wrong(&format!(
            "[types.a]\nhandler = {{ exec = {{ command = [\"true\"], rules = [\n{{ exit = 3, then = \"drop\" }},\n{rules}\n] }} }}\n"
        ))
    };
    assert_eq!(
        rules("{ matches = \"(?i)dup(\", then = \"fatal\" }"),
        [
            "types.a.handler.exec.rules: rule 2: matches is not a regular expression: unclosed group at character 8 (a.toml:2)"
        ]
    );
    assert_eq!(
        rules("{ status = 500, then = \"fatal\" }"),
        ["types.a.handler.exec.rules: rule 2: can never match: a program has no status (a.toml:2)"]
    );
    assert_eq!(
        rules("{ exit = 4, then = \"fatall\" }"),
        ["types.a.handler.exec.rules: unknown value; did you mean \"fatal\"? (a.toml:2)"]
    );
    assert_eq!(
        rules("{ exits = 4, then = \"fatal\" }"),
        ["types.a.handler.exec.rules: unknown key; did you mean \"exit\"? (a.toml:2)"]
    );
    assert_eq!(rules("{ exit = 4 }"), ["types.a.handler.exec.rules: then is missing (a.toml:2)"]);
}

#[test]
fn two_pools_do_not_have_the_same_name() {
    let own = "[types.\"mail.send\"]\nhandler.pool = { command = [\"a\"] }\n";
    for other in [
        "[pools.\"mail.send\"]\ncommand = [\"b\"]\n",
        "[types.mail.steps.send]\nhandler.pool = { command = [\"b\"] }\n",
    ] {
        let found = wrong(&format!("{own}{other}"));
        assert!(found.iter().any(|problem| problem.contains("pool, mail.send: describe")), "{found:?}");
    }
}

#[test]
fn the_rules_in_the_documents_are_valid() {
    let blocks = include_str!("../../../../docs/handlers.md").split("```toml\n").skip(1);
    for toml in blocks.filter_map(|block| block.split("```").next()) {
        read(toml).unwrap();
    }
}

const SINK: &str = "[alerts.sinks.ops-1]\nkind = \"dingtalk\"\n";

#[test]
fn a_secret_of_a_sink_comes_from_a_file_or_a_variable_and_is_never_shown() {
    let toml = format!("{SINK}url = \"https://example.com/?access_token=canary\"\n");
    let told = wrong(&toml);
    assert_eq!(
        told,
        [
            "alerts.sinks.ops-1.url: is a secret, which must not stand in this file: use url_file, or the variable \
             STREAMFLEET__ALERTS__SINKS__OPS_1__URL (a.toml:3)"
        ]
    );
    let variables = [
        ("STREAMFLEET__ALERTS__SINKS__OPS_1__URL", "https://example.com/?access_token=canary"),
        ("STREAMFLEET__ALERTS__SINKS__OPS_1__SECRET", "canary"),
    ];
    let read = read_with(SINK, &variables, Flags::default()).unwrap();
    let shown = format!("{} {:?}", read.toml(), read.config.alerts);
    assert!(shown.contains("***") && !shown.contains("canary"), "{shown}");
}

#[test]
fn problems_of_sinks_are_named_by_their_keys() {
    let told = wrong("[alerts]\nevery = \"1ms\"\noff = [\"backlogs\"]\n");
    let near = "alerts.off: unknown value; did you mean \"backlog\"?";
    assert!(told.iter().any(|told| told.starts_with(near)), "{told:?}");
    let told = wrong(&format!("[alerts]\nevery = \"1ms\"\n{SINK}"));
    assert!(
        told.iter().any(|told| told.starts_with("alerts.every: is 1ms, but must be between 100ms and 1h")),
        "{told:?}"
    );
    assert!(told.iter().any(|told| told.starts_with("alerts.sinks.ops-1.url_file: is missing")), "{told:?}");
}
