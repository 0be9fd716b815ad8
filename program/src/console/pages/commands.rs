//! Commands that submit the same job: for a shell, PHP, Python and curl. What a job contains cannot leave its quotes.

use serde_json::{Value, json};
use streamfleet::job::{Encoding, Lane, Namespace, QueueName};
use streamfleet_engine::admin::stream_name;

use super::terms::Terms;
use crate::output::shell_word;

/// A job to be submitted.
pub(super) struct Order<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) queue: &'a QueueName,
    pub(super) lane: Lane,
    pub(super) job_type: &'a str,
    /// Its payload; a payload that is not text has no commands.
    pub(super) payload: &'a str,
    pub(super) encoding: Encoding,
    pub(super) headers: Vec<(String, String)>,
    pub(super) terms: Terms,
}

impl Order<'_> {
    /// The commands, with the name of each, but those that cannot submit this job.
    pub(super) fn commands(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("streamfleet", self.streamfleet()),
            ("redis-cli", Some(self.redis_cli())),
            ("PHP", Some(self.php())),
            ("Python", Some(self.python())),
            ("curl", self.curl()),
        ];
        all.into_iter().filter_map(|(name, command)| Some((name, command?))).collect()
    }

    /// The fields of the entry.
    fn fields(&self) -> Vec<(String, String)> {
        let mut fields = vec![("type".to_owned(), self.job_type.to_owned())];
        if !self.payload.is_empty() {
            fields.push(("payload".to_owned(), self.payload.to_owned()));
        }
        if self.encoding != Encoding::Json {
            fields.push(("encoding".to_owned(), self.encoding.as_str().to_owned()));
        }
        fields.extend(self.headers.iter().map(|(name, value)| (format!("h.{name}"), value.clone())));
        fields.extend(self.terms.wire());
        fields
    }

    fn stream(&self) -> String {
        stream_name(self.namespace, self.queue, self.lane)
    }

    /// `None` if the command line would not submit this payload, but read a file or its standard input, or take it or the type
    /// for an option, or if it has no option for one of the terms.
    fn streamfleet(&self) -> Option<String> {
        if self.payload.starts_with(['@', '-']) || self.job_type.starts_with('-') {
            return None;
        }
        let mut words = vec!["streamfleet enqueue".to_owned(), shell(self.job_type)];
        if !self.payload.is_empty() {
            words.push(shell(self.payload));
        }
        words.push(format!("--queue {}", shell(self.queue.as_str())));
        if self.lane != Lane::Normal {
            words.push(format!("--lane {}", self.lane));
        }
        if self.encoding != Encoding::Json {
            words.push(format!("--encoding {}", self.encoding.as_str()));
        }
        words.extend(
            self.headers
                .iter()
                .map(|(name, value)| format!("--header {}", shell(&format!("{name}={value}")))),
        );
        words.extend(self.terms.options()?.into_iter().map(|(option, value)| match option {
            "--track" => option.to_owned(),
            _ => format!("{option}={}", shell(&value)),
        }));
        Some(words.join(" "))
    }

    fn redis_cli(&self) -> String {
        let fields = self.fields().into_iter().flat_map(|(name, value)| [shell(&name), shell(&value)]);
        let fields: Vec<String> = fields.collect();
        format!("redis-cli XADD {} '*' {}", shell(&self.stream()), fields.join(" "))
    }

    fn php(&self) -> String {
        let fields = self
            .fields()
            .into_iter()
            .map(|(name, value)| format!("    {} => {},\n", php(&name), php(&value)));
        format!("$redis->xAdd({}, '*', [\n{}]);", php(&self.stream()), fields.collect::<String>())
    }

    fn python(&self) -> String {
        let fields = self
            .fields()
            .into_iter()
            .map(|(name, value)| format!("    {}: {},\n", text(&name), text(&value)));
        format!("client.xadd({}, {{\n{}}})", text(&self.stream()), fields.collect::<String>())
    }

    /// `None` if the API has no member for one of the terms.
    fn curl(&self) -> Option<String> {
        let payload = match self.encoding {
            Encoding::Json => serde_json::from_str(self.payload).unwrap_or(Value::Null),
            Encoding::Msgpack | Encoding::Raw => Value::from(self.payload),
        };
        let mut body = json!({ "type": self.job_type, "payload": payload });
        if self.encoding != Encoding::Json {
            body["encoding"] = self.encoding.as_str().into();
        }
        if self.lane != Lane::Normal {
            body["lane"] = self.lane.as_str().into();
        }
        if !self.headers.is_empty() {
            body["headers"] = self
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
                .collect();
        }
        for (name, value) in self.terms.members()? {
            body[name] = value;
        }
        Some(format!(
            "curl -H \"Authorization: Bearer $TOKEN\" -H 'Content-Type: application/json' \\\n  -d {} \\\n  \"$CONSOLE\"/api/v1/queues/{}/jobs",
            shell(&body.to_string()),
            self.queue
        ))
    }
}

