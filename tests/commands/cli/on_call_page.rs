//! Every command of docs/on-call.md is one that the program has, in a form that it accepts.

use harness::cli::{launch, sf};
use harness::redis_server::RedisServer;
use harness::scene::SOON;
use harness::wait::until;

const PAGE: &str = include_str!("../../../docs/on-call.md");

/// Returns the commands of the page as their words, each with its comment.
fn commands() -> Vec<(Vec<String>, String)> {
    let blocks = PAGE.split("```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("streamfleet "));
    lines.map(words).collect()
}

/// Splits a line as a shell does, and returns the comment at its end.
pub(super) fn words(line: &str) -> (Vec<String>, String) {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    for (at, letter) in line.char_indices() {
        match letter {
            other if quote == Some(other) => quote = None,
            '\'' | '"' if quote.is_none() => (quote, word) = (Some(letter), Some(word.unwrap_or_default())),
            ' ' if quote.is_none() => words.extend(word.take()),
            '#' if quote.is_none() && word.is_none() => return (words, line[at..].to_owned()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    (words, String::new())
}

/// What a person would say to the question that a command asks.
fn answer(words: &[String]) -> Option<&'static str> {
    let begins = |head: &[&str]| words.iter().zip(head).all(|(word, head)| word == head);
    let selects = ["cancel", "run-now", "move"].iter().any(|name| words[0] == *name);
    let has = |name: &str| words.iter().any(|word| word == name);
    let replays = begins(&["dead", "replay"]) || begins(&["dead", "drop"]);
    let asks = replays || selects && words.iter().any(|word| word.starts_with("--"));
    (asks && !has("--dry-run")).then_some("--yes")
}

#[test]
fn every_command_of_the_page_is_accepted() {
    let server = RedisServer::start();
    for queue in ["mail", "bulk", "invoices", "old"] {
        assert_eq!(sf(&server, &["enqueue", "test", "{}", "--queue", queue]).code, Some(0));
    }
    let all = commands();
    assert!(all.len() > 40, "{} commands", all.len());
    for (words, comment) in all {
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        args.extend(answer(&words));
        let is_endless =
            args[0] == "top" || args.contains(&"--watch") || args.starts_with(&["dead", "watch"]);
        if is_endless {
            let command = launch(&server, &args).start();
            let looked = || !command.stdout().is_empty() || command.exit_status().is_some();
            until("a look", SOON, looked);
            if command.exit_status().is_none() {
                command.term();
            }
            assert_ne!(command.wait_exit(SOON).code(), Some(2), "{args:?}: {}", command.stderr());
            continue;
        }
        let output = sf(&server, &args);
        // Nobody can be asked here, and the ids of the page do not exist.
        let want = if comment.contains("asks") { [2, 2] } else { [0, 4] };
        assert!(output.code.is_some_and(|code| want.contains(&code)), "{args:?}: {output:?}");
    }
}

#[test]
fn words_are_split_as_a_shell_does() {
    let (split, comment) = words("cancel --type 'report.*' --reason 'it is # gone'  # not this");
    assert_eq!(split, ["cancel", "--type", "report.*", "--reason", "it is # gone"]);
    assert_eq!(comment, "# not this");
    assert_eq!(words("enqueue ''").0, ["enqueue", ""]);
    assert_eq!(words("cancel --reason \"it's gone\" 7").0, ["cancel", "--reason", "it's gone", "7"]);
}
