//! Where metrics are pushed to, as the variables of OpenTelemetry say it.

use super::*;

#[test]
fn opentelemetry_variables_say_where_metrics_go_and_how_often_and_headers_are_never_shown() {
    let read = |toml: &str, variables: &[(&str, &str)]| read_with(toml, variables, Flags::default());
    let metrics = |toml: &str, variables: &[(&str, &str)]| {
        let metrics = read(toml, variables).unwrap().config.telemetry.metrics;
        (metrics.wanted().map(str::to_owned), metrics.interval)
    };
    let (shared, seconds) = (("OTEL_EXPORTER_OTLP_ENDPOINT", "http://shared:4318"), Duration::from_secs);
    let own = |endpoint: &str| Some(endpoint.to_owned());
    assert_eq!(metrics("", &[]), (None, seconds(15)));
    let every = ("OTEL_METRIC_EXPORT_INTERVAL", "60000");
    assert_eq!(metrics("", &[shared, every]), (own("http://shared:4318"), seconds(60)));
    let named = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://c/v1/metrics");
    assert_eq!(metrics("", &[shared, named]).0, own("http://c/v1/metrics"));
    assert_eq!(metrics("", &[shared, ("OTEL_METRICS_EXPORTER", "none")]).0, None);
    assert_eq!(metrics("", &[shared, ("OTEL_METRICS_EXPORTER", "otlp")]).0, own("http://shared:4318"));
    let file = "[telemetry.metrics]\nendpoint = \"off\"\ninterval = \"2s\"\n";
    assert_eq!(metrics(file, &[shared, named, every]), (None, seconds(2)));
    let traces = read("", &[shared, ("OTEL_TRACES_EXPORTER", "none")]).unwrap().config.telemetry.traces;
    assert_eq!(traces.wanted(), None);
    let secret =
        [("OTEL_EXPORTER_OTLP_HEADERS", "x=canary"), ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "y=canary")];
    let effective = read("", &secret).unwrap();
    let shown = format!("{}{:?}{}", effective.toml(), effective.config, effective.shown());
    assert!(shown.contains("***") && !shown.contains("canary"), "{shown}");
    for (wrong, key) in [("0", "interval"), ("soon", "interval")] {
        let problems = read("", &[("OTEL_METRIC_EXPORT_INTERVAL", wrong)]).unwrap_err();
        assert!(problems[0].starts_with(&format!("telemetry.metrics.{key}: ")), "{problems:?}");
        assert!(problems[0].ends_with("(OTEL_METRIC_EXPORT_INTERVAL)"), "{problems:?}");
    }
}
