//! Prints the effective configuration: secrets masked, each value with its source.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::Effective;
use crate::broker;
use crate::job::bounds::dotted;

/// The sections that say how a worker does its work. The others may differ between processes that do the same.
const OF_WORK: [&str; 7] = ["worker", "queues", "dead", "pools", "types", "cron", "events"];

/// The text that replaces a secret.
const MASK: &str = "***";

/// Serializes the connection to Redis without the password.
pub(super) fn redis<S: Serializer>(config: &broker::Config, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown<'a> {
        url: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        url_file: &'a Option<std::path::PathBuf>,
        #[serde(skip_serializing_if = "Option::is_none")]
        password_file: &'a Option<std::path::PathBuf>,
        namespace: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        tls: Option<&'a broker::Tls>,
    }
    let shown = Shown {
        url: config.shown(),
        url_file: &config.url_file,
        password_file: &config.password_file,
        namespace: config.namespace.as_str(),
        tls: Some(&config.tls).filter(|tls| **tls != broker::Tls::default()),
    };
    shown.serialize(to)
}

/// Masks the values of a handler or a pool that may be secret.
fn mask(section: &mut Value) {
    for secrets in ["/env", "/handler/exec/env", "/handler/pool/env", "/handler/http/headers"] {
        let values = section.pointer_mut(secrets).and_then(Value::as_object_mut);
        values.into_iter().flat_map(Map::values_mut).for_each(|value| *value = MASK.into());
    }
    // The query may have a key. The URL has no user and no password.
    if let Some(Value::String(url)) = section.pointer_mut("/handler/http/url")
        && let Some((address, _)) = url.split_once('?')
    {
        *url = format!("{address}?{MASK}");
    }
}

impl Effective {
    /// Returns the values in effect, with `***` in place of secrets.
    pub fn shown(&self) -> Value {
        let mut value = serde_json::to_value(&self.config).expect("every key is a string");
        let pools = value.get_mut("pools").and_then(Value::as_object_mut);
        pools.into_iter().flat_map(Map::values_mut).for_each(mask);
        let types = value.get_mut("types").and_then(Value::as_object_mut);
        for section in types.into_iter().flat_map(Map::values_mut) {
            mask(section);
            let steps = section.get_mut("steps").and_then(Value::as_object_mut);
            steps.into_iter().flat_map(Map::values_mut).for_each(mask);
        }
        value
    }

    /// Returns a short text that is the same for processes that are to do their work alike. It tells no secret.
    pub(super) fn digest(&self) -> String {
        let shown = self.shown();
        let mut hasher = DefaultHasher::new();
        OF_WORK.map(|section| shown.get(section).map(Value::to_string)).hash(&mut hasher);
        format!("{:08x}", hasher.finish() >> 32)
    }

    /// Returns the same values as TOML, each with its source as a comment.
    pub fn toml(&self) -> String {
        let mut text = String::new();
        let shown = self.shown();
        for section in [
            "redis",
            "worker",
            "queues",
            "dead",
            "pools",
            "types",
            "cron",
            "events",
            "alerts",
            "telemetry",
            "console",
        ] {
            let path = vec![section.to_owned()];
            match shown[section].as_object() {
                None if matches!(section, "pools" | "alerts") => {}
                Some(entries) if matches!(section, "queues" | "pools" | "types" | "cron") => {
                    for (name, entry) in entries {
                        self.section(&mut text, &[section.to_owned(), name.clone()], entry);
                    }
                }
                _ => self.section(&mut text, &path, &shown[section]),
            }
        }
        text
    }

    fn section(&self, text: &mut String, path: &[String], value: &Value) {
        let gap = if text.is_empty() { "" } else { "\n" };
        let mut lines = format!("{gap}[{}]\n", dotted(path));
        let (tables, values): (Vec<_>, Vec<_>) = value
            .as_object()
            .into_iter()
            .flatten()
            .partition(|(_, value)| path.len() == 1 && value.is_object());
        for (key, value) in values {
            let at = [path, std::slice::from_ref(key)].concat();
            let origin = self.tree.get(&at).map_or("default", |node| &node.origin);
            let value =
                toml::Value::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string());
            // Writing to a String cannot fail.
            writeln!(lines, "{key} = {value}  # {origin}").expect("writing to a String cannot fail");
        }
        text.push_str(&lines);
        for (key, table) in tables {
            self.section(text, &[path, std::slice::from_ref(key)].concat(), table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sources;

    #[test]
    fn the_query_of_an_endpoint_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        let handler = "handler.http.url = \"https://example.com/jobs?key=canary\"";
        let toml = format!("[types.a]\n{handler}\n[types.b.steps.one]\nkind = \"auto\"\n{handler}\n");
        std::fs::write(&file, toml).unwrap();
        let effective = Sources::default().files([file]).read().unwrap();
        for shown in [effective.toml(), effective.shown().to_string()] {
            let masked = shown.matches("https://example.com/jobs?***").count();
            assert!(masked == 2 && !shown.contains("canary"), "{shown}");
        }
    }
}
