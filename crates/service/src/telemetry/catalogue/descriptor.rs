//! What is known about a metric before it has a value.

use super::label::Label;

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descriptor {
    /// Its name, with the unit at the end.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [Label],
    /// What it means, in one sentence.
    pub help: &'static str,
    /// Which processes report it.
    pub reported_by: ReportedBy,
    /// How to combine the values of all processes.
    pub aggregate: Aggregate,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Observations, counted in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

variants! {
    /// Which processes report a metric.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ReportedBy {
        /// Every process, about itself.
        Process = "process",
        /// The leader of the queue; the others report 0.
        Leader = "leader",
    }
}

variants! {
    /// How to combine the values of all processes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Aggregate {
        /// Add them up. For counters and histograms, add up their rates.
        Sum = "sum",
        /// Take the largest.
        Max = "max",
    }
}

impl Descriptor {
    pub(super) const fn counter(name: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(name, Kind::Counter, labels, help)
    }

    pub(super) const fn gauge(name: &'static str, labels: &'static [Label], help: &'static str) -> Self {
        Self::new(name, Kind::Gauge, labels, help)
    }

    pub(super) const fn histogram(
        name: &'static str,
        buckets: &'static [f64],
        labels: &'static [Label],
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Histogram(buckets), labels, help)
    }

    const fn new(name: &'static str, kind: Kind, labels: &'static [Label], help: &'static str) -> Self {
        Self { name, kind, labels, help, reported_by: ReportedBy::Process, aggregate: Aggregate::Sum }
    }

    /// Returns the same metric, combined by taking the largest value.
    pub(super) const fn max(self) -> Self {
        Self { aggregate: Aggregate::Max, ..self }
    }

    /// Returns the same metric, reported by the leader. Its gauges are 0 in other processes, so the largest value is
    /// taken.
    pub(super) const fn of_leader(self) -> Self {
        let aggregate = match self.kind {
            Kind::Gauge => Aggregate::Max,
            Kind::Counter | Kind::Histogram(_) => self.aggregate,
        };
        Self { reported_by: ReportedBy::Leader, aggregate, ..self }
    }

    /// Returns the unit that the name ends with, or an empty string for a plain number.
    pub fn unit(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        let last = name.rsplit('_').next().unwrap_or_default();
        if ["seconds", "bytes", "ratio"].contains(&last) { last } else { "" }
    }
}

impl Kind {
    /// Returns its name in the exposition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}
