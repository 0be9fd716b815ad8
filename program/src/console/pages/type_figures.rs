//! What the jobs of each type of a queue did in the last hour.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet::job::QueueName;
use streamfleet_engine::admin::{Distribution, TypeFigures, TypeStats};
use streamfleet_operations::stats::busiest;

use super::frame::{Frame, grouped};
use super::table::{Cell, Table};
use crate::console::link::Link;
use crate::stats::{per_minute, percentile_shown};

/// How far back the figures go.
const SINCE: Duration = Duration::from_secs(3600);

/// The most types of a page.
const MOST: usize = 20;

/// The table of a page, and how many types it lacks.
pub(super) struct LastHour {
    pub(super) table: Table,
    pub(super) more: Option<String>,
}

/// Reads what each type did, the busiest first. The rest of the page is worth seeing if it cannot be read.
pub(super) async fn last_hour(frame: &Frame, queue: &Queue) -> LastHour {
    match busiest(queue, SINCE).await {
        Ok(stats) => shown(frame, queue.name(), &stats),
        Err(error) => {
            tracing::warn!(queue = %queue.name(), %error, "the statistics of types cannot be read");
            let table = Table::new(frame, "queue.last_hour", &[]).or(frame.t("queue.no_figures"));
            LastHour { table, more: None }
        }
    }
}

fn shown(frame: &Frame, queue: &QueueName, stats: &TypeStats) -> LastHour {
    let columns = [
        ("column.type", "clip"),
        ("column.done", "number"),
        ("column.per_minute", "number"),
        ("column.failures", "number"),
        ("column.wait", "short"),
        ("column.run", "short"),
    ];
    let mut table = Table::new(frame, "queue.last_hour", &columns).or(frame.t("queue.idle"));
    let span = stats.now.since(stats.from);
    for figures in stats.types.iter().take(MOST) {
        table.add(row(frame, queue, figures, span));
    }
    let more = stats.types.len().saturating_sub(MOST) as u64;
    LastHour { table, more: (more > 0).then(|| frame.number_of("queue.more_types", more)) }
}

fn row(frame: &Frame, queue: &QueueName, figures: &TypeFigures, span: Duration) -> Vec<Cell> {
    let TypeFigures { job_type, done, failed, wait, run, .. } = figures;
    let name = match job_type {
        Some(name) => {
            let jobs = Link::to(&["jobs"]).with("queue", queue.as_str()).with("type", name.as_str());
            Cell::id(name.as_str(), &jobs)
        }
        None => Cell::text(frame.t("type.others")),
    };
    vec![
        name,
        Cell::number(*done),
        Cell::text(pace(per_minute(*done, span))),
        Cell::text(share(*failed, done.saturating_add(*failed))),
        Cell::text(percentiles(wait)),
        Cell::text(percentiles(run)),
    ]
}

/// The 50th and the 95th percentile.
fn percentiles(times: &Distribution) -> String {
    if times.count() == 0 {
        return "–".to_owned();
    }
    format!("{} / {}", percentile_shown(times, 0.5), percentile_shown(times, 0.95))
}

/// A number for people: `1,234`, `2.5`, `<0.1`.
fn pace(number: f64) -> String {
    match number {
        number if number <= 0.0 => "0".to_owned(),
        number if number < 0.1 => "<0.1".to_owned(),
        number if number < 9.95 => format!("{number:.1}"),
        // A float is exact enough for what people read.
        number => grouped(number.round() as u64),
    }
}

/// A part of a whole in percent; a dash if there is no whole.
fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { format!("{} %", pace(part as f64 / whole as f64 * 100.0)) }
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests_frame;
    use super::*;

    #[test]
    fn paces_and_shares_are_readable() {
        assert_eq!(
            [0.0, 0.01, 0.1, 2.45, 9.96, 1234.5].map(pace),
            ["0", "<0.1", "0.1", "2.5", "10", "1,235"]
        );
        assert_eq!(share(0, 0), "–");
        assert_eq!(
            [(0, 9), (1, 10_000), (1, 40), (1, 2), (3, 3)].map(|(part, whole)| share(part, whole)),
            ["0 %", "<0.1 %", "2.5 %", "50 %", "100 %"]
        );
    }

    #[test]
    fn each_type_leads_to_its_jobs_and_the_rest_is_counted() {
        let mut stats = TypeStats::default();
        for at in 0..MOST + 3 {
            let mut figures = TypeFigures::default();
            figures.job_type = Some(format!("type.t{at}a").parse().unwrap());
            figures.done = 30;
            figures.failed = 10;
            stats.types.push(figures);
        }
        let hour = shown(&tests_frame(), &"mail".parse().unwrap(), &stats);
        assert_eq!(hour.more.unwrap(), "3 further types are not shown");
        let html = hour.table.to_string();
        assert!(html.contains("href=\"/jobs?queue=mail&#38;type=type.t0a\""), "{html}");
        assert!(html.contains("25 %") && !html.contains(&format!("t{MOST}a")), "{html}");
    }
}
