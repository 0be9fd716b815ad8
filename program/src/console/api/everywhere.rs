//! Lists over all queues that somebody may see, for those who do not know yet in which queue to look.

#![expect(unused_qualifications, reason = "the macro of the routes qualifies the names of the aliases")]

use std::borrow::Cow;
use std::cmp::Reverse;
use std::pin::pin;
use std::time::Duration;

use axum::Json;
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use streamfleet::job::{DeadReason, JobId};
use streamfleet::{Queue, Shutdown};
use streamfleet_engine::admin::Filter;
use streamfleet_operations::cron::{self, RecurringJob};
use streamfleet_operations::dead::{self, Group, Letter, Listing};
use streamfleet_operations::gates::{self, Gate};
use streamfleet_operations::stats::{self, Sample};
use streamfleet_operations::tasks::{self, TaskReport};
use streamfleet_operations::{Error, List, steps};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::routes;

use super::jobs::SEARCH_FOR;
use super::query::wrong;
use super::stats::SinceParams;
use super::work_limits::{Work, within};
use super::{Answer, Call, PageParams, Problem, QueryParams, QueuesParams, Routes, operations};

/// How many queues, or jobs, are read at once.
const AT_ONCE: usize = 8;

/// The most items of one queue.
const MOST: usize = 1000;

/// The most items that a page may leave out before it begins.
const MOST_BEFORE: usize = 10_000;

/// How much memory an item takes, about.
const ITEM_BYTES: usize = 1024;

/// The most samples of an answer, …
const MOST_SAMPLES: usize = 75_000;

/// … and how much memory each takes: as it is stored, as it is listed, and as text.
const SAMPLE_BYTES: usize = 1536;

/// The most jobs of one queue that wait for a decision.
const MOST_DECISIONS: u64 = 200;

pub(super) fn routes() -> Routes {
    Routes::default()
        .operation(&operations::DEAD_GROUPS, routes!(list_all_groups))
        .operation(&operations::STEPS, routes!(list_decisions))
        .operation(&operations::TASKS_LIST, routes!(list_all_tasks))
        .operation(&operations::GATES_LIST, routes!(list_all_gates))
        .operation(&operations::CRON_LIST, routes!(list_all_recurring))
        .operation(&operations::STATS, routes!(list_all_samples))
}

/// Which queues a list is about, and which page of it.
type Asked = (QueuesParams, PageParams);

/// A page of a list over several queues.
#[derive(Serialize)]
#[serde(transparent)]
struct Everywhere<T: Serialize>(List<T, EverywhereFacts>);

/// What is known about a list over several queues.
#[derive(Serialize, utoipa::ToSchema)]
struct EverywhereFacts {
    /// The queues that could not be read, and why.
    unread: Vec<String>,
}

/// OpenAPI describes it as any list. Only the name differs from that of a list of one queue.
impl<T: Serialize + ToSchema> PartialSchema for Everywhere<T> {
    fn schema() -> RefOr<Schema> {
        List::<T, EverywhereFacts>::schema()
    }
}

impl<T: Serialize + ToSchema> ToSchema for Everywhere<T> {
    fn name() -> Cow<'static, str> {
        format!("Every{}List", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        List::<T, EverywhereFacts>::schemas(schemas);
    }
}

/// Lists the items of several queues together. A queue that cannot be read does not hide the others. `keep` leaves the items that are
/// needed, whenever those of a queue were added.
async fn gather<T: Serialize, R: Future<Output = Result<Vec<T>, Error>>>(
    queues: Vec<Queue>,
    read: impl Fn(Queue) -> R,
    keep: impl Fn(&mut Vec<T>),
) -> Everywhere<T> {
    let reading = queues.into_iter().map(|queue| {
        let (name, items) = (queue.name().clone(), read(queue));
        async move { (name, items.await) }
    });
    let reading: Vec<_> = reading.collect();
    let mut reading = pin!(stream::iter(reading).buffered(AT_ONCE));
    let (mut items, mut unread) = (Vec::new(), Vec::new());
    while let Some((name, read)) = reading.next().await {
        match read {
            Ok(found) => items.extend(found),
            Err(error) => unread.push(format!("{name}: {error}")),
        }
        keep(&mut items);
    }
    Everywhere(List { items, next: None, facts: EverywhereFacts { unread }, former: None })
}

