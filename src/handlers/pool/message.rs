//! What a program says: the lines that the worker reads. Pure.

use std::borrow::Cow;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::handlers::output;
use crate::job::ErrorRules;
use crate::worker::MAX_RESULT_BYTES;

/// The version of the protocol.
pub(super) const PROTOCOL: u64 = 1;

/// How much of a line goes into an error.
const EXCERPT_BYTES: usize = 200;

/// How much of a text is looked at: more than anybody keeps of it.
const TEXT_BYTES: usize = 8 * 1024;

/// A result whose JSON is longer than this is not read: it is too long even without spaces and escapes.
const LONGEST_RESULT: usize = 4 * MAX_RESULT_BYTES;

/// The longest pause that a program may ask for.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// What a program says.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    Ready(Ready),
    Progress {
        reference: Option<u64>,
        percent: Option<u8>,
        note: String,
    },
    Log {
        reference: Option<u64>,
        level: tracing::Level,
        text: String,
    },
    /// `crash` says that the program ends because of this job, and `begun` is false if it says that it has not begun the job.
    Result {
        reference: Option<u64>,
        verdict: Verdict,
        crash: bool,
        begun: bool,
    },
    /// `crash` says that the program ends because of a job that has ended before: those that it has not answered have begun.
    Bye {
        crash: bool,
    },
}

/// The first line of a program.
#[derive(Debug, PartialEq)]
pub(super) struct Ready {
    pub(super) protocol: u64,
    /// The types that it serves; `None` for all.
    pub(super) types: Option<Vec<String>>,
    /// How many jobs it begins at once.
    pub(super) inflight: usize,
    /// How many more it takes, which it begins later.
    pub(super) ahead: usize,
    pub(super) sdk: String,
}

/// How a job ended, as its program says.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Done(Value),
    /// Done, with a result that is not kept, and why.
    DoneWithout(String),
    /// `classes` are those of the exception, the nearest first, if the program leaves the decision to the worker.
    Retry {
        error: String,
        delay: Option<Duration>,
        classes: Vec<String>,
    },
    /// It failed, and the program does not know whether the work was done.
    Unknown {
        error: String,
    },
    Fatal {
        error: String,
    },
    Snooze {
        delay: Duration,
        reason: String,
    },
    Drop {
        reason: String,
    },
}

/// Every field that any line may have. Texts without escapes are not copied.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(rename = "ref", borrow)]
    reference: Option<Text<'a>>,
    protocol: Option<u64>,
    types: Option<Vec<String>>,
    inflight: Option<usize>,
    ahead: Option<usize>,
    #[serde(borrow)]
    sdk: Option<Text<'a>>,
    percent: Option<f64>,
    #[serde(borrow)]
    message: Option<Text<'a>>,
    #[serde(borrow)]
    level: Option<Text<'a>>,
    #[serde(borrow)]
    fields: Option<&'a RawValue>,
    #[serde(borrow)]
    outcome: Option<Text<'a>>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    result_base64: Option<Text<'a>>,
    #[serde(borrow)]
    error: Option<Text<'a>>,
    delay_ms: Option<f64>,
    crash: Option<bool>,
    unknown: Option<bool>,
    begun: Option<bool>,
    #[serde(borrow)]
    classes: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
}

/// A text. Inside an `Option`, serde borrows only types of one's own.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Text<'_> {
    /// Returns a text that may be missing.
    fn of<'t>(text: &'t Option<Text<'_>>) -> &'t str {
        text.as_ref().map_or("", |text| &text.0)
    }
}

