//! The collector: its address, the headers it gets, and what its answers mean.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use percent_encoding::percent_decode_str;
use prost::Message;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::SecretHeaders;
use crate::http_client::{HttpClient, Response};

/// If the collector has not answered by then, it has not accepted what was sent.
const TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of an answer that are read.
const ANSWER_BYTES: usize = 64 * 1024;
/// The largest size of a headers file. People write fewer headers than that.
const HEADERS_BYTES: usize = 64 * 1024;
/// The longest pause that a collector can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long sending the last spans or metrics may take when a process stops.
pub(crate) const LAST_SEND_TIMEOUT: Duration = Duration::from_millis(1500);

/// The collector that spans or metrics are sent to.
pub(crate) struct Destination {
    client: HttpClient,
    url: Url,
    headers: HeaderMap,
}

/// What happened to a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// The collector accepted it, except for `rejected` spans or values.
    Accepted { rejected: u64 },
    /// It may be sent again, possibly after a pause.
    Later { pause: Option<Duration>, why: String },
    /// It will never be accepted.
    Refused { why: String },
}

impl Destination {
    /// Creates a destination. The headers file, which wins over the headers beside it, is read now. Whether the collector
    /// answers only shows with the first request. The error begins with the key that is wrong.
    pub(crate) fn open(
        endpoint: &str,
        path: &str,
        (file, own): (Option<&Path>, Option<&SecretHeaders>),
    ) -> Result<Self, String> {
        let url = address(endpoint, path).map_err(|reason| format!("endpoint: {reason}"))?;
        let client = HttpClient::open(&url, CONNECT_TIMEOUT)
            .map_err(|reason| format!("endpoint: cannot create a client: {reason}"))?;
        let mut headers = match own {
            Some(own) => listed(own.text()).map_err(|reason| format!("headers: {reason}"))?,
            None => HeaderMap::new(),
        };
        if let Some(path) = file {
            headers.extend(self::headers(path).map_err(|reason| format!("headers_file: {reason}"))?);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        Ok(Self { client, url, headers })
    }

    /// Sends one request once.
    pub(crate) async fn post(&self, body: Bytes) -> Answer {
        let end = Instant::now() + TIMEOUT;
        let later = |why| Answer::Later { pause: None, why };
        let mut response = match timeout_at(end, self.client.post(&self.url, self.headers.clone(), body))
            .await
        {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return later(error.with_causes()),
            Err(_) => return later(format!("the collector did not answer within {} s", TIMEOUT.as_secs())),
        };
        let (status, pause) = (response.status(), response.pause(LONGEST_PAUSE));
        let why = format!("the collector answered {status}");
        match status {
            _ if status.is_success() => Answer::Accepted { rejected: rejected(&mut response, end).await },
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Answer::Later { pause, why },
            _ => Answer::Refused { why },
        }
    }
}

/// Returns the address that requests are posted to: the endpoint, to which `path` is added unless it ends with it.
pub(crate) fn address(endpoint: &str, path: &str) -> Result<Url, String> {
    let mut url: Url = endpoint.parse().map_err(|error| format!("is not an address ({error})"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("must begin with http:// or https:// and name a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err("must have no login and no query; put secrets into headers_file".to_owned());
    }
    let before = url.path().trim_end_matches('/').to_owned();
    if !before.ends_with(path) {
        url.set_path(&format!("{before}{path}"));
    }
    Ok(url)
}

/// Returns the attributes that identify this process in everything that it sends.
pub(crate) fn resource(service_name: &str) -> [(&'static str, String); 3] {
    let uname = rustix::system::uname();
    let instance = format!("{}-{}", uname.nodename().to_string_lossy(), std::process::id());
    [
        ("service.name", service_name.to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", instance),
    ]
}

/// Reads headers as OpenTelemetry's variables have them: `name=value,name=value`, percent-encoded. Errors never quote them.
fn listed(text: &str) -> Result<HeaderMap, String> {
    if text.len() > HEADERS_BYTES {
        return Err(format!("have more than {HEADERS_BYTES} bytes"));
    }
    let mut headers = HeaderMap::new();
    for (nth, member) in text.split(',').enumerate().filter(|(_, member)| !member.trim().is_empty()) {
        let pair = member.split_once('=').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            Some((name, HeaderValue::from_str(&value).ok()?))
        });
        let Some((name, mut value)) = pair else {
            return Err(format!("number {} is not `name=value`", nth + 1));
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Reads the headers of a file, one `name: value` per line. Errors name the line and never quote it.
fn headers(path: &Path) -> Result<HeaderMap, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if text.len() > HEADERS_BYTES {
        return Err(format!("{shown} has more than {HEADERS_BYTES} bytes"));
    }
    let mut headers = HeaderMap::new();
    for (nth, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let pair = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        let Some((name, mut value)) = pair else {
            return Err(format!("{shown}:{}: is not `name: value`", nth + 1));
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns how many spans or values of an accepted request were rejected: 0 if the answer cannot be read. The answers of all
/// signals have the same form.
async fn rejected(response: &mut Response, end: Instant) -> u64 {
    let mut body = Vec::new();
    // If the answer breaks off, what has arrived of it is used.
    timeout_at(end, response.read(&mut body, ANSWER_BYTES + 1)).await.ok();
    if body.len() > ANSWER_BYTES {
        return 0;
    }
    let answer = ExportTraceServiceResponse::decode(body.as_slice()).ok();
    let partial = answer.and_then(|answer| answer.partial_success);
    partial.map_or(0, |partial| u64::try_from(partial.rejected_spans).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(endpoint: &str) -> Result<String, String> {
        address(endpoint, "/v1/traces").map(|url| url.to_string())
    }

    #[test]
    fn the_path_for_traces_is_added_if_missing() {
        let full = "http://c:4318/v1/traces";
        assert_eq!(shown("http://c:4318").as_deref(), Ok(full));
        assert_eq!(shown("http://c:4318/").as_deref(), Ok(full));
        assert_eq!(shown(full).as_deref(), Ok(full));
        assert_eq!(shown("https://c/otlp/").as_deref(), Ok("https://c/otlp/v1/traces"));
    }

    #[test]
    fn an_invalid_or_secret_address_is_refused_without_showing_it() {
        for endpoint in
            ["", "c:4318", "grpc://c:4317", "http://u:canary@c", "http://c/?key=canary", "http://"]
        {
            let reason = shown(endpoint).unwrap_err();
            assert!(!reason.contains("canary"), "{endpoint}: {reason}");
        }
    }

    #[test]
    fn headers_of_a_variable_are_decoded_and_errors_do_not_show_them() {
        let good = listed("api-key=a%20b%3D, x-tenant = acme ,,x-tenant=last").unwrap();
        assert_eq!(
            (good.len(), &good["api-key"], &good["x-tenant"]),
            (2, &HeaderValue::from_static("a b="), &HeaderValue::from_static("last"))
        );
        assert!(listed("").unwrap().is_empty() && !format!("{good:?}").contains("a b"));
        for text in ["canary", "x=1,a b=canary", "x=1,y=canary%0a"] {
            let reason = listed(text).unwrap_err();
            assert!(reason.starts_with("number ") && !reason.contains("canary"), "{reason}");
        }
        let shown = SecretHeaders::from("x=canary");
        assert!(!format!("{shown:?}{}", serde_json::to_string(&shown).unwrap()).contains("canary"));
    }

    #[test]
    fn errors_in_the_headers_file_do_not_show_values() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("headers");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            headers(&path)
        };
        let good = read("Authorization: Bearer a:b\n\nx-tenant:  acme \n").unwrap();
        assert_eq!(
            (good.len(), good["authorization"].as_bytes(), good["x-tenant"].as_bytes()),
            (2, &b"Bearer a:b"[..], &b"acme"[..])
        );
        assert!(!format!("{good:?}").contains("acme"));
        for text in ["authorization canary", "a b: canary", "x: canary\u{1}"] {
            let reason = read(text).unwrap_err();
            assert!(reason.contains(":1: ") && !reason.contains("canary"), "{reason}");
        }
    }
}
