//! `streamfleet config`: finds mistakes in the configuration, and shows the values in effect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use streamfleet::job::JobType;
use streamfleet_service::config::{Config, Effective, Invalid, Problem, nearest};

use super::exit::Exit;
use super::output::{Output, print_stderr};
use super::{Context, Wrong, console};

/// The arguments of `config`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  streamfleet config check\n  streamfleet config show")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(super) what: What,
}

/// What to do with the configuration.
#[derive(clap::Subcommand)]
pub(crate) enum What {
    /// Find all mistakes, and programs that this machine does not have, without a connection to Redis.
    ///
    /// It starts one program of each pool, which must serve the types of its pool. Exit code 0: the configuration is valid, and a
    /// worker starts with it, unless no type has a handler: then it is for programs that only submit jobs.
    /// 2: it has mistakes.
    #[command(
        after_help = "Examples:\n  streamfleet config check\n  streamfleet config check --config /etc/streamfleet/mail.toml"
    )]
    Check {
        /// Do not start the programs of pools.
        #[arg(long)]
        without_pools: bool,
    },
    /// Print the types of the handlers in the pools, with the options that the handlers have in their code.
    ///
    /// It starts one program of each pool, which says what its types need. Add the output to the configuration, so that jobs from anywhere
    /// get these options. See docs/pools.md.
    #[command(
        name = "from-handlers",
        after_help = "Examples:\n  streamfleet config from-handlers\n  streamfleet config from-handlers --pool php -o json"
    )]
    FromHandlers {
        /// Only this pool.
        #[arg(long, value_name = "NAME")]
        pool: Option<String>,
    },
    /// Show the values in effect, each with its source. Secrets are masked.
    #[command(
        after_help = "Examples:\n  streamfleet config show\n  streamfleet config show -o json | jq .worker.lease"
    )]
    Show,
}

/// What a check found, for JSON output.
#[derive(Serialize)]
struct Found {
    valid: bool,
    problems: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    key: String,
    reason: String,
    source: Option<String>,
}

impl From<&Problem> for Line {
    fn from(problem: &Problem) -> Self {
        let Problem { key, reason, origin } = problem.clone();
        Self { key, reason, source: origin }
    }
}

/// Reports all mistakes, and programs that this machine does not have. If no type has a handler, that only causes a remark,
/// because producers need no handlers.
pub(super) fn check(
    read: Result<Effective, Invalid>,
    without_pools: bool,
    output: Output,
) -> anyhow::Result<Exit> {
    let (mut unused, mut other, mut is_for_worker) = (Vec::new(), Vec::new(), true);
    let (problems, remarks) = match read {
        Err(invalid) => (invalid.problems, Vec::new()),
        Ok(effective) => {
            let mut found = effective.fleet().err().map_or_else(Vec::new, |invalid| invalid.problems);
            found.extend(effective.alerts().err().into_iter().flat_map(|invalid| invalid.problems));
            found.extend(console::problem_with_accounts(&effective));
            other.extend(strange_types(&effective.config));
            is_for_worker = has_handlers(&effective.config);
            if effective.config.types.is_empty() {
                other.push("types: there are none: a worker would refuse to start".to_owned());
            }
            let missing = effective.missing_programs();
            if missing.is_empty() && !without_pools && !effective.config.pool_names().is_empty() {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                let (failing, remarks) = runtime.block_on(effective.failing_pools());
                found.extend(failing);
                unused = remarks;
            }
            found.extend(missing);
            found.into_iter().partition(|problem| is_for_worker || !problem.is_missing_handler())
        }
    };
    for remark in &remarks {
        print_stderr(&format!("{remark}: a worker would refuse to start"));
    }
    for remark in &other {
        print_stderr(remark);
    }
    for remark in &unused {
        print_stderr(&remark.to_string());
    }
    let found = Found { valid: problems.is_empty(), problems: problems.iter().map(Line::from).collect() };
    output.print(&found, |_| match Invalid::from_problems(problems) {
        Some(invalid) => invalid.to_string(),
        None if is_for_worker => "the configuration is valid".to_owned(),
        None => "the configuration is valid, but no worker starts with it".to_owned(),
    })?;
    Ok(if found.valid { Exit::Done } else { Exit::Usage })
}

/// Whether the configuration is meant for a worker, which refuses to start if any of its types lacks a handler.
fn has_handlers(config: &Config) -> bool {
    !config.pools.is_empty()
        || config.types.values().any(|section| section.handler.is_some() || section.steps.is_some())
}

/// Says which recurring jobs have a type that is not among those of the configuration, if it has types at all. A worker with
/// another configuration may know it.
fn strange_types(config: &Config) -> impl Iterator<Item = String> {
    let entries = config.cron.iter().filter(move |_| !config.types.is_empty());
    let strange = entries.filter(move |(_, entry)| !config.types.contains_key(&entry.job_type));
    strange.map(move |(name, entry)| {
        let near = nearest(entry.job_type.as_str(), config.types.keys().map(JobType::as_str));
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        format!("cron.{name}.type: the configuration has no type {}{near}", entry.job_type)
    })
}

/// What a program of a pool writes about its handlers.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Said {
    Handlers(Handlers),
}

#[derive(Serialize, Deserialize)]
struct Handlers {
    /// For each type, keys of its section and their values.
    types: BTreeMap<JobType, BTreeMap<String, toml::Value>>,
}

/// Prints what the handlers in the pools say of their types.
pub(super) async fn from_handlers(only: Option<&str>, context: &Context) -> anyhow::Result<Exit> {
    let (described, problems) = context.effective.described_pools().await;
    if let Some(invalid) = Invalid::from_problems(problems) {
        return Err(Wrong(invalid.to_string()).into());
    }
    let mut pools = BTreeMap::new();
    for (name, line) in described {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let line = line.map_err(|why| Wrong(format!("the pool {name}: {why}")))?;
        let Said::Handlers(handlers) = serde_json::from_slice(&line).map_err(|error| {
            let hint = "its package may be too old to say what its types need";
            Wrong(format!(
                "the pool {name}: the last line of its program is no list of handlers ({error}): {hint}"
            ))
        })?;
        pools.insert(name, handlers);
    }
    if pools.is_empty() {
        return Err(Wrong(match only {
            Some(name) => format!("the configuration has no pool {name}"),
            None => "the configuration has no pool".to_owned(),
        })
        .into());
    }
    context.output.print(&pools, |pools| {
        let sections = pools.iter().flat_map(|(pool, handlers)| {
            handlers.types.iter().map(move |(job_type, options)| section(pool, job_type, options))
        });
        sections.collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}

/// The section of a type. A pool that is named after its type is that type's own, and has its program there already.
fn section(pool: &str, job_type: &JobType, options: &BTreeMap<String, toml::Value>) -> String {
    let mut lines = vec![format!("[types.{}]", toml::Value::from(job_type.as_str()))];
    if pool != job_type.as_str() {
        lines.push(format!("handler = {{ pool = {} }}", toml::Value::from(pool)));
    }
    lines.extend(options.iter().map(|(key, value)| format!("{key} = {value}")));
    lines.join("\n") + "\n"
}

/// Shows the values in effect.
pub(super) fn show(context: &Context) -> anyhow::Result<Exit> {
    let shown = context.effective.shown();
    context.output.print(&shown, |_| context.effective.toml().trim_end().to_owned())?;
    Ok(Exit::Done)
}