/// Answers with a page of the items of several queues, when it is the turn of this request. The page takes memory for the items that
/// are kept, and for those of the queues that are read at once.
async fn page<T: Serialize, R: Future<Output = Result<Vec<T>, Error>>>(
    call: &Call,
    (of, asked): &Asked,
    read: impl Fn(Queue) -> R,
    sort: impl Fn(&mut Vec<T>),
) -> Answer {
    let window = Window::of(asked)?;
    let _place = call.app.work_limits.overview().await?;
    let queues = queues(call, of).await?;
    let most = (queues.len() * MOST).min(window.end() + AT_ONCE * MOST);
    call.app.work_limits.hold(most * ITEM_BYTES)?;
    let keep = |items: &mut Vec<T>| {
        sort(items);
        items.truncate(window.end());
    };
    call.answer(&window.of_all(gather(queues, read, keep).await))
}

/// Which items of a list are a page.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: usize,
    limit: usize,
}

impl Window {
    /// The page that a request asks for.
    fn of(asked: &PageParams) -> Result<Self, Problem> {
        let from = asked.after::<usize>()?.unwrap_or(0);
        if from > MOST_BEFORE {
            let why = format!("a page begins after at most {MOST_BEFORE} items: name fewer queues");
            return Err(wrong("after", why));
        }
        Ok(Self { from, limit: usize::try_from(asked.limit()).unwrap_or(usize::MAX) })
    }

    /// How many items tell what the page has, and whether it is the last one.
    fn end(self) -> usize {
        self.from.saturating_add(self.limit).saturating_add(1)
    }

    /// Leaves the items of the page. Returns where the next page begins.
    fn cut<T>(self, items: &mut Vec<T>) -> Option<String> {
        let from = self.from.min(items.len());
        let next = (items.len() - from > self.limit).then(|| (from + self.limit).to_string());
        items.drain(..from);
        items.truncate(self.limit);
        next
    }

    /// The page of a list that has the items up to its end.
    fn of_all<T: Serialize>(self, mut all: Everywhere<T>) -> Everywhere<T> {
        all.0.next = self.cut(&mut all.0.items);
        all
    }
}

/// The queues that a list is about.
async fn queues(call: &Call, of: &QueuesParams) -> Result<Vec<Queue>, Problem> {
    Ok(of.visible(call).await?.into_iter().map(|name| call.app.queue(name)).collect())
}

/// A group of dead letters, with its queue.
#[derive(Serialize, utoipa::ToSchema)]
struct QueueDeadGroup {
    queue: String,
    #[serde(flatten)]
    group: Group,
}

type AllGroups = Everywhere<QueueDeadGroup>;

/// Counts the dead letters of all queues by what killed their jobs, the largest groups first.
///
/// At most the 1000 largest groups of each queue are listed.
#[utoipa::path(get, path = "/api/v1/dead/groups", tag = "dead letters", params(QueuesParams, PageParams),
    responses((status = 200, description = "A page of groups", body = AllGroups)))]
async fn list_all_groups(call: Call, QueryParams(asked): QueryParams<Asked>) -> Answer {
    let largest_first = |items: &mut Vec<QueueDeadGroup>| {
        items.sort_by_key(|item| Reverse((item.group.count, item.group.last_ms)));
    };
    page(&call, &asked, groups, largest_first).await
}

async fn groups(queue: Queue) -> Result<Vec<QueueDeadGroup>, Error> {
    let groups = dead::groups(&queue, MOST as u64).await?.items.into_iter();
    Ok(groups.map(|group| QueueDeadGroup { queue: queue.name().to_string(), group }).collect())
}

/// A job that waits for a decision about one of its steps.
#[derive(Serialize, utoipa::ToSchema)]
struct WaitingDecision {
    queue: String,
    #[serde(flatten)]
    letter: Letter,
    /// The steps that wait.
    steps: Vec<String>,
}

type Decisions = Everywhere<WaitingDecision>;

