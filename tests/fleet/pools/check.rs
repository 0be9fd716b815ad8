//! `config check` greets the programs of pools.

use harness::pool::{PROGRAM, SOON, Stage};
use harness::process::{Launch, Output, python};

fn check(stage: &Stage, args: &[&str]) -> Output {
    let all = [&["--config", "{config}", "config", "check"], args].concat();
    Launch::new(&all).config(&stage.toml).output(SOON)
}

#[test]
fn a_check_starts_one_program_and_ends_it() {
    let stage = Stage::acting("processes = 8\nstart = \"eager\"", "");
    let output = check(&stage, &[]);
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (Some(0), "the configuration is valid\n"),
        "{output:?}"
    );
    assert_eq!((stage.lines("pids").len(), stage.alive().len()), (1, 0));
    assert_eq!(check(&stage, &["--without-pools"]).code, Some(0));
    assert_eq!(stage.lines("pids").len(), 1, "no further program was started");
}

#[test]
fn a_check_finds_types_that_a_program_does_not_serve() {
    let stage = Stage::new("", "[types.stranger]\nhandler = { pool = \"py\" }");
    let output = check(&stage, &[]);
    assert_eq!(output.code, Some(2), "{output:?}");
    let why = "pools.py: the program does not serve stranger, only act, other";
    assert!(output.stdout.contains(why), "{output:?}");
    assert_eq!(check(&stage, &["--without-pools"]).code, Some(0));
}

#[test]
fn a_check_remarks_on_settings_that_a_program_does_not_use() {
    let stage = Stage::acting("inflight = 4", "");
    let alone = PROGRAM.replace("inflight=hello[\"inflight\"]", "inflight=1");
    std::fs::write(stage.dir.path().join("worker.py"), alone).unwrap();
    let output = check(&stage, &[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let remark = "pools.py: inflight is 4, but the program works on 1 job at once: lower it to 1";
    assert!(output.stderr.contains(remark), "{output:?}");
}

#[test]
fn a_check_names_pools_that_are_not_there_and_wrong_values() {
    let stage = Stage::new("processes = 0", "[types.act]\nhandler = { pool = \"pi\" }");
    let output = check(&stage, &[]);
    assert_eq!(output.code, Some(2), "{output:?}");
    for want in [
        "pools.py.processes: is 0, but must be between 1 and 1000",
        "types.act.handler.pool: there is no pool pi; did you mean \"py\"?",
    ] {
        assert!(output.stdout.contains(want), "{want}: {}", output.stdout);
    }
}

#[test]
fn a_check_names_a_program_that_is_not_there() {
    let stage = Stage::acting("", "");
    let toml = stage.toml.replace(python(), "no-such-python");
    let output = check(&Stage { toml, ..stage }, &[]);
    assert_eq!(output.code, Some(2), "{output:?}");
    let why = "pools.py.command: the program \"no-such-python\" is not on the PATH";
    assert!(output.stdout.contains(why), "{output:?}");
}

#[test]
fn the_environment_of_a_pool_is_not_shown() {
    let stage = Stage::acting("processes = 7", "");
    let shown = Launch::new(&["--config", "{config}", "config", "show"]).config(&stage.toml).output(SOON);
    assert!(shown.stdout.contains("[pools.py]") && shown.stdout.contains("processes = 7"), "{shown:?}");
    assert!(!shown.stdout.contains("act,other"), "{shown:?}");
}
