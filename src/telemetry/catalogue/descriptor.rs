//! What is known of a metric before it has a value.

use super::label::Label;

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descriptor {
    /// Its name, with the unit at the end.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [Label],
    /// What it says.
    pub help: &'static str,
    /// Who knows it.
    pub told_by: Teller,
    /// How those of all processes become one.
    pub aggregate: Aggregate,
}

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// Who knows a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Teller {
    /// Every process, of itself.
    Process,
    /// The process that does the queue's chores; the others say 0.
    Leader,
}

/// How the values of all processes become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// They add up; of counters and histograms, their rates do.
    Sum,
    /// The greatest counts.
    Max,
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
        Self { name, kind, labels, help, told_by: Teller::Process, aggregate: Aggregate::Sum }
    }

    /// The same of which the greatest counts.
    pub(super) const fn max(self) -> Self {
        Self { aggregate: Aggregate::Max, ..self }
    }

    /// The same, told by the leader. Its gauges are 0 elsewhere, so the greatest counts.
    pub(super) const fn of_leader(self) -> Self {
        let aggregate = match self.kind {
            Kind::Gauge => Aggregate::Max,
            Kind::Counter | Kind::Histogram(_) => self.aggregate,
        };
        Self { told_by: Teller::Leader, aggregate, ..self }
    }

    /// The unit that the name ends with; empty for a plain number.
    pub fn unit(&self) -> &'static str {
        let name = self.name.strip_suffix("_total").unwrap_or(self.name);
        let last = name.rsplit('_').next().unwrap_or_default();
        if ["seconds", "bytes", "ratio"].contains(&last) { last } else { "" }
    }
}

impl Kind {
    /// Its name in the exposition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

impl Teller {
    /// Its name in listings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Leader => "leader",
        }
    }
}

impl Aggregate {
    /// Its name in listings and in queries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Max => "max",
        }
    }
}
