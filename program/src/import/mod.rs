//! `streamfleet import`: takes over the tables or lists of another queue, as a mapping file describes them.

mod mapping_file;
mod progress;
mod report;

use std::error::Error as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use indicatif::ProgressBar;
use streamfleet::Broker;
use streamfleet::job::QueueName;
use streamfleet::schema::Schemas;
use streamfleet_engine::ForeignRedis;
use streamfleet_engine::admin::Noted;
use streamfleet_operations::Error;
use streamfleet_operations::import::{
    self, BacklogImport, Failure, Import, Mapping, Refusal, TableReport, Watch,
};
use streamfleet_operations::submit::Target;
use streamfleet_sql::foreign::Key;
use streamfleet_sql::{Database, Options};

use self::mapping_file::MappingFile;
use self::progress::Progress;
use self::report::Report;
use super::actor::{ActorArgs, told};
use super::exit::Exit;
use super::{Context, bulk, confirm, enqueue, output, tasks};

/// How `import` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet import shop.toml --dry-run
  streamfleet import shop.toml --yes --reason 'the old queue is drained'
  streamfleet import shop.toml --yes --rate 500/s --refused refused.ndjson
  streamfleet import redis.toml --dry-run    # lists of another system: see docs/import.md";

/// The arguments of `import`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The mapping file: the database or Redis, and what its tables or lists mean.
    file: PathBuf,
    /// Show what would become of the first 1,000 rows of each table or elements of each list, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    yes: bool,
    /// Begin with the first rows again, not where an earlier run has ended. Lists need it not.
    #[arg(long)]
    restart: bool,
    /// Send at most this many jobs per time, such as 500/s, 300/m or 10/h. Default: as many as possible.
    #[arg(long, value_parser = tasks::rate)]
    rate: Option<f64>,
    /// Add the rows that cannot be jobs to this file, with the reasons: one JSON object per line.
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
    #[command(flatten)]
    actor: ActorArgs,
}

/// Where the jobs come from.
enum Source {
    Tables(Database),
    Lists(ForeignRedis),
}

/// What all tables or lists need.
struct Scene<'a> {
    args: &'a Args,
    file: MappingFile,
    source: Source,
    broker: Broker,
    schemas: Schemas,
    context: &'a Context,
}

/// Shows the plan, asks, and imports one table or list after the other.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let file = MappingFile::read(&args.file)?;
    confirm::must_be_possible(args.yes || args.dry_run)?;
    let schemas = context.schemas()?;
    let Some(broker) = bulk::connect(context).await? else { return Ok(Exit::Failed) };
    let source = if file.lists.is_empty() {
        let options = Options { read_only: true, ..Options::default() };
        Source::Tables(streamfleet_sql::open(file.address(), &options).await?)
    } else {
        let redis = ForeignRedis::connect(file.redis()).await;
        Source::Lists(redis.context("cannot connect to the Redis that the mapping names")?)
    };
    let scene = Scene { args: &args, file, source, broker, schemas, context };
    let done = scene.run().await;
    if let Source::Tables(database) = scene.source {
        database.close().await;
    }
    done
}

impl Source {
    fn shown(&self) -> String {
        match self {
            Self::Tables(database) => database.to_string(),
            Self::Lists(redis) => redis.shown().to_owned(),
        }
    }
}

