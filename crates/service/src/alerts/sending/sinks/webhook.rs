//! An endpoint of your own. The body has the form that Prometheus's Alertmanager posts, so that what understands that one
//! understands this one. The signature covers the time and the body.

use std::fmt::Write as _;

use secrecy::SecretString;
use serde_json::{Value, json};

use super::{Message, Request, exposed, hmac};
use crate::alerts::sending::message::{Item, Reason, shown};
use crate::job::incident::IncidentState;

/// What stands in place of the time when something ended that has not.
const NEVER: &str = "0001-01-01T00:00:00Z";

pub(super) fn request(message: &Message, secret: &SecretString, now_s: i64) -> Request {
    let mut request = Request::json(&body(message));
    let signature = signature(exposed(secret), now_s, &request.body);
    request.headers =
        vec![("x-streamfleet-signature", signature), ("x-streamfleet-delivery", message.name.clone())];
    request
}

/// Signs a body, as `t=<seconds>,v1=<hex>`.
fn signature(secret: &str, now_s: i64, body: &[u8]) -> String {
    let signed = [now_s.to_string().as_bytes(), b".", body].concat();
    let mut hex = String::new();
    for byte in hmac(secret.as_bytes(), &signed).as_ref() {
        write!(hex, "{byte:02x}").expect("writing to a String cannot fail");
    }
    format!("t={now_s},v1={hex}")
}

fn body(message: &Message) -> Value {
    let alerts: Vec<Value> = message.items.iter().map(|item| alert(message, item)).collect();
    let is_over =
        !message.items.is_empty() && message.items.iter().all(|item| item.reason == Reason::Resolved);
    json!({
        "version": "4",
        "receiver": "streamfleet",
        "status": if is_over { "resolved" } else { "firing" },
        "groupKey": format!("streamfleet/{}", message.namespace),
        "groupLabels": { "namespace": message.namespace, "environment": message.environment },
        "commonLabels": { "namespace": message.namespace, "environment": message.environment },
        "commonAnnotations": { "summary": message.title },
        "externalURL": message.link,
        "truncatedAlerts": message.left_out,
        "alerts": alerts,
    })
}

fn alert(message: &Message, item: &Item) -> Value {
    let incident = &item.incident;
    let example = incident.example.clone().unwrap_or_default();
    let is_over = incident.state == IncidentState::Resolved;
    json!({
        "status": if is_over { "resolved" } else { "firing" },
        "labels": {
            "alertname": incident.kind.as_str(),
            "namespace": message.namespace,
            "environment": message.environment,
            "queue": incident.queue.as_ref().map_or("", |queue| queue.as_str()),
            "job_type": incident.job_type,
            "key": incident.key,
        },
        "annotations": {
            "summary": incident.kind.title(),
            "description": incident.detail,
            "jobs": incident.count.to_string(),
            "example_job": example.job,
            "example_error": example.error,
            "command": incident.command(),
            "job_url": message.job_link,
            "reason": item.reason.as_str(),
        },
        "startsAt": shown(incident.since),
        "endsAt": incident.resolved.map_or_else(|| NEVER.to_owned(), shown),
        "fingerprint": incident.id.as_str(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::sending::message::tests::{incident, now, sender};

    #[test]
    fn the_signature_covers_time_and_body() {
        let [one, other, later] =
            [(1, b"a"), (1, b"b"), (2, b"a")].map(|(time, body)| signature("key", time, body));
        assert!(one.starts_with("t=1,v1=") && one.len() == "t=1,v1=".len() + 64, "{one}");
        assert!(one != other && one[4..] != later[4..]);
    }

    #[test]
    fn the_body_has_the_form_of_alertmanager() {
        let message = sender().message(&[incident(0xff, "no")], now());
        let body = body(&message);
        assert_eq!((&body["version"], &body["status"]), (&json!("4"), &json!("firing")));
        let alert = &body["alerts"][0];
        assert_eq!(alert["labels"]["alertname"], "dead_group");
        assert_eq!((&alert["fingerprint"], &alert["endsAt"]), (&json!("000000ff"), &json!(NEVER)));
        assert_eq!(alert["annotations"]["example_job"], "order-7");
    }
}
