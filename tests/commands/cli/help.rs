//! What the program says about itself: help, usage, examples.

use std::fs;
use std::time::Duration;

use harness::process::{Launch, run};

const SOON: Duration = Duration::from_secs(30);

/// Returns the help of a command, which must be there.
fn help(command: &[&str]) -> String {
    let output = run(&[command, &["--help"]].concat(), b"");
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:?}");
    output.stdout
}

#[test]
fn the_usage_shows_every_way_to_use_a_command() {
    let ways: [(&[&str], &str, &str); 7] = [
        (&["enqueue"], "enqueue [OPTIONS] <TYPE> [PAYLOAD]", "enqueue [OPTIONS] --bulk < FILE"),
        (&["dead", "replay"], "dead replay [OPTIONS] <ID>...", "dead replay [OPTIONS] --all"),
        (&["dead", "drop"], "dead drop [OPTIONS] <ID>...", "dead drop [OPTIONS] --all"),
        (&["dead", "export"], "dead export [OPTIONS] --all", "dead export [OPTIONS] <FILTER>"),
        (&["cancel"], "cancel [OPTIONS] <ID>", "cancel [OPTIONS] --all"),
        (&["run-now"], "run-now [OPTIONS] <ID>", "run-now [OPTIONS] --all"),
        (&["move"], "move [OPTIONS] --to <QUEUE> --all", "move [OPTIONS] --to <QUEUE> <FILTER>"),
    ];
    for (command, one, other) in ways {
        let want = format!("Usage: streamfleet {one}\n       streamfleet {other}\n");
        assert!(help(command).contains(&want), "{}", help(command));
    }
}

#[test]
fn every_shell_gets_completions_that_know_all_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell], b"");
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:?}");
        for word in ["streamfleet", "enqueue", "reschedule", "skip-bad"] {
            assert!(output.stdout.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(run(&["completions", "cmd"], b"").code, Some(2));
}

#[test]
fn manual_pages_are_written_for_every_command_each_with_an_example() {
    let page = run(&["man"], b"");
    assert_eq!(page.code, Some(0), "{page:?}");
    assert!(
        page.stdout.contains(".TH streamfleet ") && page.stdout.contains("Exit codes"),
        "{}",
        page.stdout
    );
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("man1");
    let written = run(&["man", "--dir", dir.to_str().unwrap()], b"");
    assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{written:?}");
    let pages: Vec<_> = fs::read_dir(&dir).unwrap().map(|page| page.unwrap().path()).collect();
    assert!(pages.len() > 50, "{}", pages.len());
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let has_example = text.lines().any(|line| matches!(line, "Example:" | "Examples:"));
        assert!(has_example, "{} has no example", page.display());
    }
    for name in ["streamfleet", "streamfleet-enqueue", "streamfleet-dead-list", "streamfleet-cron-add"] {
        assert!(dir.join(format!("{name}.1")).is_file(), "{name}");
    }
}

#[test]
fn the_program_explains_itself_even_if_its_configuration_is_broken() {
    for args in [&["completions", "bash"][..], &["man"], &["metrics"], &["--help"]] {
        let output = Launch::new(args).env("STREAMFLEET__REDIS__URL", "nowhere").output(SOON);
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}