impl Scene<'_> {
    async fn run(&self) -> anyhow::Result<Exit> {
        let (args, shown) = (self.args, self.source.shown());
        let mut progress = match &self.source {
            Source::Tables(_) => Some(Progress::read(&args.file, shown.clone(), args.restart)?),
            Source::Lists(_) => None,
        };
        let started = Instant::now();
        let mut report = Report { dry_run: true, database: shown, tables: Vec::new(), seconds: 0.0 };
        for at in 0..self.count() {
            let plan = async { Ok(self.plan(at, progress.as_ref()).await?) };
            let Some(plan) = bulk::unless_stopped(self.context, plan).await? else { return Ok(Exit::Failed) };
            report.tables.push(plan);
        }
        report.seconds = started.elapsed().as_secs_f64();
        if args.dry_run {
            self.context.output.print(&report, report::plan)?;
            return Ok(exit(&report));
        }
        if !args.yes {
            output::print_stderr(&report::plan(&report));
            confirm::proceed("Proceed?", self.context).await?;
        }
        let started = Instant::now();
        report = Report { dry_run: false, tables: Vec::new(), ..report };
        self.all(&mut progress, &mut report.tables).await?;
        report.seconds = started.elapsed().as_secs_f64();
        self.context.output.print(&report, report::outcome)?;
        self.ended(report, progress.as_ref())
    }

    /// How many tables or lists the mapping has.
    fn count(&self) -> usize {
        self.file.tables.len() + self.file.lists.len()
    }

    async fn plan(&self, at: usize, progress: Option<&Progress>) -> Result<TableReport, Error> {
        match &self.source {
            Source::Tables(database) => import::plan(&self.table(database, at, progress)).await,
            Source::Lists(redis) => import::plan_backlog(&self.list(redis, at)).await,
        }
    }

    async fn import(&self, at: usize, watch: &mut Watcher<'_>) -> Noted<TableReport> {
        let (actor, stop) = (self.args.actor.actor(), &self.context.shutdown);
        match &self.source {
            Source::Tables(database) => {
                let table = self.table(database, at, watch.progress.as_deref());
                import::import(&table, &actor, stop, watch).await
            }
            Source::Lists(redis) => import::import_backlog(&self.list(redis, at), &actor, stop, watch).await,
        }
    }

    fn table<'a>(&'a self, database: &'a Database, at: usize, progress: Option<&Progress>) -> Import<'a> {
        let mapping = &self.file.tables[at];
        Import {
            database,
            mapping,
            target: self.target(mapping.queue()),
            schemas: &self.schemas,
            after: progress.and_then(|progress| progress.of(mapping.id())),
            rate: self.args.rate,
        }
    }

    fn list<'a>(&'a self, redis: &'a ForeignRedis, at: usize) -> BacklogImport<'a> {
        let mapping = &self.file.lists[at];
        let target = self.target(mapping.queue());
        BacklogImport { redis, mapping, target, schemas: &self.schemas, rate: self.args.rate }
    }

    fn target(&self, queue: &QueueName) -> Target {
        enqueue::target(self.broker.queue(queue.clone()), &self.context.effective)
    }

    /// Imports one table or list after the other, until one fails or a signal comes.
    async fn all(
        &self,
        progress: &mut Option<Progress>,
        reports: &mut Vec<TableReport>,
    ) -> anyhow::Result<()> {
        let refused = self.args.refused.as_ref().map(|path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.with_context(|| format!("cannot write {}", path.display()))
        });
        let refused = refused.transpose()?;
        let bar = output::progress(self.context.output, None, "jobs looked at");
        for at in 0..self.count() {
            let before = reports.iter().map(|report| report.looked).sum();
            let table = self.file.tables.get(at).map_or("", Mapping::id);
            let progress = progress.as_mut();
            let mut watch = Watcher { progress, table, refused: refused.as_ref(), bar: &bar, before };
            let imported = self.import(at, &mut watch).await;
            let report = told(imported);
            let is_over = report.failure.is_some() || report.interrupted;
            reports.push(report);
            if is_over {
                break;
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Says how to go on, if rows are left.
    fn ended(&self, mut report: Report, progress: Option<&Progress>) -> anyhow::Result<Exit> {
        let on = match progress {
            Some(progress) => format!(
                "the same command goes on behind the last rows that are done, which {} names",
                progress.shown()
            ),
            None => "the same command goes on with what is left there".to_owned(),
        };
        let failed =
            report.tables.iter_mut().find_map(|table| Some((table.table.clone(), table.failure.take()?)));
        if let Some((table, failure)) = failed {
            return Err(anyhow::Error::new(failure).context(format!("{table} is not done; {on}")));
        }
        if report.is_interrupted() {
            output::print_stderr(&format!("stopped: {on}"));
        }
        Ok(exit(&report))
    }
}

fn exit(report: &Report) -> Exit {
    match (report.is_interrupted(), report.refused()) {
        (true, _) => Exit::Unfinished,
        (false, 0) => Exit::Done,
        (false, _) => Exit::Unfit,
    }
}

/// Writes down what becomes of the rows of a table.
struct Watcher<'a> {
    /// Of tables.
    progress: Option<&'a mut Progress>,
    /// What the ids of the table's jobs begin with.
    table: &'a str,
    refused: Option<&'a File>,
    bar: &'a ProgressBar,
    /// How many rows of other tables were looked at.
    before: u64,
}

impl Watch for Watcher<'_> {
    fn passed(&mut self, key: &Key, looked: u64) -> io::Result<()> {
        self.bar.set_position(self.before + looked);
        self.progress.as_mut().map_or(Ok(()), |progress| progress.note(self.table, key))
    }

    fn refused(&mut self, refusal: &Refusal) -> io::Result<()> {
        let Some(mut file) = self.refused else { return Ok(()) };
        let line = output::json_line(refusal).map_err(io::Error::other)?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    fn waits(&mut self, failure: &Failure) {
        let cause = failure.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        let told = format!("{failure}{cause}; the import waits and tries again");
        self.bar.suspend(|| output::print_stderr(&told));
    }
}
