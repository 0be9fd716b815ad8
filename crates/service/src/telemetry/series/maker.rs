//! Creates series: counters and gauges in the recorder, histograms outside it.

use std::cell::RefCell;
use std::sync::Arc;

use metrics::{Counter, Gauge, Key, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::super::catalogue::{self, Descriptor, Kind};
use super::super::histogram::{Histogram, line};

/// Creates series.
pub(in super::super) struct Maker<'a> {
    recorder: &'a PrometheusRecorder,
    rendered: RefCell<Rendered>,
}

/// The series that are not in the recorder.
#[derive(Default)]
pub(in super::super) struct Rendered(Vec<Family>);

/// The series of one histogram, each with the text of its labels between the braces.
struct Family {
    descriptor: Descriptor,
    series: Vec<(String, Arc<Histogram>)>,
}

const METADATA: Metadata<'static> = Metadata::new("streamfleet", Level::INFO, None);

impl<'a> Maker<'a> {
    /// Creates a maker for this recorder, and describes every metric to it.
    pub(in super::super) fn new(recorder: &'a PrometheusRecorder) -> Self {
        for Descriptor { name, kind, help, .. } in catalogue::metrics() {
            match kind {
                Kind::Counter => recorder.describe_counter((*name).into(), None, (*help).into()),
                Kind::Gauge => recorder.describe_gauge((*name).into(), None, (*help).into()),
                Kind::Histogram(_) => {}
            }
        }
        Self { recorder, rendered: RefCell::default() }
    }

    /// Creates a counter that starts at 0: otherwise the first increase would be missed.
    pub(in super::super) fn counter(&self, descriptor: &Descriptor, values: &[&str]) -> Counter {
        let counter = self.recorder.register_counter(&key(descriptor, values), &METADATA);
        counter.absolute(0);
        counter
    }

    pub(in super::super) fn gauge(&self, descriptor: &Descriptor, values: &[&str]) -> Gauge {
        let gauge = self.recorder.register_gauge(&key(descriptor, values), &METADATA);
        gauge.set(0.0);
        gauge
    }

    pub(super) fn histogram(&self, descriptor: &Descriptor, values: &[&str]) -> Arc<Histogram> {
        let Kind::Histogram(bounds) = descriptor.kind else {
            unreachable!("{} is no histogram", descriptor.name)
        };
        let histogram = Arc::new(Histogram::new(bounds));
        let labels = labels(descriptor, values).map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let series = (labels.collect::<Vec<_>>().join(","), Arc::clone(&histogram));
        let families = &mut self.rendered.borrow_mut().0;
        match families.iter_mut().find(|family| family.descriptor.name == descriptor.name) {
            Some(family) => family.series.push(series),
            None => families.push(Family { descriptor: *descriptor, series: vec![series] }),
        }
        histogram
    }

    /// Returns the series that the recorder does not render.
    pub(in super::super) fn finish(self) -> Rendered {
        self.rendered.into_inner()
    }
}

impl Rendered {
    /// Writes all series.
    pub(in super::super) fn write(&self, to: &mut String) {
        for Family { descriptor, series } in &self.0 {
            head(descriptor, to);
            for (labels, histogram) in series {
                histogram.write(descriptor.name, labels, to);
            }
            to.push('\n');
        }
    }
}

/// Writes the lines above a metric's series.
pub(in super::super) fn head(descriptor: &Descriptor, to: &mut String) {
    let Descriptor { name, kind, help, .. } = descriptor;
    line(to, format_args!("# HELP {name} {help}\n# TYPE {name} {}", kind.as_str()));
}

fn labels<'a>(descriptor: &'a Descriptor, values: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    debug_assert_eq!(descriptor.labels.len(), values.len(), "{}", descriptor.name);
    descriptor.labels.iter().map(|label| label.name).zip(values.iter().copied())
}

fn key(descriptor: &Descriptor, values: &[&str]) -> Key {
    let labels =
        labels(descriptor, values).map(|(name, value)| Label::new(name.to_owned(), value.to_owned()));
    Key::from_parts(descriptor.name, labels.collect::<Vec<_>>())
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
