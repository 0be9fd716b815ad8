//! What a column's bytes say of a job: its class, and its payload.

use serde_json::{Map, Value};

use super::column::Form;
use super::php::{Unserialized, unserialize};

/// What Laravel and Hyperf put into every job that they queue.
const OF_FRAMEWORK: [&str; 15] = [
    "afterCommit",
    "batchId",
    "chainCatchCallbacks",
    "chainConnection",
    "chainQueue",
    "chained",
    "connection",
    "deduplicator",
    "delay",
    "fakeBatch",
    "job",
    "maxAttempts",
    "messageGroup",
    "middleware",
    "queue",
];

/// The handler of Laravel that unserializes a job.
const CALL: &str = "Illuminate\\Queue\\CallQueuedHandler@call";

/// The class of a job, if the bytes name one, and its payload as JSON.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Message {
    pub(super) class: Option<String>,
    pub(super) payload: Value,
}

impl Message {
    /// Reads a column that has this form.
    ///
    /// # Errors
    ///
    /// Says what is wrong with the bytes.
    pub(super) fn read(bytes: &[u8], form: Form) -> Result<Self, String> {
        match form {
            Form::Text => {
                let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
                Ok(Self { class: None, payload: text.into() })
            }
            Form::Json => Ok(Self { class: None, payload: json(bytes)? }),
            Form::Laravel => of_laravel(bytes),
            Form::Php => unserialize(bytes).and_then(of_object),
        }
    }
}

fn json(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("is not JSON: {error}"))
}

fn of_laravel(bytes: &[u8]) -> Result<Message, String> {
    let message = json(bytes)?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let handler = message.get("job").and_then(text).ok_or("is not a message of Laravel: it has no `job`")?;
    let data = message.get("data").cloned().unwrap_or_default();
    if handler != CALL {
        return Ok(Message { class: Some(handler), payload: data });
    }
    let command =
        data.get("command").and_then(text).ok_or("is not a message of Laravel: it has no `data.command`")?;
    if !command.starts_with("O:") {
        return Err("has an encrypted job: let Laravel run it, or submit it again".to_owned());
    }
    let message = unserialize(command.as_bytes()).and_then(of_object);
    message.map_err(|why| format!("data.command {why}"))
}

/// Takes out of a job what the framework has put there.
fn of_object(read: Unserialized) -> Result<Message, String> {
    let Unserialized { class: Some(class), value: Value::Object(mut members) } = read else {
        return Ok(Message { class: None, payload: read.value });
    };
    if has_more(&members) {
        return Err("has a chain of further jobs, which would be lost: let Laravel run it".to_owned());
    }
    members.retain(|name, _| !OF_FRAMEWORK.contains(&name.as_str()));
    Ok(Message { class: Some(class), payload: Value::Object(members) })
}

fn has_more(members: &Map<String, Value>) -> bool {
    let chained = members.get("chained").and_then(Value::as_array);
    chained.is_some_and(|chained| !chained.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn laravel(command: &str) -> Result<Message, String> {
        let message = json!({"displayName": "App\\Jobs\\Report", "job": CALL, "data": {"command": command}});
        Message::read(message.to_string().as_bytes(), Form::Laravel)
    }

    #[test]
    fn a_job_of_laravel_is_its_own_properties() {
        let command =
            "O:15:\"App\\Jobs\\Report\":3:{s:5:\"month\";i:11;s:5:\"queue\";N;s:7:\"chained\";a:0:{}}";
        let message = laravel(command).unwrap();
        assert_eq!(message.class.as_deref(), Some("App\\Jobs\\Report"));
        assert_eq!(message.payload, json!({"month": 11}));
    }

    #[test]
    fn a_message_without_an_object_is_its_data() {
        let message = json!({"job": "App\\Mailer@send", "data": {"to": "ann"}});
        let message = Message::read(message.to_string().as_bytes(), Form::Laravel).unwrap();
        assert_eq!(
            (message.class.as_deref(), message.payload),
            (Some("App\\Mailer@send"), json!({"to": "ann"}))
        );
    }

    #[test]
    fn what_would_be_lost_or_cannot_be_read_is_refused() {
        let chain = "O:1:\"A\":1:{s:7:\"chained\";a:1:{i:0;s:1:\"x\";}}";
        assert!(laravel(chain).unwrap_err().contains("chain of further jobs"));
        assert!(laravel("eyJpdiI6").unwrap_err().contains("encrypted"));
        assert!(laravel("O:1:\"A\":1:{").unwrap_err().contains("cut off"));
        assert!(Message::read(b"{}", Form::Laravel).unwrap_err().contains("no `job`"));
        assert!(Message::read(b"{", Form::Json).unwrap_err().contains("not JSON"));
        assert!(Message::read(b"\xff", Form::Text).unwrap_err().contains("UTF-8"));
    }
}
