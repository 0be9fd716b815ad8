//! The section `[alerts]`: which secrets may not stand in a file.

use super::problem::Problem;
use super::source::PREFIX;
use super::tree::{Kind, Node};

/// Keys of a sink that are secrets.
const SECRETS: [&str; 2] = ["url", "secret"];

/// Returns the secrets of sinks that stand in a file. Only the endpoint of a webhook may: its messages are signed, so that its
/// address needs no token.
pub(super) fn secrets_in_files(tree: &Node) -> Vec<Problem> {
    let path = |keys: &[&str]| -> Vec<String> { keys.iter().map(ToString::to_string).collect() };
    let Some(Node { kind: Kind::Table(sinks), .. }) = tree.get(&path(&["alerts", "sinks"])) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for (name, sink) in sinks {
        let kind = sink.get(&path(&["kind"])).map(Node::value);
        let is_webhook = kind.is_some_and(|kind| kind == "webhook");
        for key in SECRETS {
            let set = sink.get(&path(&[key]));
            let is_in_file = set.is_some_and(|node| !node.origin.starts_with(PREFIX));
            if is_in_file && !(is_webhook && key == "url") {
                let variable =
                    format!("{PREFIX}ALERTS__SINKS__{}__{}", name.to_uppercase(), key.to_uppercase());
                let reason = format!(
                    "is a secret, which must not stand in this file: use {key}_file, or the variable {}",
                    variable.replace('-', "_")
                );
                problems.push(Problem::at(&path(&["alerts", "sinks", name, key]), reason, tree));
            }
        }
    }
    problems
}
