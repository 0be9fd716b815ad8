//! `streamfleet metrics`: lists the metrics that a worker exposes at `/metrics`, for dashboards and alerts. Connects to
//! nothing.

use serde::Serialize;
use streamfleet_service::telemetry::{CATALOGUE, Descriptor, Kind, Label, Values};

use super::exit::Exit;
use super::output::{self, Column, List, Output, View};

/// One metric, for JSON output.
#[derive(Serialize)]
struct Metric {
    name: &'static str,
    group: &'static str,
    kind: &'static str,
    unit: &'static str,
    labels: Vec<Shown>,
    /// The upper bounds of a histogram.
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    buckets: &'static [f64],
    reported_by: &'static str,
    aggregate: &'static str,
    help: &'static str,
}

/// One label, with its values if they are fixed.
#[derive(Serialize)]
struct Shown {
    name: &'static str,
    #[serde(skip_serializing_if = "<[&str]>::is_empty")]
    values: &'static [&'static str],
}

/// Lists the metrics.
pub(crate) fn run(output: Output) -> anyhow::Result<Exit> {
    let metrics: Vec<Metric> = CATALOGUE
        .iter()
        .flat_map(|group| group.metrics.iter().map(|descriptor| metric(group.title, descriptor)))
        .collect();
    let names = |list: &List<Metric>| list.items.iter().map(|metric| metric.name.to_owned()).collect();
    output.print_named(&List::from(metrics), names, |list| show(&list.items))?;
    Ok(Exit::Done)
}

fn metric(group: &'static str, descriptor: &Descriptor) -> Metric {
    let Descriptor { name, kind, labels, help, reported_by, aggregate } = *descriptor;
    let buckets = match kind {
        Kind::Histogram(buckets) => buckets,
        Kind::Counter | Kind::Gauge => &[],
    };
    let shown = |label: &Label| {
        let values = match label.values {
            Values::Closed(values) => values,
            Values::Given(_) => &[],
        };
        Shown { name: label.name, values }
    };
    Metric {
        name,
        group,
        kind: kind.as_str(),
        unit: descriptor.unit(),
        labels: labels.iter().map(shown).collect(),
        buckets,
        reported_by: reported_by.as_str(),
        aggregate: aggregate.as_str(),
        help,
    }
}

fn show(metrics: &[Metric]) -> View {
    let names = |labels: &[Shown]| labels.iter().map(|label| label.name).collect::<Vec<_>>().join(", ");
    let table = output::table_of(
        metrics,
        &[
            (Column::id("metric"), &|metric| metric.name.to_owned()),
            (Column::from("kind"), &|metric| metric.kind.to_owned()),
            (Column::wide("labels"), &|metric| names(&metric.labels)),
            (Column::wide("aggregate"), &|metric| metric.aggregate.to_owned()),
            (Column::wide("reported by"), &|metric| metric.reported_by.to_owned()),
            (Column::from("meaning"), &|metric| metric.help.to_owned()),
        ],
    );
    table.into()
}
