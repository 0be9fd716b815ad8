//! A histogram with fixed buckets. Recording takes two atomic additions, and its memory never grows. (The exporter's
//! own histogram keeps every observation in a list until its upkeep.)

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Observations, counted by bucket.
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One more than the bounds: the last bucket has no upper bound.
    counts: Box<[AtomicU64]>,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

impl Histogram {
    /// Creates a histogram with these upper bounds, in ascending order.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0f64.to_bits()) }
    }

    /// Counts one observation.
    pub(super) fn record(&self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok();
    }

    /// Writes the histogram's lines. `labels` is the text between the braces and may be empty.
    pub(super) fn write(&self, name: &str, labels: &str, to: &mut String) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        for (at, own) in self.counts.iter().enumerate() {
            count += own.load(Ordering::Relaxed);
            let bound = self.bounds.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            line(to, format_args!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}"));
        }
        let sum = f64::from_bits(self.sum.load(Ordering::Relaxed));
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        line(to, format_args!("{name}_sum{open}{labels}{close} {sum}"));
        line(to, format_args!("{name}_count{open}{labels}{close} {count}"));
    }
}

/// Appends one line.
pub(super) fn line(to: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(to, "{text}").expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: &[f64] = &[0.5, 1.0, 10.0];

    #[test]
    fn buckets_are_cumulative_and_a_bound_belongs_to_its_own() {
        let histogram = Histogram::new(BOUNDS);
        [0.5, 0.75, 1.0, 10.5].into_iter().for_each(|value| histogram.record(value));
        let mut text = String::new();
        histogram.write("h", r#"q="a""#, &mut text);
        let lines = [
            r#"h_bucket{q="a",le="0.5"} 1"#,
            r#"h_bucket{q="a",le="1"} 3"#,
            r#"h_bucket{q="a",le="10"} 3"#,
            r#"h_bucket{q="a",le="+Inf"} 4"#,
            r#"h_sum{q="a"} 12.75"#,
            r#"h_count{q="a"} 4"#,
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }

    proptest! {
        #[test]
        fn every_observation_is_in_the_last_bucket_and_in_the_sum(values in prop::collection::vec(0.0f64..1e6, 0..50)) {
            let histogram = Histogram::new(BOUNDS);
            values.iter().for_each(|value| histogram.record(*value));
            let mut text = String::new();
            histogram.write("h", "", &mut text);
            prop_assert!(text.contains(&format!("h_count {}\n", values.len())), "{}", text);
            prop_assert!(text.contains(&format!("h_sum {}\n", values.iter().fold(0.0, |sum, value| sum + value))), "{}", text);
        }
    }
}
