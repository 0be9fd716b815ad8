//! What the program says about itself: help, usage, examples.

use crate::harness::process::run;

/// Returns the help of a command, which must be there.
fn help(command: &[&str]) -> String {
    let output = run(&[command, &["--help"]].concat(), b"");
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output:?}");
    output.stdout
}

#[test]
fn the_usage_shows_every_way_to_use_a_command() {
    let ways: [(&[&str], &str, &str); 3] = [
        (&["enqueue"], "enqueue [OPTIONS] <TYPE> [PAYLOAD]", "enqueue [OPTIONS] --bulk < FILE"),
        (&["dead", "replay"], "dead replay [OPTIONS] <ID>...", "dead replay [OPTIONS] --all"),
        (&["dead", "drop"], "dead drop [OPTIONS] <ID>...", "dead drop [OPTIONS] --all"),
    ];
    for (command, one, other) in ways {
        let want = format!("Usage: streamfleet {one}\n       streamfleet {other}\n");
        assert!(help(command).contains(&want), "{}", help(command));
    }
}