/// Lists the dead jobs with a step that must not run twice, and whose outcome nobody knows, the oldest first.
///
/// At most the 200 newest of each queue are listed.
#[utoipa::path(get, path = "/api/v1/decisions", tag = "dead letters", params(QueuesParams, PageParams),
    responses((status = 200, description = "A page of jobs", body = Decisions)))]
async fn list_decisions(call: Call, QueryParams((of, asked)): QueryParams<Asked>) -> Answer {
    let window = Window::of(&asked)?;
    let _permit = call.app.work_limits.begin(Work::Search)?;
    let stop = Shutdown::new();
    let keep = |items: &mut Vec<WaitingDecision>| {
        items.sort_by_key(|item| item.letter.died_ms);
        items.truncate(window.end());
    };
    let work = gather(queues(&call, &of).await?, |queue| decisions(queue, stop.clone()), keep);
    let found = within(SEARCH_FOR, (&stop, &call.app.stopping), work).await;
    call.answer(&window.of_all(found))
}

/// The jobs of a queue that wait.
async fn decisions(queue: Queue, stop: Shutdown) -> Result<Vec<WaitingDecision>, Error> {
    let groups = queue.dead_letters().groups().await.map_err(Error::redis("failed to read the groups"))?;
    let waits = groups.groups.iter().any(|group| group.reason == Some(DeadReason::NeedsDecision));
    let is_counted = groups.uncounted() == 0 && groups.groups.iter().all(|group| group.fingerprint.is_some());
    if !waits && is_counted {
        return Ok(Vec::new());
    }
    let filter = Filter::new().reason(DeadReason::NeedsDecision);
    let filter = filter.map_err(|error| Error::invalid("reason", error.to_string()))?;
    let wanted = Listing { filter, limit: MOST_DECISIONS, after: None, oldest_first: false, task: None };
    let (page, _) = dead::list(&queue, &wanted, &stop).await?;
    let looking: Vec<_> = page.items.into_iter().map(|letter| undecided(&queue, letter)).collect();
    Ok(stream::iter(looking).buffered(AT_ONCE).collect().await)
}

/// A job with the steps that wait. Those that cannot be read are not named.
async fn undecided(queue: &Queue, letter: Letter) -> WaitingDecision {
    let steps = match letter.id.parse::<JobId>() {
        Ok(id) => steps::list(queue, &id).await.map(|steps| steps.undecided).unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    WaitingDecision { queue: queue.name().to_string(), letter, steps }
}

type AllTasks = Everywhere<TaskReport>;

/// Lists the tasks of all queues, newest first. Those that are over are listed for 30 days.
#[utoipa::path(get, path = "/api/v1/tasks", tag = "tasks", params(QueuesParams, PageParams),
    responses((status = 200, description = "A page of tasks", body = AllTasks)))]
async fn list_all_tasks(call: Call, QueryParams(asked): QueryParams<Asked>) -> Answer {
    let least = Window::of(&asked.1)?.end().min(MOST);
    let newest_first = |items: &mut Vec<TaskReport>| items.sort_by_key(|task| Reverse(task.created_ms));
    page(&call, &asked, |queue| newest_tasks(queue, least), newest_first).await
}

/// The newest tasks of a queue, at least this many if there are. Those that cannot be read are passed over.
async fn newest_tasks(queue: Queue, least: usize) -> Result<Vec<TaskReport>, Error> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = tasks::list(&queue, after.as_ref(), least as u64).await?;
        found.extend(page.items);
        after = page.next.and_then(|next| next.parse().ok());
        if after.is_none() || found.len() >= least {
            return Ok(found);
        }
    }
}

/// A gate, with its queue.
#[derive(Serialize, utoipa::ToSchema)]
struct QueueGate {
    queue: String,
    #[serde(flatten)]
    gate: Gate,
}

type AllGates = Everywhere<QueueGate>;

/// Lists the gates of all queues that have a rule, queue by queue, with the jobs that hold a place or wait.
#[utoipa::path(get, path = "/api/v1/gates", tag = "gates", params(QueuesParams, PageParams),
    responses((status = 200, description = "A page of gates", body = AllGates)))]