/// A word for a shell. Control characters, which a terminal would act on when the command is pasted, are written as escapes.
fn shell(word: &str) -> String {
    if !word.chars().any(char::is_control) {
        return shell_word(word);
    }
    let quoted = word.chars().map(|c| match c {
        '\'' => "\\'".to_owned(),
        '\\' => "\\\\".to_owned(),
        c if c.is_control() => bytes_of(c),
        c => c.to_string(),
    });
    format!("$'{}'", quoted.collect::<String>())
}

/// A text for PHP.
fn php(value: &str) -> String {
    if !value.chars().any(char::is_control) {
        return format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"));
    }
    let quoted = value.chars().map(|c| match c {
        '"' | '\\' | '$' => format!("\\{c}"),
        c if c.is_control() => bytes_of(c),
        c => c.to_string(),
    });
    format!("\"{}\"", quoted.collect::<String>())
}

/// A text for Python: JSON's texts are such, too, but for characters beyond 16 bits, which stay as they are.
fn text(value: &str) -> String {
    let quoted = value.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", quoted.collect::<String>())
}

/// The bytes of a character as escapes.
fn bytes_of(c: char) -> String {
    c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\x{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order<'a>(namespace: &'a Namespace, queue: &'a QueueName, payload: &'a str) -> Order<'a> {
        Order {
            namespace,
            queue,
            lane: Lane::High,
            job_type: "mail.send",
            payload,
            encoding: Encoding::Json,
            headers: vec![("tenant".to_owned(), "it's".to_owned())],
            terms: Terms::default(),
        }
    }

    #[test]
    fn each_command_contains_the_whole_job() {
        let (namespace, queue) = ("sf".parse().unwrap(), "mail".parse().unwrap());
        let commands = order(&namespace, &queue, r#"{"to":"ann"}"#).commands();
        for (name, text) in &commands {
            assert!(text.contains("mail.send") && text.contains("ann"), "{name}: {text}");
        }
        assert_eq!(
            commands[1].1,
            r#"redis-cli XADD 'sf:{mail}:jobs:high' '*' type mail.send payload '{"to":"ann"}' h.tenant 'it'\''s'"#
        );
    }

    #[test]
    fn each_command_keeps_the_terms() {
        let (namespace, queue) = ("sf".parse().unwrap(), "mail".parse().unwrap());
        let terms = |fields| Terms { id: Some("order-7".to_owned()), when: None, fields };
        let with = |fields| Order { terms: terms(fields), ..order(&namespace, &queue, "{}") }.commands();
        let commands = with(vec![("max_attempts", "3".to_owned()), ("tracking", "all".to_owned())]);
        assert!(commands[0].1.ends_with("--id=order-7 --max-attempts=3 --track"), "{}", commands[0].1);
        assert!(commands[1].1.ends_with(" id order-7 max_attempts 3 tracking all"), "{}", commands[1].1);
        assert!(commands[4].1.contains(r#""max_attempts":3"#), "{}", commands[4].1);
        let names = with(vec![("batch", "b-1".to_owned())]).into_iter().map(|(name, _)| name);
        assert_eq!(names.collect::<Vec<_>>(), ["redis-cli", "PHP", "Python"]);
    }

    #[test]
    fn no_command_reads_what_a_payload_names() {
        let (namespace, queue) = ("sf".parse().unwrap(), "mail".parse().unwrap());
        let named = |payload| {
            let order = Order { encoding: Encoding::Raw, ..order(&namespace, &queue, payload) };
            order.commands().into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        let others = ["redis-cli", "PHP", "Python", "curl"];
        for payload in ["@/etc/passwd", "@", "-", "--help", "-1"] {
            assert_eq!(named(payload), others, "{payload}");
        }
        assert_eq!(named("ann@example.com")[..2], ["streamfleet", "redis-cli"]);
        let typed = Order { job_type: "--help", ..order(&namespace, &queue, "{}") };
        assert_eq!(typed.commands()[0].0, "redis-cli");
    }

    #[test]
    fn what_a_job_contains_stays_in_its_quotes() {
        let (namespace, queue) = ("sf".parse().unwrap(), "mail".parse().unwrap());
        let hostile = "\"'; rm -rf /; `x` $(y) $z \\ \u{1b}[0m\n";
        let order = order(&namespace, &queue, hostile);
        let script = order.redis_cli().replacen("redis-cli", "printf '%s\\0'", 1);
        let printed = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        let words = String::from_utf8(printed.stdout).unwrap();
        let words: Vec<&str> = words.split_terminator('\0').collect();
        assert_eq!(words[6], hostile);
        assert_eq!(words[8], "it's");
        for (name, text) in order.commands() {
            assert!(!text.contains('\u{1b}'), "{name}");
        }
        assert_eq!(php("a'\\"), r"'a\'\\'");
        assert_eq!(php("$x\n"), r#""\$x\x0a""#);
        assert_eq!(text("a\"\\\n"), "\"a\\\"\\\\\\u000a\"");
    }
}
