//! `streamfleet tasks`: work on many jobs or dead letters that goes on without the command that began it. Commands about many jobs
//! begin a task, and wait for it.

use streamfleet::job::QueueName;
use streamfleet::{Broker, Queue};
use streamfleet_engine::admin::TaskState;
use streamfleet_operations::Control;
use streamfleet_operations::tasks::{self, Order, TaskList, TaskReport};

use super::actor::{ActorArgs, told};
use super::exit::Exit;
use super::output::{self, Column, Listing, Repeat, View};
use super::times::Clock;
use super::{Context, queues};

/// The most tasks that are listed: more than a queue knows.
const MOST: u64 = 1000;

/// The arguments of `tasks`.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  streamfleet tasks list --queue mail\n  streamfleet tasks pause 0b5ff109 --reason 'the mail server is slow'"
)]
pub(crate) struct Args {
    /// The queue.
    #[arg(long, short, global = true, default_value = "default")]
    queue: QueueName,
    #[command(subcommand)]
    action: Action,
}

impl Args {
    /// Whether a signal stops it gracefully.
    pub(crate) fn serves(&self) -> bool {
        matches!(self.action, Action::Resume { .. } | Action::Undo { .. })
    }
}

/// What to do with tasks.
#[derive(clap::Subcommand)]
enum Action {
    /// List the tasks, newest first. Those that are over are listed for 30 days.
    #[command(
        after_help = "Examples:\n  streamfleet tasks list\n  streamfleet tasks list --queue mail --watch"
    )]
    List {
        #[command(flatten)]
        repeat: Repeat,
    },
    /// Show how a task fares.
    #[command(after_help = "Example:\n  streamfleet tasks show 0b5ff109 --watch")]
    Show {
        /// The task.
        id: String,
        #[command(flatten)]
        repeat: Repeat,
    },
    /// Pause a task. What it has changed stays as it is, and jobs that it has replayed go on.
    #[command(after_help = "Example:\n  streamfleet tasks pause 0b5ff109 --reason 'the mail server is slow'")]
    Pause(Change),
    /// Continue a task that was paused.
    #[command(after_help = "Example:\n  streamfleet tasks resume 0b5ff109")]
    Resume {
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        wait: WaitArgs,
    },
    /// Stop a task for good. What it has changed stays as it is, and jobs that it has replayed go on.
    #[command(after_help = "Example:\n  streamfleet tasks stop 0b5ff109 --by ann")]
    Stop(Change),
    /// Move back what a task has moved and what still waits or is due later: by another task. It must be over.
    #[command(after_help = "Example:\n  streamfleet tasks undo 0b5ff109 --reason 'the wrong queue'")]
    Undo {
        #[command(flatten)]
        change: Change,
        #[command(flatten)]
        wait: WaitArgs,
    },
}

/// The arguments of the commands that change a task.
#[derive(clap::Args)]
struct Change {
    /// The task.
    id: String,
    #[command(flatten)]
    actor: ActorArgs,
}

/// Whether a command waits for the task that it begins.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub(crate) struct WaitArgs {
    /// Do not wait for the end of the task: the fleet carries it out.
    #[arg(long)]
    pub(crate) detach: bool,
}

/// How a command about many jobs goes about them.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub(crate) struct TaskArgs {
    /// Change at most this many jobs per time, such as 50/s, 300/m or 10/h. Default: as many as possible.
    #[arg(long, value_parser = rate)]
    pub(crate) rate: Option<f64>,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

impl TaskArgs {
    /// Whether anything was said.
    pub(crate) fn are_given(&self) -> bool {
        self.rate.is_some() || self.wait.detach
    }
}

/// Reads a rate, and returns how many per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    const RULE: &str = "a rate must be a number per time, such as 50/s, 300/m or 10/h, from 1/h to 10000/s";
    let (count, unit) = text.split_once('/').ok_or(RULE)?;
    let seconds = match unit {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(RULE.to_owned()),
    };
    let rate = count.parse::<u32>().map_err(|_| RULE)?;
    let per_second = f64::from(rate) / seconds;
    if rate == 0 || per_second > 10_000.0 { Err(RULE.to_owned()) } else { Ok(per_second) }
}

