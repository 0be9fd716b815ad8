//! Runbooks: every command in them runs with the login that the pages name for it.

use std::fs;
use std::path::Path;

use redis::Value;

use super::logins::Site;
use harness::process::Launch;
use harness::scene::SOON;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/runbooks");

/// What stands for the values in an alert.
const VALUES: [(&str, &str); 7] = [
    ("QUEUE", "default"),
    ("TYPE", "test"),
    ("GROUP", "00000000000000ff"),
    ("TASK", "00ff"),
    ("SINK", "chat"),
    ("HOST", "127.0.0.1"),
    ("ID", "order-7"),
];

/// Returns the text of every page.
fn pages() -> Vec<(String, String)> {
    let files = fs::read_dir(Path::new(FOLDER)).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.display().to_string(), fs::read_to_string(&path).unwrap())).collect()
}

/// Returns the words of a command of a page, as a shell reads them, up to a pipe, a redirection or a comment. The one of
/// [`VALUES`] that `but` names stays as it is: Redis has a command `TYPE`.
fn words(command: &str, but: &str) -> Vec<String> {
    let end = command.find(['|', '>', '#', '\n', '`']).unwrap_or(command.len());
    let (mut words, mut is_quoted) = (vec![String::new()], false);
    for c in command[..end].chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    let values = VALUES.iter().filter(|(name, _)| *name != but);
    let filled =
        |word: &String| values.clone().fold(word.clone(), |word, (name, value)| word.replace(name, value));
    words.iter().map(filled).collect()
}

#[test]
fn every_redis_command_of_a_runbook_names_a_login_that_may_run_it() {
    let (site, mut checked) = (Site::new(), 0);
    for (page, text) in pages() {
        // The first piece is what stands before the first command; `redis-cli` in a sentence has no further words.
        for command in text
            .split("redis-cli")
            .skip(1)
            .filter(|rest| rest.starts_with(' ') && !rest.starts_with(" names"))
        {
            let words = words(command, "TYPE");
            let [user, login, command @ ..] = &words[..] else { panic!("{page}: redis-cli {words:?}") };
            assert_eq!(user, "--user", "{page}: redis-cli {words:?}");
            let command: Vec<&str> = match command {
                [option] if option == "--latency" => vec!["PING"],
                [option, _, command @ ..] if option == "-h" => command.iter().map(String::as_str).collect(),
                command => command.iter().map(String::as_str).collect(),
            };
            let dry = [&["ACL", "DRYRUN", login.as_str()], &command[..]].concat();
            assert_eq!(site.server.cmd(&dry), Value::Okay, "{page}: {login} may not run {command:?}");
            checked += 1;
        }
    }
    assert!(checked >= 20, "{checked}");
}

#[test]
fn an_operator_may_run_every_command_of_a_runbook() {
    let (site, mut checked) = (Site::new(), 0);
    for _ in 0..3 {
        site.server.cmd(&["XADD", "sf:{default}:jobs", "*", "type", "test", "id", "order-7"]);
    }
    for (page, text) in pages() {
        let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let lines = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("streamfleet "));
        // These read the configuration of a worker, ask a worker, or ask a database.
        let others = ["config", "healthcheck", "alerts test", "history"];
        for line in lines.filter(|line| !others.iter().any(|other| line.starts_with(other))) {
            let mut args = words(line, "");
            if ["dead replay", "dead drop"].iter().any(|asks| line.starts_with(asks)) {
                args.push("--yes".to_owned());
            }
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let output = Launch::new(&args).env("STREAMFLEET__REDIS__URL", site.url("operator")).output(SOON);
            // Most objects do not exist here.
            let known = matches!(output.code, Some(0 | 1 | 4 | 5));
            assert!(known && !output.stderr.contains("permission"), "{page}: {args:?}: {output:?}");
            checked += 1;
        }
    }
    site.nothing_was_refused();
    assert!(checked >= 50, "{checked}");
}

#[test]
fn no_runbook_replays_or_drops_letters_that_its_alert_is_not_about() {
    let mut checked = 0;
    for (page, text) in pages() {
        let commands = ["replay", "drop"].map(|action| format!("streamfleet dead {action} "));
        for command in commands.iter().flat_map(|command| text.split(command.as_str()).skip(1)) {
            let words = words(command, "");
            let conditions = ["--dead-reason", "--type", "--group", "--older-than"];
            let is_bounded = words.iter().any(|word| conditions.contains(&word.as_str()));
            assert!(is_bounded || words[0] == "order-7", "{page}: {words:?}");
            checked += 1;
        }
    }
    assert!(checked >= 8, "{checked}");
}
