//! docs/metrics.md is drawn from the catalogue.

use std::fmt::Write as _;
use std::path::Path;

use streamfleet::telemetry::{Aggregate, CATALOGUE, Descriptor, Group, Kind, Teller, Values};

/// Set, it has this test write the page in place of comparing it.
const REWRITE: &str = "STREAMFLEET_TEST_REWRITE";

const HEAD: &str = "\
# Metrics

What each worker tells at `/metrics`, drawn from the catalogue in `src/telemetry/catalogue`; `streamfleet metrics` lists the same, with
`--json` for programs. This page is not written by hand: `STREAMFLEET_TEST_REWRITE=1 cargo test --test it metrics::page` writes it.

- All series are there from the start of the process, as 0; none comes or goes later. Labels are closed sets: job ids, error texts and
  payloads are never labels.
- At most 200 pairs of queue and type have series of their own in one process; the types beyond share `_other`, and types without a
  handler `_unknown`.
- **Take** says how the values of all processes become one. `sum`: they add up; of counters and histograms, sum their rates. `max`: the
  greatest counts.
- What is marked **leader** is told by the one process that does the queue's chores, every `events.queue_length_every`; all others say 0. So
  take `max by (queue)`, never the sum: while the chores pass from one process to another, both may tell the same for a moment. Where
  no process leads, nobody knows, and the greatest is 0 too: `sum by (queue) (streamfleet_scheduler_leader)` tells that apart.
- Attempts and jobs are different things: a job that is retried twice begins three attempts. Of the outcomes, `succeeded`, `dead`, `expired`
  and `cancelled` end a job. What a person cancels before any worker has it is counted nowhere.
";

const TAIL: &str = "
## Worth an alert

- `streamfleet_bodies_lost_total` or `streamfleet_groups_recreated_total` grows: somebody deletes keys.
- `sum by (queue) (streamfleet_scheduler_leader)` is 0 for a minute: nobody does the chores.
- `max by (queue) (streamfleet_queue_latency_seconds) > max by (queue) (streamfleet_queue_latency_objective_seconds)`: jobs wait longer than
  they may.
- `streamfleet_jobs_finished_total{outcome=\"dead\"}` grows faster than the objective allows.
- `streamfleet_redis_errors_total{kind=\"configuration\"}` grows: a key of another type, or rights that are missing.
- `streamfleet_leases_lost_total` grows: workers freeze, or Redis is slow.
- `streamfleet_dead_jobs_evicted_total` grows: retention drops dead letters that nobody has looked at.
";

#[test]
fn the_page_of_the_metrics_is_what_the_catalogue_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let page = page();
    if std::env::var_os(REWRITE).is_some() {
        return std::fs::write(&path, page).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let same = found == page;
    assert!(same, "docs/metrics.md is out of date; run: {REWRITE}=1 cargo test --test it metrics::page");
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
    let Descriptor { name, kind, labels, help, told_by, aggregate } = metric;
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
    let leader = if *told_by == Teller::Leader { " (**leader**)" } else { "" };
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