/// Runs the subcommand.
pub(crate) async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let broker = context.broker().await?;
    let queue = broker.queue(args.queue);
    let (Change { id, actor }, order) = match args.action {
        Action::List { repeat } => {
            return repeat.run(context.output, async || list(&broker, &queue, context).await).await;
        }
        Action::Show { id, repeat } => {
            return repeat.run(context.output, async || show(&id, &queue, context).await).await;
        }
        Action::Pause(change) => (change, Order::Pause),
        Action::Resume { change: Change { id, actor }, wait } => {
            let resumed = tasks::change(&queue, &actor.actor(), &id, Order::Resume).await;
            return finish(&queue, told(resumed?), wait, context).await;
        }
        Action::Stop(change) => (change, Order::Stop),
        Action::Undo { change: Change { id, actor }, wait } => {
            let begun = told(tasks::undo(&queue, &actor.actor(), &id).await?);
            return finish(&queue, begun, wait, context).await;
        }
    };
    print(&told(tasks::change(&queue, &actor.actor(), &id, order).await?), context)
}

/// Waits for the end of a task that has begun or goes on, unless nobody wants to, and prints how it fares.
pub(crate) async fn finish(
    queue: &Queue,
    begun: TaskReport,
    args: WaitArgs,
    context: &Context,
) -> anyhow::Result<Exit> {
    if args.detach {
        return print(&begun, context);
    }
    let ended = wait(queue, &begun, context).await?;
    print(&ended, context)?;
    Ok(exit(&ended))
}

/// Carries a task on until nothing is left to do, with a progress bar. A signal leaves it running, and the command says so.
pub(crate) async fn wait(queue: &Queue, begun: &TaskReport, context: &Context) -> anyhow::Result<TaskReport> {
    if let Some(hint) = begun.hint.as_ref().filter(|_| begun.is_watched()) {
        output::print_stderr(hint);
    }
    let bar = output::progress(context.output, Some(begun.total), "looked at");
    let progress = |looked: u64| bar.set_position(looked);
    let control = Control { stop: &context.shutdown, progress: &progress };
    let followed = tasks::follow(queue, &begun.id, control).await;
    bar.finish_and_clear();
    let report = followed?;
    if let Some(remark) = remark(&report) {
        output::print_stderr(&remark);
    }
    Ok(report)
}

/// What to know of a task that is not done.
fn remark(report: &TaskReport) -> Option<String> {
    let TaskReport { id, queue, state, why, .. } = report;
    if report.is_settled() && !report.task.state.is_over() {
        return None;
    }
    match report.task.state {
        TaskState::Done => None,
        TaskState::Stopped | TaskState::Failed => Some(format!("the task {id} is {state}: {why}")),
        TaskState::Canary | TaskState::Running | TaskState::Paused => Some(format!(
            "the task {id} is {state}, and goes on without this command. To follow it: streamfleet tasks show {id} --queue {queue} \
             --watch; to end it: streamfleet tasks stop {id} --queue {queue}"
        )),
    }
}

/// The exit code of a command that waited for a task.
pub(crate) fn exit(report: &TaskReport) -> Exit {
    match (report.is_complete(), report.is_settled()) {
        (true, _) => Exit::Done,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Unfinished,
    }
}

/// Prints how a task fares.
pub(crate) fn print(report: &TaskReport, context: &Context) -> anyhow::Result<Exit> {
    context.output.print_named(report, names, |report| facts(report, &context.clock))?;
    Ok(Exit::Done)
}

fn names(report: &TaskReport) -> Vec<String> {
    vec![report.id.clone()]
}

async fn list(broker: &Broker, queue: &Queue, context: &Context) -> anyhow::Result<Listing> {
    let page = tasks::list(queue, None, MOST).await?;
    let unreadable = &page.facts.unreadable;
    let is_empty = page.items.is_empty() && unreadable.is_empty();
    for id in unreadable {
        output::print_stderr(&format!("this version cannot read the task {id}"));
    }
    let names = |page: &TaskList| page.items.iter().map(|report| report.id.clone()).collect();
    let show = |page: &TaskList| table(page, &context.clock);
    queues::listing((&page, is_empty), (broker, queue), context, (names, show)).await
}

async fn show(id: &str, queue: &Queue, context: &Context) -> anyhow::Result<Listing> {
    let report = tasks::show(queue, id).await?;
    Ok(Listing::new(context.output.rendered(&report, names, |report| facts(report, &context.clock))?))
}

fn table(page: &TaskList, clock: &Clock) -> View {
    if page.items.is_empty() {
        return format!("the queue {} has no tasks", page.facts.queue).into();
    }
    let filter = |report: &TaskReport| match &report.undoes {
        Some(undone) => format!("undoes {undone}"),
        None => report.filter.clone(),
    };
    let left = |report: &TaskReport| report.left.map_or_else(|| "-".to_owned(), |left| left.to_string());
    let table = output::table_of(
        &page.items,
        &[
            (Column::id("task"), &|report| report.id.clone()),
            (Column::from("kind"), &|report| report.kind.to_owned()),
            (Column::state("state"), &|report| report.state.to_owned()),
            (Column::from("begun"), &|report| clock.time(report.task.begun)),
            (Column::from("by"), &|report| report.who.clone()),
            (Column::from("looked at"), &|report| report.looked.to_string()),
            (Column::wide("left"), &left),
            (Column::from("done"), &|report| (report.done + report.requested).to_string()),
            (Column::from("refused"), &|report| report.refused.to_string()),
            (Column::from("filter"), &filter),
            (Column::from("reason"), &|report| report.reason.clone()),
            (Column::from("why"), &|report| report.why.clone()),
        ],
    );
    table.into()
}