/// Reads a line of a program, or returns why it is nonsense.
pub(super) fn parse(line: &[u8]) -> Result<Message, String> {
    if !is_object(line) {
        return Err(format!("a line that is not JSON: {}", excerpt(line)));
    }
    // The error may quote all of a text.
    let wrong =
        |error: serde_json::Error| format!("{} in {}", excerpt(error.to_string().as_bytes()), excerpt(line));
    let fields: Fields<'_> = serde_json::from_slice(line).map_err(wrong)?;
    let reference = Text::of(&fields.reference).parse().ok();
    match &*fields.kind {
        "ready" => Ok(Message::Ready(Ready {
            protocol: fields.protocol.ok_or("ready without a protocol")?,
            types: fields.types,
            inflight: fields.inflight.unwrap_or(1).max(1),
            ahead: fields.ahead.unwrap_or(0),
            sdk: output::line(Text::of(&fields.sdk).as_bytes()),
        })),
        "progress" => {
            // A cast of a float is cut to the bounds of the integer.
            let percent = fields.percent.map(|percent| percent.clamp(0.0, 100.0) as u8);
            let note = output::line(head(Text::of(&fields.message)));
            Ok(Message::Progress { reference, percent, note })
        }
        "log" => {
            let level = level(fields.level.as_ref().map_or("info", |level| &level.0))?;
            let mut text = output::line(head(Text::of(&fields.message)));
            if let Some(fields) = fields.fields {
                text = format!("{text} {}", output::line(head(fields.get())));
            }
            Ok(Message::Log { reference, level, text })
        }
        "result" => {
            let (crash, begun) = (fields.crash.unwrap_or(false), fields.begun.unwrap_or(true));
            Ok(Message::Result { reference, verdict: verdict(&fields)?, crash, begun })
        }
        "bye" => Ok(Message::Bye { crash: fields.crash.unwrap_or(false) }),
        other => Err(format!("the unknown type {:?} in {}", excerpt(other.as_bytes()), excerpt(line))),
    }
}

/// Returns true if a line looks like a message, so that what is wrong with it is of interest.
pub(super) fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{")
}

fn level(name: &str) -> Result<tracing::Level, String> {
    match name {
        "debug" => Ok(tracing::Level::DEBUG),
        "info" => Ok(tracing::Level::INFO),
        "warn" => Ok(tracing::Level::WARN),
        "error" => Ok(tracing::Level::ERROR),
        other => Err(format!("the unknown level {:?}", excerpt(other.as_bytes()))),
    }
}

fn verdict(fields: &Fields<'_>) -> Result<Verdict, String> {
    let delay = fields.delay_ms.map(delay).transpose()?;
    let or = |words: String, otherwise: &str| if words.is_empty() { otherwise.to_owned() } else { words };
    // Tracebacks keep their lines.
    let error = || or(output::lines(head(Text::of(&fields.error))), "failed without a text");
    let reason = |otherwise| or(output::line(head(Text::of(&fields.reason))), otherwise);
    match fields.outcome.as_ref().map(|outcome| &*outcome.0) {
        Some("done") => match result(fields.result, fields.result_base64.as_ref())? {
            Ok(result) => Ok(Verdict::Done(result)),
            Err(why) => Ok(Verdict::DoneWithout(why)),
        },
        Some("retry") if fields.unknown == Some(true) => Ok(Verdict::Unknown { error: error() }),
        Some("retry") => {
            let classes = fields.classes.iter().flatten().take(ErrorRules::MAX_CLASSES);
            let classes = classes.map(|class| class.0.to_string()).collect();
            Ok(Verdict::Retry { error: error(), delay, classes })
        }
        Some("fatal") => Ok(Verdict::Fatal { error: error() }),
        Some("snooze") => {
            // Without a pause, the job would run in a loop.
            let delay = delay.ok_or("snooze without delay_ms")?.max(Duration::from_millis(1));
            Ok(Verdict::Snooze { delay, reason: reason("") })
        }
        Some("drop") => Ok(Verdict::Drop { reason: reason("dropped without a reason") }),
        Some(other) => Err(format!("the unknown outcome {:?}", excerpt(other.as_bytes()))),
        None => Err("a result without an outcome".to_owned()),
    }
}

/// Returns the beginning of a text. What follows a cut inside a character is cut away later.
fn head(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(TEXT_BYTES)]
}

