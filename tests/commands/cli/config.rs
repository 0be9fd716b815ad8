//! `config check`, `config show` and `config from-handlers`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::Value;

use harness::process::{Launch, Output, streamfleet};

const SOON: Duration = Duration::from_secs(30);

fn config(args: &[&str], toml: &str) -> Output {
    Launch::new(&[&["--config", "{config}", "config"], args].concat()).config(toml).output(SOON)
}

#[test]
fn all_problems_are_listed_with_exit_code_2() {
    let output = config(&["check"], "[worker]\nlese = \"1s\"\n[types.a]\ntimeout = \"9d\"\n");
    assert_eq!(output.code, Some(2), "{output:?}");
    let file = output.stdout.split('(').nth(1).and_then(|rest| rest.split(':').next()).unwrap();
    insta::assert_snapshot!(output.stdout.replace(file, "[file]"), @r#"
    the configuration has 2 problems:
      types.a.timeout: is 9d, but must be between 1ms and 7d ([file]:4)
      worker.lese: unknown key; did you mean "lease"? ([file]:2)
    "#);
}

#[test]
fn problems_are_available_as_json() {
    let output = config(&["check", "--json"], "[worker]\nlease = \"1d\"\n");
    let found: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        (found["valid"].as_bool(), found["problems"][0]["key"].as_str()),
        (Some(false), Some("worker.lease"))
    );
    let fine: Value = serde_json::from_str(&config(&["check", "--json"], "").stdout).unwrap();
    assert_eq!(fine, serde_json::json!({"valid": true, "problems": []}));
}

#[test]
fn a_missing_handler_is_a_warning_without_any_other_and_an_invalid_one_an_error() {
    let output = config(&["check"], "[types.a]\n");
    let idle = "the configuration is valid, but no worker starts with it\n";
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), idle));
    assert!(output.stderr.contains("types.a: has no handler"), "{output:?}");
    for more in ["[types.b]\nhandler = \"noop\"\n", "[pools.p]\ncommand = [\"sh\"]\n"] {
        let output = config(&["check", "--without-pools"], &format!("[types.a]\n{more}"));
        assert_eq!(output.code, Some(2), "{output:?}");
        assert!(output.stdout.contains("types.a: has no handler"), "{output:?}");
    }
    let toml = "[types.a]\nhandler = { http = { url = \"http://h/\", bearer_file = \"/no/such\" } }\n";
    let output = config(&["check"], toml);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stdout.contains("/no/such cannot be read"), "{output:?}");
}

#[test]
fn a_wrong_file_of_accounts_is_named_with_the_line_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let accounts = folder.path().join("accounts.toml");
    let toml = format!("[console]\naccounts_file = {accounts:?}\n");
    let checked = || config(&["check"], &toml);
    let missing = checked();
    assert_eq!(missing.code, Some(2), "{missing:?}");
    for (text, why) in [
        ("[people.ann]\npasword = \"hunter2\"\n", "line 2: unknown field `pasword`"),
        ("[people.ann]\nrole = \"viewer\"\n", "people.ann: has no password"),
    ] {
        fs::write(&accounts, text).unwrap();
        let output = checked();
        assert_eq!(output.code, Some(2), "{output:?}");
        let want = format!("console.accounts_file: {}: {why}", accounts.display());
        assert!(output.stdout.contains(&want), "{want}: {}", output.stdout);
        assert!(output.stdout.contains(":2)") && !output.stdout.contains("hunter2"), "{}", output.stdout);
    }
    let token = format!("[tokens.shop]\nsha256 = \"{}\"\nrole = \"submitter\"\n", "0".repeat(64));
    fs::write(&accounts, token).unwrap();
    let output = checked();
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(0), "the configuration is valid, but no worker starts with it\n"),
        "{output:?}"
    );
}

