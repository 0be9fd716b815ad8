//! What Redis executed for a job, by command: the difference between two readings of `INFO commandstats`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::ways::Way;
use crate::output;

/// The command that runs a script. Redis counts what the script calls twice: under the names of those commands, and as
/// a part of this one.
const SCRIPT: &str = "evalsha";

/// The command that no script of a worker calls, although it takes much of the time.
const READ: &str = "xreadgroup";

/// What is less than this per job is left out: heartbeats, maintenance, and what `bench` itself asks.
const LEAST: f64 = 0.005;

/// What Redis has executed, by command.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct CommandStats(BTreeMap<String, Usage>);

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Usage {
    calls: f64,
    us: f64,
}

/// What one command costs a job.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Command {
    command: String,
    calls_per_job: f64,
    us_per_job: f64,
}

impl CommandStats {
    /// Reads the section `commandstats` of INFO. Lines that do not belong to it are skipped.
    pub(super) fn parse(info: &str) -> Self {
        let usage = |line: &str| {
            let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let number = |field: &str, key: &str| field.strip_prefix(key)?.trim().parse::<f64>().ok();
            let field = |key: &str| fields.split(',').find_map(|field| number(field, key));
            Some((name.to_owned(), Usage { calls: field("calls=")?, us: field("usec=")? }))
        };
        Self(info.lines().filter_map(usage).collect())
    }

    /// Returns what was executed between an earlier reading and this one.
    pub(super) fn since(&self, before: &Self) -> Self {
        let between = self.0.iter().map(|(name, now)| {
            let then = before.0.get(name).copied().unwrap_or_default();
            (name.clone(), Usage { calls: now.calls - then.calls, us: now.us - then.us })
        });
        Self(between.filter(|(_, usage)| usage.calls > 0.0).collect())
    }

    /// Adds what was executed in another round.
    pub(super) fn add(&mut self, other: &Self) {
        for (name, usage) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            sum.calls += usage.calls;
            sum.us += usage.us;
        }
    }

    /// Returns what this cost each of the jobs, the most expensive command first.
    pub(super) fn per_job(&self, jobs: usize) -> Vec<Command> {
        let jobs = jobs as f64;
        let others = self.0.iter().filter(|(name, _)| *name != SCRIPT && *name != READ);
        let called: f64 = others.map(|(_, usage)| usage.us).sum();
        let per_job = |(name, usage): (&String, &Usage)| {
            let us = if name == SCRIPT { (usage.us - called).max(0.0) } else { usage.us };
            Command { command: name.clone(), calls_per_job: usage.calls / jobs, us_per_job: us / jobs }
        };
        let mut commands: Vec<Command> = self.0.iter().map(per_job).collect();
        commands.retain(|command| command.calls_per_job.max(command.us_per_job) >= LEAST);
        commands.sort_by(|a, b| b.us_per_job.total_cmp(&a.us_per_job));
        commands
    }
}

/// Returns the table for people, and how to read it.
pub(super) fn table(explained: &BTreeMap<Way, Vec<Command>>) -> String {
    let mut table = output::table(&["kind", "command", "calls per job", "µs per job"]);
    for (way, commands) in explained {
        for (at, command) in commands.iter().enumerate() {
            table.add_row(command.row(if at == 0 { way.name() } else { String::new() }));
        }
    }
    format!(
        "what redis executed, as INFO commandstats counts it\n{table}\n\
         Commands that a script calls have rows of their own. The time of {SCRIPT} is what is left without them.\n\
         It is a lower bound: other commands that a process sent directly are subtracted too, except {READ}."
    )
}

impl Command {
    fn row(&self, way: String) -> [String; 4] {
        let (calls, us) = (format!("{:.3}", self.calls_per_job), format!("{:.2}", self.us_per_job));
        [way, self.command.clone(), calls, us]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# Commandstats\r\n\
        cmdstat_info:calls=2,usec=90,usec_per_call=45.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_xack:calls=10,usec=20,usec_per_call=2.00,rejected_calls=0,failed_calls=0\r\n";

    const AFTER: &str = "# Commandstats\r\n\
        cmdstat_client|setinfo:calls=4,usec=8,usec_per_call=2.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_evalsha:calls=2000,usec=30000,usec_per_call=15.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_hset:calls=2000,usec=4000,usec_per_call=2.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_info:calls=2,usec=90,usec_per_call=45.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_xack:calls=1010,usec=2020,usec_per_call=2.00,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_xreadgroup:calls=20,usec=5000,usec_per_call=250.00,rejected_calls=0,failed_calls=0\r\n";

    fn rows(stats: &CommandStats, jobs: usize) -> String {
        let rows = stats.per_job(jobs).into_iter().map(|command| command.row("retried".to_owned()).join(" "));
        rows.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_script_costs_what_is_left_without_the_commands_that_it_calls() {
        let stats = CommandStats::parse(AFTER).since(&CommandStats::parse(BEFORE));
        // Of 30,000 µs, 4000 are those of HSET, 2000 those of XACK and 8 those of CLIENT SETINFO.
        insta::assert_snapshot!(rows(&stats, 1000), @r"
        retried evalsha 2.000 23.99
        retried xreadgroup 0.020 5.00
        retried hset 2.000 4.00
        retried xack 1.000 2.00
        retried client|setinfo 0.004 0.01
        ");
    }

    #[test]
    fn rounds_are_added_and_rare_commands_are_left_out() {
        let mut stats = CommandStats::default();
        for _ in 0..2 {
            stats.add(&CommandStats::parse(AFTER).since(&CommandStats::parse(BEFORE)));
        }
        insta::assert_snapshot!(rows(&stats, 20_000), @r"
        retried evalsha 0.200 2.40
        retried xreadgroup 0.002 0.50
        retried hset 0.200 0.40
        retried xack 0.100 0.20
        ");
    }

    #[test]
    fn a_command_that_was_sent_directly_makes_no_script_cost_below_zero() {
        let stats = CommandStats::parse(
            "cmdstat_evalsha:calls=10,usec=10,usec_per_call=1.00\ncmdstat_xdel:calls=1,usec=99\nnonsense",
        );
        insta::assert_snapshot!(rows(&stats, 10), @r"
        retried xdel 0.100 9.90
        retried evalsha 1.000 0.00
        ");
    }
}