fn delay(ms: f64) -> Result<Duration, String> {
    if !ms.is_finite() || ms < 0.0 {
        return Err(format!("delay_ms is {ms}"));
    }
    Ok(Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(LONGEST_DELAY).min(LONGEST_DELAY))
}

/// Returns a result, or why it is not kept; bytes look as they do for other handlers.
fn result(json: Option<&RawValue>, base64: Option<&Text<'_>>) -> Result<Result<Value, String>, String> {
    let Some(Text(data)) = base64 else { return Ok(json.map_or(Ok(Value::Null), |json| kept(json.get()))) };
    if BASE64_STANDARD.decode(data.as_bytes()).is_err() {
        return Err("result_base64 is not base64".to_owned());
    }
    Ok(Ok(serde_json::json!({ "encoding": "base64", "data": data })))
}

/// Reads a result that may be kept. One that cannot be read, because it is nested too deep, is left out: its work is done, and
/// the program's other jobs are not to blame.
fn kept(json: &str) -> Result<Value, String> {
    if json.len() > LONGEST_RESULT {
        let most = MAX_RESULT_BYTES / 1024;
        return Err(format!("it has {} bytes of JSON, and may have {most} KiB", json.len()));
    }
    serde_json::from_str(json)
        .map_err(|error| format!("it cannot be read: {}", excerpt(error.to_string().as_bytes())))
}

