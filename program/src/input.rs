//! How people see what a job got from its producer.

use streamfleet::job::Encoding;
use streamfleet_operations::jobs::Input;

use super::output::{self, View};

/// Shows to people what a job got.
pub(crate) fn input(input: &Input) -> View {
    let headers = input.headers.iter().map(|(name, value)| format!("{name}={value}"));
    let headers = headers.collect::<Vec<_>>().join("\n");
    let parent = input.parent.as_ref().map(|parent| match &input.parent_queue {
        Some(queue) => format!("{parent} in the queue {queue}"),
        None => parent.clone(),
    });
    let is_usual = input.encoding == Encoding::default().as_str();
    output::facts(&[
        ("submitted by", parent),
        ("headers", Some(headers).filter(|headers| !headers.is_empty())),
        ("encoding", Some(input.encoding.clone()).filter(|_| !is_usual)),
        ("payload", input.shown.clone()),
    ])
}
