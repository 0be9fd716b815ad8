//! Reads metrics from the text that Prometheus gets. Pure. Lines that break the format are skipped.

use std::borrow::Cow;

/// One metric with all its series.
#[derive(Debug, PartialEq)]
pub(super) struct Family<'a> {
    pub(super) name: &'a str,
    pub(super) help: &'a str,
    pub(super) series: Series<'a>,
}

/// The series of a metric, by its kind.
#[derive(Debug, PartialEq)]
pub(super) enum Series<'a> {
    Counter(Vec<(Labels<'a>, f64)>),
    Gauge(Vec<(Labels<'a>, f64)>),
    Histogram(Vec<(Labels<'a>, Buckets)>),
}

/// Names and values.
pub(super) type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Observations by bucket.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Buckets {
    /// The upper bounds, without the last one, which is infinite.
    pub(super) bounds: Vec<f64>,
    /// How many observations have at most the bound of each bucket, and at last how many there are.
    pub(super) up_to: Vec<u64>,
    pub(super) sum: f64,
    pub(super) count: u64,
}

/// Returns the metrics of a text. Those whose kind it does not say are left out.
pub(super) fn read(text: &str) -> Vec<Family<'_>> {
    let (mut families, mut help) = (Vec::new(), ("", ""));
    for line in text.lines() {
        if let Some(line) = line.strip_prefix("# HELP ") {
            help = line.split_once(' ').unwrap_or((line, ""));
        } else if let Some(line) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = line.split_once(' ') else { continue };
            let Some(series) = Series::of_kind(kind) else { continue };
            let help = if help.0 == name { help.1 } else { "" };
            families.push(Family { name, help, series });
        } else if let (Some(family), Some(sample)) = (families.last_mut(), Sample::read(line)) {
            family.add(sample);
        }
    }
    families
}

impl<'a> Family<'a> {
    fn add(&mut self, Sample { name, mut labels, value }: Sample<'a>) {
        let Some(part) = name.strip_prefix(self.name) else { return };
        match &mut self.series {
            Series::Counter(points) | Series::Gauge(points) if part.is_empty() => {
                points.push((labels, value))
            }
            Series::Counter(_) | Series::Gauge(_) => {}
            Series::Histogram(points) => {
                let bound = labels.iter().position(|(name, _)| *name == "le").map(|at| labels.remove(at).1);
                if points.last().is_none_or(|(last, _)| *last != labels) {
                    points.push((labels, Buckets::default()));
                }
                if let Some((_, buckets)) = points.last_mut() {
                    buckets.add(part, bound.as_deref(), value);
                }
            }
        }
    }
}

impl Series<'_> {
    fn of_kind(kind: &str) -> Option<Self> {
        match kind {
            "counter" => Some(Self::Counter(Vec::new())),
            "gauge" => Some(Self::Gauge(Vec::new())),
            "histogram" => Some(Self::Histogram(Vec::new())),
            _ => None,
        }
    }
}

impl Buckets {
    fn add(&mut self, part: &str, bound: Option<&str>, value: f64) {
        // Counts are whole, and the cast saturates.
        let count = value as u64;
        match (part, bound) {
            ("_bucket", Some("+Inf")) => self.up_to.push(count),
            ("_bucket", Some(bound)) => {
                if let Ok(bound) = bound.parse() {
                    self.bounds.push(bound);
                    self.up_to.push(count);
                }
            }
            ("_sum", None) => self.sum = value,
            ("_count", None) => self.count = count,
            _ => {}
        }
    }
}

/// One line: a series and its value.
struct Sample<'a> {
    name: &'a str,
    labels: Labels<'a>,
    value: f64,
}

impl<'a> Sample<'a> {
    fn read(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let (name, labels, value) = match line.split_once('{') {
            None => {
                let (name, value) = line.split_once(' ')?;
                (name, Labels::new(), value)
            }
            Some((name, rest)) => {
                let (labels, value) = labels(rest)?;
                (name, labels, value)
            }
        };
        Some(Self { name, labels, value: value.trim().parse().ok()? })
    }
}

/// Reads labels up to the brace that ends them. Also returns what follows.
fn labels(mut text: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Labels::new();
    loop {
        text = text.trim_start_matches([',', ' ']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once("=\"")?;
        let end = end_of_value(rest)?;
        labels.push((name, unescaped(&rest[..end])));
        text = &rest[end + 1..];
    }
}

/// Returns where the quote is that ends a value.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

fn unescaped(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let (mut plain, mut chars) = (String::with_capacity(value.len()), value.chars());
    while let Some(next) = chars.next() {
        match (next, if next == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some(escaped)) => plain.push(escaped),
            _ => plain.push(next),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_is_read_with_its_labels() {
        let text = "# HELP a_total Things that \"count\".\n# TYPE a_total counter\na_total 3\na_total{q=\"x\\\"y\\\\\\n,}\",r=\"\"} 1.5e3\n\n\
                    # TYPE b gauge\nb{q=\"1\"} NaN\nb{q=\"2\"} -2\nother 7\n# TYPE c summary\n";
        let families = read(text);
        assert_eq!(families.len(), 2);
        assert_eq!((families[0].name, families[0].help), ("a_total", "Things that \"count\"."));
        let labels = vec![("q", Cow::from("x\"y\\\n,}")), ("r", Cow::from(""))];
        assert_eq!(families[0].series, Series::Counter(vec![(vec![], 3.0), (labels, 1500.0)]));
        let Series::Gauge(points) = &families[1].series else { panic!("{families:?}") };
        assert!(points.len() == 2 && points[0].1.is_nan() && points[1].1 == -2.0);
    }

    #[test]
    fn the_lines_of_a_histogram_become_one_point_for_each_set_of_labels() {
        let text = "# TYPE h histogram\nh_bucket{q=\"a\",le=\"0.5\"} 1\nh_bucket{q=\"a\",le=\"+Inf\"} 3\nh_sum{q=\"a\"} 7.5\nh_count{q=\"a\"} 3\n\
                    h_bucket{q=\"b\",le=\"0.5\"} 0\nh_bucket{q=\"b\",le=\"+Inf\"} 0\nh_sum{q=\"b\"} 0\nh_count{q=\"b\"} 0\n";
        let families = read(text);
        let buckets =
            |up_to: [u64; 2], sum, count| Buckets { bounds: vec![0.5], up_to: up_to.to_vec(), sum, count };
        let label = |value: &'static str| vec![("q", Cow::from(value))];
        let want = vec![(label("a"), buckets([1, 3], 7.5, 3)), (label("b"), buckets([0, 0], 0.0, 0))];
        assert_eq!(families[0].series, Series::Histogram(want));
    }

    proptest! {
        #[test]
        fn any_label_value_comes_back(value: String) {
            let escaped = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
            // A line ends at a line feed, and a carriage return before it belongs to the end.
            prop_assume!(!value.contains('\r'));
            let text = format!("# TYPE a gauge\na{{q=\"{escaped}\"}} 1\n");
            let families = read(&text);
            prop_assert_eq!(&families[0].series, &Series::Gauge(vec![(vec![("q", Cow::from(value.as_str()))], 1.0)]));
        }

        #[test]
        fn reading_any_text_never_panics(text: String, part in "(# TYPE [ab] (gauge|counter|histogram)\n)?[ab_{}=,\"\\\\ 01\n]{0,60}") {
            prop_assert!(read(&text).len() <= text.len() && read(&part).len() <= part.len());
        }
    }
}