/// Returns the beginning of a line as text that is safe in a log.
pub(super) fn excerpt(line: &[u8]) -> String {
    let text = output::line(&line[..line.len().min(EXCERPT_BYTES)]);
    if line.len() > EXCERPT_BYTES { format!("{text} …") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parsed(value: &Value) -> Result<Message, String> {
        parse(value.to_string().as_bytes())
    }

    fn verdict_of(value: Value) -> Result<Verdict, String> {
        let message = parsed(&value)?;
        let Message::Result { reference: Some(17), verdict, crash: false, begun: true } = message else {
            panic!("{message:?}")
        };
        Ok(verdict)
    }

    fn result_with(fields: Value) -> Value {
        let mut line = json!({"type": "result", "ref": "17"});
        line.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        line
    }

    #[test]
    fn each_outcome_is_read() {
        let ms = Duration::from_millis;
        let read = |fields: Value| verdict_of(result_with(fields)).unwrap();
        assert_eq!(read(json!({"outcome": "done", "result": {"a": 1}})), Verdict::Done(json!({"a": 1})));
        assert_eq!(read(json!({"outcome": "done"})), Verdict::Done(Value::Null));
        let bytes = json!({"encoding": "base64", "data": "/w=="});
        assert_eq!(read(json!({"outcome": "done", "result_base64": "/w=="})), Verdict::Done(bytes));
        let retry = Verdict::Retry {
            error: "no\n  way\\u{1b}".to_owned(),
            delay: Some(ms(1500)),
            classes: Vec::new(),
        };
        assert_eq!(read(json!({"outcome": "retry", "error": "no\n  way\u{1b}", "delay_ms": 1500.0})), retry);
        let many = vec![r"App\Gone"; 100];
        let read_of_many = read(json!({"outcome": "retry", "error": "x", "classes": many}));
        let classes = vec![r"App\Gone".to_owned(); ErrorRules::MAX_CLASSES];
        assert_eq!(read_of_many, Verdict::Retry { error: "x".to_owned(), delay: None, classes });
        let unknown = Verdict::Unknown { error: "x".to_owned() };
        assert_eq!(
            read(json!({"outcome": "retry", "error": "x", "unknown": true, "classes": many})),
            unknown
        );
        let long = read(json!({"outcome": "fatal", "error": "\0".repeat(1_000_000)}));
        assert!(matches!(&long, Verdict::Fatal { error } if error.len() < 10 * TEXT_BYTES));
        assert_eq!(read(json!({"outcome": "fatal", "error": "x"})), Verdict::Fatal { error: "x".to_owned() });
        let snooze = Verdict::Snooze { delay: ms(1), reason: String::new() };
        assert_eq!(read(json!({"outcome": "snooze", "delay_ms": 0})), snooze);
        let dropped = Verdict::Drop { reason: "dropped without a reason".to_owned() };
        assert_eq!(read(json!({"outcome": "drop"})), dropped);
    }

    #[test]
    fn a_result_that_cannot_be_kept_is_left_out() {
        let (deep, long) = ("[".repeat(1000) + &"]".repeat(1000), format!("\"{}\"", "x".repeat(1_000_000)));
        for json in [deep.as_str(), long.as_str(), "1e999", "\"\\ud800\""] {
            let line =
                format!("{{\"type\":\"result\",\"ref\":\"17\",\"outcome\":\"done\",\"result\":{json}}}");
            let read = parse(line.as_bytes()).unwrap();
            let is_left_out = matches!(&read, Message::Result { verdict: Verdict::DoneWithout(why), .. } if why.len() < 300);
            assert!(is_left_out, "{read:?}");
            let line = format!("{{\"type\":\"log\",\"message\":\"x\",\"fields\":{{\"a\":{json}}}}}");
            assert!(parse(line.as_bytes()).is_ok(), "{}", excerpt(json.as_bytes()));
        }
    }

    #[test]
    fn what_breaks_the_protocol_is_nonsense() {
        for fields in [
            json!({"outcome": "maybe"}),
            json!({}),
            json!({"outcome": "snooze"}),
            json!({"outcome": "retry", "delay_ms": -1}),
            json!({"outcome": "done", "result_base64": "?"}),
        ] {
            assert!(verdict_of(result_with(fields.clone())).is_err(), "{fields}");
        }
        for line in
            [&b""[..], b"{}", b"[]", b"Warning: x", b"{\"type\":\"hi\"}", b"{\"type\":\"ready\"}", b"\xff"]
        {
            assert!(parse(line).is_err(), "{line:?}");
        }
        assert!(parsed(&json!({"type": "log", "level": "loud"})).is_err());
    }

    #[test]
    fn the_greeting_is_read() {
        let ready = json!({"type": "ready", "protocol": 1, "types": ["a"], "inflight": 3, "ahead": 8, "sdk": "x \\ 1", "new": 1});
        let (types, sdk) = (Some(vec!["a".to_owned()]), "x \\ 1".to_owned());
        let want = Ready { protocol: 1, types, inflight: 3, ahead: 8, sdk };
        assert_eq!(parsed(&ready), Ok(Message::Ready(want)));
        let first = json!({"type": "ready", "protocol": 1});
        let want = Ready { protocol: 1, types: None, inflight: 1, ahead: 0, sdk: String::new() };
        assert_eq!(parsed(&first), Ok(Message::Ready(want)), "what the first programs said");
        for (line, crash) in [(json!({"type": "bye"}), false), (json!({"type": "bye", "crash": true}), true)]
        {
            assert_eq!(parsed(&line), Ok(Message::Bye { crash }));
        }
    }

    #[test]
    fn reports_are_read_and_made_safe() {
        let progress =
            parsed(&json!({"type": "progress", "ref": "1", "percent": 142.5, "message": "a\u{1b}b"}));
        let note = r"a\u{1b}b".to_owned();
        assert_eq!(progress, Ok(Message::Progress { reference: Some(1), percent: Some(100), note }));
        let log = parsed(&json!({"type": "log", "level": "warn", "message": "x", "fields": {"a": 1}}));
        let text = r#"x {"a":1}"#.to_owned();
        assert_eq!(log, Ok(Message::Log { reference: None, level: tracing::Level::WARN, text }));
    }

    proptest! {
        #[test]
        fn no_line_panics_or_is_quoted_at_length(line: Vec<u8>) {
            if let Err(why) = parse(&line) {
                prop_assert!(why.len() < 3000 && !why.chars().any(char::is_control), "{why:?}");
            }
        }
    }
}