#[test]
fn a_missing_program_is_a_problem_also_in_a_step() {
    let toml = "[types.a]\nhandler = { exec = { command = [\"no-such-program\"] } }\n\
                [types.b.steps.c]\nkind = \"auto\"\nhandler = { exec = { command = [\"./no-such\"], directory = \"/bin\" } }\n\
                [types.d]\nhandler = { exec = { command = [\"sh\"] } }\n";
    let output = config(&["check"], toml);
    assert_eq!(output.code, Some(2), "{output:?}");
    let file = output.stdout.split('(').nth(1).and_then(|rest| rest.split(':').next()).unwrap();
    insta::assert_snapshot!(output.stdout.replace(file, "[file]"), @r#"
    the configuration has 2 problems:
      types.a.handler.exec.command: the program "no-such-program" is not on the PATH ([file]:2)
      types.b.steps.c.handler.exec.command: /bin/./no-such is not a program on this machine ([file]:5)
    "#);
}

#[test]
fn limits_of_types_have_bounds_and_a_key_needs_both_settings() {
    let toml = "[types.a]\nhandler = \"noop\"\nconcurrency = 0\nlimit_key = \"h.tenant\"\n\
                [types.b]\nhandler = \"noop\"\nconcurrency_per_key = 2\n\
                [types.c]\nhandler = \"noop\"\nlimit_key = \"payload\"\nconcurrency_per_key = 100001\n\
                [types.d]\nhandler = \"noop\"\nlimit_key = \"payload.tenant\"\nconcurrency_per_key = 1\n";
    let output = config(&["check"], toml);
    assert_eq!(output.code, Some(2), "{output:?}");
    for want in [
        "types.a.concurrency: is 0, but must be between 1 and 100000",
        "types.a.limit_key: has no effect without concurrency_per_key",
        "types.b.concurrency_per_key: needs limit_key",
        "types.c.concurrency_per_key: is 100001, but must be between 1 and 100000",
        "types.c.limit_key: is \"payload\", but no limit",
        "types.d.limit_key: is \"payload.tenant\", but no limit and no gate looks into payloads; send the value as a header",
    ] {
        assert!(output.stdout.contains(want), "{want}: {}", output.stdout);
    }
    let sound =
        "[types.a]\nhandler = \"noop\"\nconcurrency = 4\nlimit_key = \"h.tenant\"\nconcurrency_per_key = 1\n";
    let shown = config(&["show", "--json"], sound).stdout;
    let values: Value = serde_json::from_str(&shown).unwrap();
    let section = &values["types"]["a"];
    assert_eq!((&section["concurrency"], &section["limit_key"]), (&4.into(), &"h.tenant".into()));
}

#[test]
fn a_recurring_job_whose_type_is_not_there_is_named() {
    let toml = "[types.greet]\nhandler = \"noop\"\n[cron.day]\nschedule = \"0 1 * * *\"\ntype = \"geet\"\n\
                [cron.night]\nschedule = \"0 2 * * *\"\ntype = \"greet\"\n";
    let output = config(&["check"], toml);
    assert_eq!((output.code, output.stdout.trim()), (Some(0), "the configuration is valid"), "{output:?}");
    assert_eq!(
        output.stderr.trim(),
        "cron.day.type: the configuration has no type geet; did you mean greet?"
    );
    let (_, only_cron) = toml.split_at(toml.find("[cron").unwrap());
    let none = "types: there are none: a worker would refuse to start";
    assert_eq!(config(&["check"], only_cron).stderr.trim(), none);
}

#[test]
fn the_output_of_config_show_is_a_valid_configuration() {
    let toml =
        "[queues.mail]\nconcurrency = 3\n[types.\"a.b\"]\nhandler = \"noop\"\nbackoff = { fixed = \"5s\" }\n";
    let shown = config(&["show"], toml).stdout;
    let again = config(&["show", "--json"], &shown).stdout;
    assert_eq!(again, config(&["show", "--json"], toml).stdout);
    let values: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(values["types"]["a.b"]["backoff"]["fixed"], "5s");
    for (section, content) in values.as_object().unwrap() {
        let is_empty = content.as_object().unwrap().is_empty();
        assert!(is_empty || shown.contains(&format!("[{section}")), "no section {section}: {shown}");
    }
}

#[test]
fn other_commands_refuse_an_invalid_configuration_too() {
    let launch = Launch::new(&["queues"]).env("STREAMFLEET__REDIS__URI", "redis://h");
    let output = launch.output(SOON);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(
        output.stderr.contains("redis.uri: unknown key; did you mean \"url\"? (STREAMFLEET__REDIS__URI)"),
        "{output:?}"
    );
}

#[test]
fn a_worker_that_must_not_switch_users_and_a_user_that_nobody_knows_are_reported() {
    let toml = "[types.a]\nhandler.exec = { command = [\"true\"], user = \"no-such-user\" }\n";
    let output = config(&["check"], toml);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stdout.contains(r#"types.a: the handler's configuration is not valid: exec.user: this machine knows no user "no-such-user""#), "{output:?}");
    if !rustix::process::geteuid().is_root() {
        return println!("not root, so the program cannot be started as another user");
    }
    // Another user may neither read the folder of a test nor that of cargo.
    let dir = tempfile::tempdir().unwrap();
    let (file, program) = (dir.path().join("a.toml"), dir.path().join("streamfleet"));
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(
        &file,
        "[pools.py]\ncommand = [\"true\"]\nuser = \"daemon\"\n[types.a]\nhandler.pool = \"py\"\n",
    )
    .unwrap();
    let built = streamfleet();
    fs::hard_link(&built, &program).or_else(|_| fs::copy(&built, &program).map(drop)).unwrap();
    let command = [program.to_str().unwrap(), "--config", file.to_str().unwrap(), "config", "check"];
    let args = [&["--reuid=65534", "--regid=65534", "--clear-groups"][..], &command].concat();
    let output = Launch::program("setpriv", &args).output(SOON);
    assert_eq!(output.code, Some(2), "{output:?}");
    let told = "pools.py: the handler's configuration is not valid: pool.user: this process, of the user 65534, must not run programs \
                as another user: start it as root, or with the capabilities CAP_SETUID, CAP_SETGID and CAP_KILL, or leave `user` out";
    assert!(output.stdout.contains(told), "{output:?}");
}

/// A program of a pool that only says what its types need, after something else.
const DESCRIBED: &str = r#"[pools.php]
command = ["sh", "-c", '''
  [ "$STREAMFLEET_DESCRIBE" = 1 ] || exit 3
  echo booted
  echo '{"type":"handlers","protocol":1,"types":{"mail.send":{"max_attempts":4,"timeout":"30s"},"report":{}},"more":1}'
''']
"#;

/// One whose type has a pool of its own.
const OWN: &str = r#"[types.report]
handler.pool = { command = ["sh", "-c", '''echo '{"type":"handlers","types":{"report":{"max_attempts":2}}}' '''] }
"#;

#[test]
fn the_options_of_handlers_become_sections() {
    let output = config(&["from-handlers"], &format!("{DESCRIBED}{OWN}"));
    assert_eq!(output.code, Some(0), "{output:?}");
    insta::assert_snapshot!(output.stdout, @r#"
    [types."mail.send"]
    handler = { pool = "php" }
    max_attempts = 4
    timeout = "30s"

    [types."report"]
    handler = { pool = "php" }

    [types."report"]
    max_attempts = 2
    "#);
    // What is printed is a configuration.
    let only = config(&["from-handlers", "--pool", "php"], DESCRIBED).stdout;
    let output = config(&["check", "--without-pools"], &format!("{DESCRIBED}{only}"));
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(0), "the configuration is valid\n"),
        "{output:?}"
    );
    let found = config(&["from-handlers", "-o", "json"], DESCRIBED).stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["php"]["types"]["mail.send"]["max_attempts"], 4);
}

#[test]
fn programs_that_do_not_say_their_options_are_named() {
    let told = |script: &str, flags: &[&str]| {
        let toml = format!("[pools.php]\nstart_timeout = \"2s\"\ncommand = [\"sh\", \"-c\", '{script}']\n");
        let output = config(&[&["from-handlers"], flags].concat(), &toml);
        assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{output:?}");
        output.stderr
    };
    assert!(told("echo no class >&2; exit 1", &[]).contains("no class"));
    assert!(told("echo hello", &[]).contains("too old"));
    assert!(told("cat; exec sleep 60", &[]).contains("did not end within 2s"));
    assert!(told("exit", &["--pool", "node"]).contains("no pool node"));
}
