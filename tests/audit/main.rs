//! The audit as a program: `make audit ARGS="--seed 1 --jobs 100000 --minutes 10"`. See docs/audit.md.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "this is a program of the tests"
)]

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use audit::report::grouped;
use audit::worker::run_if_launched;
use audit::{Dose, Options, Progress};
use clap::Parser;
use harness::process::SABOTAGE;

/// How often a line is printed if stderr is not a terminal, in seconds.
const EVERY: u64 = 10;

/// Submits jobs of every kind while workers, Redis and the network suffer faults, and checks every promise.
///
/// The audit starts its own Redis and workers, and needs only `redis-server` on the PATH. Exit code 0: every promise held. 1: a
/// rule is broken. The same seed produces the same jobs and the same plan of faults; the machine's timing differs.
#[derive(Parser)]
#[command(name = "audit", max_term_width = 110)]
struct Args {
    /// The seed that determines jobs and faults. Default: a random one, which the report shows.
    #[arg(long)]
    seed: Option<u64>,
    /// How many jobs to submit.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..))]
    jobs: u64,
    /// The time over which jobs and faults are spread. The audit continues until all jobs are submitted and have ended.
    #[arg(long, default_value_t = 0.5, value_parser = minutes)]
    minutes: f64,
    /// How many worker processes to start.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// The lease of the workers, in seconds.
    #[arg(long, default_value_t = 2.0, value_parser = lease)]
    lease: f64,
    /// How often a worker is killed. As for all faults, the default depends on the time: about one fault every 1.5 seconds in total.
    #[arg(long)]
    kills: Option<usize>,
    /// How often a worker is frozen, for up to two leases.
    #[arg(long)]
    freezes: Option<usize>,
    /// How often a worker is asked to stop.
    #[arg(long)]
    stops: Option<usize>,
    /// How often Redis is killed and restarted.
    #[arg(long)]
    redis_kills: Option<usize>,
    /// How often Redis is frozen, for up to two leases.
    #[arg(long)]
    redis_freezes: Option<usize>,
    /// How often the server's clock is set, by up to ten seconds. Needs a C compiler.
    #[arg(long)]
    clock_steps: Option<usize>,
    /// Cause only the faults that are asked for.
    #[arg(long)]
    calm: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    runner: Runner,
}

/// The arguments that `cargo test` passes to every test program. A filter that names other tests skips the audit.
#[derive(clap::Args)]
struct Runner {
    #[arg(hide = true)]
    filters: Vec<String>,
    #[arg(long, hide = true)]
    skip: Vec<String>,
    #[arg(long, hide = true)]
    test_threads: Option<usize>,
    #[arg(long, hide = true)]
    exact: bool,
    #[arg(long, hide = true)]
    nocapture: bool,
    #[arg(long, short, hide = true)]
    quiet: bool,
    #[arg(long, hide = true)]
    list: bool,
    #[arg(long, hide = true)]
    ignored: bool,
    #[arg(long, hide = true)]
    format: Option<String>,
}

impl Runner {
    fn is_about_others(&self) -> bool {
        let named = |words: &[String]| words.iter().any(|word| "audit".contains(word.as_str()));
        self.list || self.ignored || !self.filters.is_empty() && !named(&self.filters) || named(&self.skip)
    }
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=1440.0).contains(&minutes) {
        Ok(minutes)
    } else {
        Err("must be between 0.1 and 1440".to_owned())
    }
}

fn lease(text: &str) -> Result<f64, String> {
    let seconds = text.parse().map_err(|_| "not a number".to_owned())?;
    if (1.0..=60.0).contains(&seconds) { Ok(seconds) } else { Err("must be between 1 and 60".to_owned()) }
}

impl Args {
    fn options(&self) -> Options {
        let length = Duration::from_secs_f64(self.minutes * 60.0);
        let usual = if self.calm { Dose::NONE } else { Dose::over(length) };
        let dose = Dose {
            kills: self.kills.unwrap_or(usual.kills),
            freezes: self.freezes.unwrap_or(usual.freezes),
            stops: self.stops.unwrap_or(usual.stops),
            redis_kills: self.redis_kills.unwrap_or(usual.redis_kills),
            redis_freezes: self.redis_freezes.unwrap_or(usual.redis_freezes),
            clock_steps: self.clock_steps.unwrap_or(usual.clock_steps),
            ..usual
        };
        Options {
            seed: self.seed.unwrap_or_else(|| rand::random_range(0..1_000_000)),
            jobs: self.jobs,
            length,
            workers: usize::from(self.workers),
            lease: Duration::from_secs_f64(self.lease),
            dose,
            env: Vec::new(),
        }
    }
}

fn main() -> ExitCode {
    if run_if_launched() {
        return ExitCode::SUCCESS;
    }
    let args = Args::parse();
    if args.runner.is_about_others() {
        return ExitCode::SUCCESS;
    }
    let wants_a_bug = std::env::var_os(SABOTAGE).is_some_and(|bug| !bug.is_empty());
    if wants_a_bug && !cfg!(all(feature = "sabotage", debug_assertions)) {
        eprintln!(
            "audit: {SABOTAGE} is set, but this build contains no deliberate bugs: only debug builds with the feature sabotage do"
        );
        return ExitCode::from(2);
    }
    let options = args.options();
    eprintln!(
        "audit: seed {}, {} jobs over {:.1} minutes",
        options.seed,
        grouped(options.jobs),
        args.minutes
    );
    let is_terminal = std::io::stderr().is_terminal();
    let report = audit::run(&options, |progress| tell(progress, is_terminal));
    if is_terminal {
        eprintln!();
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report).unwrap());
    } else {
        print!("{report}");
    }
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Shows the progress: on a terminal one line that is rewritten, otherwise a line every ten seconds.
fn tell(progress: &Progress, is_terminal: bool) {
    if is_terminal {
        eprint!("\r\x1b[K{progress}");
    } else if progress.elapsed.as_secs().is_multiple_of(EVERY) {
        eprintln!("{progress}");
    }
    std::io::stderr().flush().unwrap();
}