async fn list_all_gates(call: Call, QueryParams(asked): QueryParams<Asked>) -> Answer {
    page(&call, &asked, gates_of, |_| ()).await
}

async fn gates_of(queue: Queue) -> Result<Vec<QueueGate>, Error> {
    let (page, _) = gates::list(&queue).await?;
    let named = |gate| QueueGate { queue: queue.name().to_string(), gate };
    Ok(page.items.into_iter().map(named).collect())
}

type AllRecurring = Everywhere<RecurringJob>;

/// Lists the recurring jobs of all queues, queue by queue, each with its next three ticks.
#[utoipa::path(get, path = "/api/v1/cron", tag = "recurring jobs", params(QueuesParams, PageParams),
    responses((status = 200, description = "A page of recurring jobs", body = AllRecurring)))]
async fn list_all_recurring(call: Call, QueryParams(asked): QueryParams<Asked>) -> Answer {
    let read = |queue: Queue| async move { cron::list(&queue, 3).await.map(|page| page.items) };
    page(&call, &asked, read, |_| ()).await
}

/// The samples of one queue, oldest first.
#[derive(Serialize, utoipa::ToSchema)]
struct QueueSamples {
    queue: String,
    samples: Vec<Sample>,
}

type AllSamples = Everywhere<QueueSamples>;

/// Lists the samples of several queues, for charts.
///
/// An answer has at most 75,000 samples, one a minute: those of 24 hours of 50 queues, say.
#[utoipa::path(get, path = "/api/v1/stats", tag = "queues", params(QueuesParams, SinceParams, PageParams),
    responses((status = 200, description = "A page of queues with their samples", body = AllSamples)))]
async fn list_all_samples(
    call: Call,
    QueryParams((of, time, asked)): QueryParams<(QueuesParams, SinceParams, PageParams)>,
) -> Result<Json<AllSamples>, Problem> {
    let since = time.since;
    let window = Window::of(&asked)?;
    let _place = call.app.work_limits.overview().await?;
    let mut queues = queues(&call, &of).await?;
    let next = window.cut(&mut queues);
    call.app.work_limits.hold(samples_of(queues.len(), since)? * SAMPLE_BYTES)?;
    let mut found = gather(queues, |queue| samples(queue, since), |_| ()).await;
    found.0.next = next;
    // Figures hide nothing, and take much less memory than as values.
    Ok(Json(found))
}

async fn samples(queue: Queue, since: Duration) -> Result<Vec<QueueSamples>, Error> {
    let samples = stats::samples(&queue, since).await?.items;
    Ok(vec![QueueSamples { queue: queue.name().to_string(), samples }])
}

/// Returns how many samples these queues have of this time at most: one per queue and minute.
fn samples_of(queues: usize, since: Duration) -> Result<usize, Problem> {
    let each = usize::try_from(since.as_secs() / 60).unwrap_or(usize::MAX).saturating_add(1);
    let samples = queues.saturating_mul(each);
    if samples > MOST_SAMPLES {
        let why = format!(
            "{queues} queues have up to {samples} samples of this time, and an answer has at most {MOST_SAMPLES}: ask for fewer queues, or \
             for a shorter time"
        );
        return Err(wrong("limit", why));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_same_if_only_the_items_up_to_its_end_are_kept() {
        let all: Vec<u32> = (0..10).collect();
        for (from, limit, next) in [(0, 3, Some("3")), (6, 3, Some("9")), (7, 3, None), (12, 3, None)] {
            let window = Window { from, limit };
            let (mut whole, mut kept) = (all.clone(), all.clone());
            kept.truncate(window.end());
            assert_eq!(window.cut(&mut kept).as_deref(), next);
            window.cut(&mut whole);
            assert_eq!((&kept, kept.len()), (&whole, 10_usize.saturating_sub(from).min(limit)));
        }
    }

    #[test]
    fn the_samples_of_an_answer_are_bounded() {
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(samples_of(50, day).ok(), Some(72_050));
        assert!(samples_of(53, day).is_err());
        assert!(samples_of(500, Duration::from_secs(3600)).is_ok());
    }
}
