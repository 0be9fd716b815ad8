//! Metrics as an OTLP request: cumulative, with the names, labels and buckets that Prometheus gets. Pure.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::exposition::{Buckets, Family, Labels, Series, read};

/// When counting began, and when the values were read, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) now: u64,
}

/// Returns the request for a text.
pub(super) fn request(text: &str, resource: Resource, span: Span) -> ExportMetricsServiceRequest {
    let scope = InstrumentationScope {
        name: "streamfleet".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Default::default()
    };
    let metrics = read(text).into_iter().map(|family| span.metric(family)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..Default::default() }];
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource), scope_metrics, ..Default::default() }];
    ExportMetricsServiceRequest { resource_metrics }
}

/// Returns an attribute.
pub(super) fn attribute(name: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) });
    KeyValue { key: name.to_owned(), value, ..Default::default() }
}

impl Span {
    fn metric(self, Family { name, help, series }: Family<'_>) -> Metric {
        let cumulative = AggregationTemporality::Cumulative.into();
        let data = match series {
            Series::Counter(points) => {
                let data_points =
                    points.into_iter().map(|(labels, value)| self.number(&labels, value)).collect();
                metric::Data::Sum(Sum {
                    data_points,
                    aggregation_temporality: cumulative,
                    is_monotonic: true,
                })
            }
            Series::Gauge(points) => {
                // What a gauge says holds now. It has no start.
                let now = Self { start: 0, ..self };
                let data_points =
                    points.into_iter().map(|(labels, value)| now.number(&labels, value)).collect();
                metric::Data::Gauge(Gauge { data_points })
            }
            Series::Histogram(points) => {
                let data_points =
                    points.into_iter().map(|(labels, buckets)| self.histogram(&labels, buckets));
                let data_points = data_points.collect();
                metric::Data::Histogram(Histogram { data_points, aggregation_temporality: cumulative })
            }
        };
        let (name, unit) = (name.to_owned(), unit(name).to_owned());
        Metric { name, description: help.to_owned(), unit, data: Some(data), ..Default::default() }
    }

    fn number(self, labels: &Labels<'_>, value: f64) -> NumberDataPoint {
        NumberDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: self.start,
            time_unix_nano: self.now,
            value: Some(number_data_point::Value::AsDouble(value)),
            ..Default::default()
        }
    }

    fn histogram(
        self,
        labels: &Labels<'_>,
        Buckets { bounds, up_to, sum, count }: Buckets,
    ) -> HistogramDataPoint {
        let before = std::iter::once(0).chain(up_to.iter().copied());
        HistogramDataPoint {
            attributes: attributes(labels),
            start_time_unix_nano: self.start,
            time_unix_nano: self.now,
            count,
            sum: Some(sum),
            // OTLP counts each bucket for itself.
            bucket_counts: up_to
                .iter()
                .zip(before)
                .map(|(up_to, before)| up_to.saturating_sub(before))
                .collect(),
            explicit_bounds: bounds,
            ..Default::default()
        }
    }
}

fn attributes(labels: &Labels<'_>) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| attribute(name, value)).collect()
}

/// Returns the unit that a name ends with, as OTLP writes it.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        Some("ratio") => "1",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_kind_unit_labels_and_times() {
        let text = "# HELP a_total Things.\n# TYPE a_total counter\na_total{q=\"x\"} 3\n# TYPE b_seconds gauge\nb_seconds 1.5\n\
                    # TYPE h_bytes histogram\nh_bytes_bucket{le=\"1\"} 2\nh_bytes_bucket{le=\"4\"} 2\nh_bytes_bucket{le=\"+Inf\"} 5\nh_bytes_sum 40.5\nh_bytes_count 5\n";
        let request = request(text, Resource::default(), Span { start: 7, now: 9 });
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let shown = |at: usize| {
            (metrics[at].name.as_str(), metrics[at].unit.as_str(), metrics[at].description.as_str())
        };
        assert_eq!(
            [shown(0), shown(1), shown(2)],
            [("a_total", "", "Things."), ("b_seconds", "s", ""), ("h_bytes", "By", "")]
        );
        let Some(metric::Data::Sum(sum)) = &metrics[0].data else { panic!("{metrics:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
        let point = &sum.data_points[0];
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (7, 9));
        assert_eq!(point.value, Some(number_data_point::Value::AsDouble(3.0)));
        assert_eq!(point.attributes, [attribute("q", "x")]);
        let Some(metric::Data::Gauge(gauge)) = &metrics[1].data else { panic!("{metrics:?}") };
        assert_eq!((gauge.data_points[0].start_time_unix_nano, gauge.data_points[0].time_unix_nano), (0, 9));
        let Some(metric::Data::Histogram(histogram)) = &metrics[2].data else { panic!("{metrics:?}") };
        let point = &histogram.data_points[0];
        assert_eq!((&point.explicit_bounds[..], &point.bucket_counts[..]), (&[1.0, 4.0][..], &[2, 0, 3][..]));
        assert_eq!((point.count, point.sum, point.start_time_unix_nano), (5, Some(40.5), 7));
    }
}
