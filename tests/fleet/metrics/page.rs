//! docs/metrics.md is generated from the catalogue.

use std::fmt::Write as _;
use std::path::Path;

use streamfleet_service::telemetry::{Aggregate, CATALOGUE, Descriptor, Group, Kind, ReportedBy, Values};

/// If this variable is set, the test writes the page instead of comparing it.
const REWRITE: &str = "STREAMFLEET_TEST_REWRITE";

const HEAD: &str = "\
# Metrics

This page lists the metrics that each worker serves at `/metrics`. It is generated from the catalogue in `crates/service/src/telemetry/catalogue`;
`STREAMFLEET_TEST_REWRITE=1 cargo test --test fleet metrics::page` writes it. `streamfleet metrics` lists the same metrics, with `--json` for programs.

- A process can also [push](otlp-metrics.md) them to an OpenTelemetry collector.
- All series exist from the start of the process, with the value 0. None appears or disappears later. Labels are closed sets: job ids, error texts and
  payloads are never labels.
- Only a process with the section `[history]` or `[outbox]` has the series of that section.
- In one process, at most 200 pairs of queue and type have their own series. Further types share `_other`, and types without a
  handler share `_unknown`.
- The **take** column shows how to combine the values of all processes. `sum`: add them up; for counters and histograms, sum their rates. `max`: use
  the greatest value.
- The queue's leader (the one process that does the queue's maintenance) reports the metrics marked **leader**, every `events.queue_length_every`; all other
  processes report 0. So use `max by (queue)`, never the sum: while the leadership passes from one process to another, both may briefly report the same value. If
  there is no leader, the value is unknown, and the maximum is 0 too; `sum by (queue) (streamfleet_scheduler_leader)` shows the difference.
- Attempts and jobs are different things: a job that is retried twice begins three attempts. Of the outcomes, `succeeded`, `dead`, `expired`
  and `cancelled` end a job. A job that a person cancels before any worker has it is not counted anywhere.
";

const TAIL: &str = "
## Worth an alert

- `streamfleet_bodies_lost_total` or `streamfleet_groups_recreated_total` grows: somebody deletes keys.
- `streamfleet_orphans_reclaimed_total` grows: somebody acknowledges entries by hand, or Redis refuses `XDEL`.
- `sum by (queue) (streamfleet_scheduler_leader)` is 0 for a minute: the queue has no leader.
- `max by (queue) (streamfleet_queue_latency_seconds) > max by (queue) (streamfleet_queue_latency_objective_seconds)`: jobs wait longer than
  the objective allows.
- `streamfleet_jobs_finished_total{outcome=\"dead\"}` grows faster than the objective allows.
- `streamfleet_redis_errors_total{kind=\"configuration\"}` grows: a key has the wrong type, or permissions are missing.
- `streamfleet_leases_lost_total` grows: workers freeze, or Redis is slow.
- `streamfleet_dead_jobs_evicted_total` grows: retention drops dead letters that nobody has inspected.
- `streamfleet_campaigns_stopped_total` grows: a campaign stopped itself, because its jobs died again.
- `streamfleet_dead_archive_failures_total` grows: the archive cannot be written, so dead letters stay although retention would drop them.
- `max by (queue) (streamfleet_history_lost_ends)` is not 0: the journal was full, and the history lacks ends of jobs.
- `max(streamfleet_outbox_refused_rows)` is not 0: rows of the outbox can never be jobs until somebody repairs them.
";

#[test]
fn the_metrics_page_matches_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let page = page();
    if std::env::var_os(REWRITE).is_some() {
        return std::fs::write(&path, page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let same = found == page;
    assert!(same, "docs/metrics.md is out of date; run: {REWRITE}=1 cargo test --test fleet metrics::page");
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for Group { title, metrics } in CATALOGUE {
        writeln!(page, "\n## {title}\n\n| metric | kind | labels | take | what |\n|---|---|---|---|---|")
            .unwrap();
        for metric in *metrics {
            page.push_str(&row(metric));
        }
    }
    page.push_str(&buckets());
    page.push_str(TAIL);
    page
}

fn row(metric: &Descriptor) -> String {
    let Descriptor { name, kind, labels, help, reported_by, aggregate } = metric;
    let labels: Vec<_> = labels
        .iter()
        .map(|label| match label.values {
            Values::Closed(values) if values.len() <= 10 => {
                let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
                format!("{}: {}", label.name, values.join(" "))
            }
            Values::Closed(_) | Values::Given(_) => label.name.to_owned(),
        })
        .collect();
    let take = match aggregate {
        Aggregate::Sum => "sum",
        Aggregate::Max => "max",
    };
    let leader = if *reported_by == ReportedBy::Leader { " (**leader**)" } else { "" };
    let help = help.trim_end_matches('.');
    format!("| `{name}` | {} | {} | {take}{leader} | {help} |\n", kind.as_str(), labels.join(", "))
}

fn buckets() -> String {
    let mut text = "\n## Buckets and long labels\n\n".to_owned();
    let all = || CATALOGUE.iter().flat_map(|group| group.metrics);
    for metric in all() {
        if let Kind::Histogram(bounds) = metric.kind {
            let bounds: Vec<_> = bounds.iter().map(f64::to_string).collect();
            writeln!(text, "- `{}`: {}", metric.name, bounds.join(", ")).unwrap();
        }
    }
    let long = all().flat_map(|metric| metric.labels.iter().map(move |label| (metric.name, label)));
    for (name, label) in long {
        if let Values::Closed(values) = label.values
            && values.len() > 10
        {
            writeln!(text, "- the `{}` of `{name}`: {}", label.name, values.join(", ")).unwrap();
        }
    }
    text
}
