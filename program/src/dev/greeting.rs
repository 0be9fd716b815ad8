//! What `streamfleet dev` prints once everything runs: lines to paste into another terminal, and what to know.

use std::path::Path;

use streamfleet::RedisConfig;
use streamfleet::dev_server::{self, DevServer};
use streamfleet::handlers;
use streamfleet::job::{Lane, format_duration};
use streamfleet_engine::admin::stream_name;
use streamfleet_service::config::Effective;

use super::DEMO;
use super::variables::Variables;
use crate::output::{listed, shell_word};

/// Returns what runs, and what to do next, to be pasted into another terminal.
pub(super) fn greeting(
    effective: &Effective,
    server: &DevServer,
    folder: &Path,
    metrics: &str,
) -> Vec<String> {
    let config = &effective.config;
    let namespace = &config.redis.namespace;
    let types = listed(config.types.keys());
    let first = config.types.iter().next();
    let job_type = first.map_or(DEMO, |(name, _)| name.as_str());
    // Nobody knows what the handlers of other types expect.
    let takes_any = first.is_none_or(|(_, section)| matches!(section.handler, Some(handlers::Config::Noop)));
    let payload = takes_any.then_some(r#"'{"hello":"world"}'"#);
    let Some(queue) = config.queues.keys().next() else { return Vec::new() };
    let stream = stream_name(namespace, queue, Lane::Normal);
    let (port, password) = (server.port(), server.password_file());
    let password = shell_word(&password.to_string_lossy());
    let mut variables = format!(
        "STREAMFLEET__REDIS__URL=redis://127.0.0.1:{port} STREAMFLEET__REDIS__PASSWORD_FILE={password} \
         REDISCLI_AUTH=\"$(cat {password})\""
    );
    if *namespace != RedisConfig::default().namespace {
        variables.push_str(&format!(" STREAMFLEET__REDIS__NAMESPACE={namespace}"));
    }
    let queue = if queue.as_str() == "default" { String::new() } else { format!(" --queue {queue}") };
    let client = dev_server::client();
    let (field, argument) = match payload {
        Some(payload) => (format!(" payload {payload}"), format!(" {payload}")),
        None => (String::new(), String::new()),
    };
    let mut lines = vec![
        format!(
            "redis on port {port}, data and password in {}; handlers for {types}; metrics: {metrics}",
            folder.display()
        ),
        format!("log in:        export {variables}"),
        format!("submit a job:  {client} -p {port} XADD '{stream}' '*' type {job_type}{field}"),
        format!("or:            streamfleet enqueue{queue} {job_type}{argument}"),
    ];
    if payload.is_none() {
        lines.push(
            "               (add what the handler expects: payload JSON, or JSON after the type)".to_owned(),
        );
    }
    lines.push("inspect it:    streamfleet queues".to_owned());
    lines
}

/// Returns what to know about programs that get the variables of this terminal, about the log, and about the end.
pub(super) fn remarks(effective: &Effective, variables: Option<&Variables>) -> Vec<String> {
    let drain = format_duration(effective.config.worker.drain_timeout);
    let environment = variables.map(|_| {
        "Programs get the variables of this terminal, but from `streamfleet worker` only PATH, HOME and the like, and what pass_env names."
            .to_owned()
    });
    let withheld = variables.filter(|variables| !variables.withheld.is_empty()).map(|variables| {
        format!(
            "They do not get what has a password of Redis: {}. If they need it, name all that they need in pass_env.",
            listed(&variables.withheld)
        )
    });
    let log = "The log below has what programs write, and the end of each attempt. -v shows more.".to_owned();
    let end = format!(
        "Ctrl-C stops everything; running jobs may end within {drain}. A second one cuts them short, and they run again the next time."
    );
    environment.into_iter().chain(withheld).chain([log, end]).collect()
}