fn facts(report: &TaskReport, clock: &Clock) -> View {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let what = match (&report.to, &report.undoes) {
        (Some(to), Some(undone)) => format!("move from {} to {to}, undoes the task {undone}", report.from),
        (Some(to), None) => format!("move to {to}"),
        (None, _) => report.kind.to_owned(),
    };
    output::facts(&[
        ("task", some(&report.id)),
        ("kind", Some(what)),
        ("state", some(report.state)),
        ("why", some(&report.why)),
        ("hint", report.hint.clone()),
        ("filter", some(&report.filter)),
        ("states", some(&report.states.join(", "))),
        ("begun", Some(format!("{} by {}", clock.time(report.task.begun), report.who))),
        ("reason", some(&report.reason)),
        ("rules", rules(report)),
        ("looked at", Some(format!("{} of {}", report.looked, report.total))),
        ("left", report.left.map(|left| left.to_string())),
        ("done", Some(done(report))),
        ("jobs", jobs(report)),
        ("error", report.error.clone()),
    ])
}

fn rules(report: &TaskReport) -> Option<String> {
    let replay = &report.replay;
    let rules = [
        report.rate.map(shown_rate),
        replay.canary.filter(|canary| *canary > 0).map(|canary| format!("canary {canary}")),
        replay.stop_at.map(|share| format!("stops at {share} % deaths")),
        replay.all_steps.filter(|all| *all).map(|_| "all steps".to_owned()),
    ];
    let rules: Vec<String> = rules.into_iter().flatten().collect();
    (!rules.is_empty()).then(|| rules.join(", "))
}

/// A rate, as [`rate`] reads it.
fn shown_rate(per_second: f64) -> String {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0)].map(|(unit, seconds)| (unit, per_second * seconds));
    let whole = units.into_iter().find(|(_, count)| *count >= 1.0 && (count - count.round()).abs() < 1e-6);
    whole.map_or_else(|| format!("{per_second:.4}/s"), |(unit, count)| format!("{count:.0}/{unit}"))
}

fn done(report: &TaskReport) -> String {
    let planned = report.planned.map_or_else(String::new, |planned| format!(" of {planned}"));
    let mut parts = vec![format!("{}{planned}", report.done)];
    if report.requested > 0 {
        parts.push(format!("{} running and asked to stop", report.requested));
    }
    parts.extend(report.kept.iter().map(|(why, count)| match report.replay.max_replays {
        None => format!("{count} left alone ({why})"),
        Some(most) => format!(
            "{count} left alone (gone meanwhile, or replayed by tasks {most} times, which --max-replays raises)"
        ),
    }));
    if let Some(gone) = report.replay.gone.filter(|gone| *gone > 0) {
        parts.push(format!("{gone} gone already"));
    }
    if report.failed > 0 {
        parts.push(format!("{} failed", report.failed));
    }
    if report.undecided > 0 {
        parts.push(format!("{} left alone, because the filter cannot read their payloads", report.undecided));
    }
    parts.join(", ")
}

/// How the jobs of a replay have ended.
fn jobs(report: &TaskReport) -> Option<String> {
    let replay = &report.replay;
    let running = replay.running?;
    let waits = report.task.is_read() && running > 0 && !report.task.state.is_over();
    let waits = if waits { "; it waits for these, and jobs removed by hand never end" } else { "" };
    Some(format!(
        "{} succeeded, {} died of the same error, {} of another, {} wait for a decision, {} cancelled, {running} still running{waits}",
        replay.succeeded?, replay.died?, replay.died_otherwise?, replay.needs_decision?, replay.cancelled?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_units() {
        assert_eq!([rate("50/s"), rate("300/m"), rate("36/h")], [Ok(50.0), Ok(5.0), Ok(0.01)]);
        for text in ["50/s", "1/m", "36/h", "10000/s"] {
            assert_eq!(rate(text).map(shown_rate), Ok(text.to_owned()));
        }
        for text in ["", "50", "0/s", "50/d", "-1/s", "1.5/s", "20000/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
