//! Reads a tree into a [`Config`] and finds all problems in one pass: a value that does not fit is recorded and
//! removed, and reading starts again.

use serde_json::Value;
use serde_path_to_error::Segment;

use super::problem::{Invalid, Problem, reworded};
use super::sections::Config;
use super::source::Sources;
use super::tree::{Kind, Node};
use super::{Effective, alert, check, database};
use crate::job::OutOfBounds;

impl Sources {
    /// Reads, merges and checks all sources.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with everything that is wrong in all sources. No message contains a password.
    pub fn read(&self) -> Result<Effective, Invalid> {
        let (tree, mut problems) = self.merged();
        let mut unread = Vec::new();
        let config = typed(tree.clone(), &mut problems, &mut unread);
        for OutOfBounds { path, reason, .. } in check::run(&config) {
            // If a key beside it could not be read, a default may look wrong only for that reason.
            let follows = unread.iter().any(|parent| path.starts_with(parent));
            if tree.get(&path).is_some() || !follows {
                problems.push(Problem::at(&path, reason, &tree));
            }
        }
        problems.extend(alert::secrets_in_files(&tree));
        problems.extend(database::passwords_in_files(&tree));
        Invalid::unless_none(problems)?;
        Ok(Effective { config, tree })
    }
}

/// Reads the usable part of the tree. Values that do not fit become problems; the tables that held them are added to
/// `unread`.
fn typed(mut tree: Node, problems: &mut Vec<Problem>, unread: &mut Vec<Vec<String>>) -> Config {
    loop {
        let error = match serde_path_to_error::deserialize::<_, Config>(tree.value()) {
            Ok(config) => return config,
            Err(error) => error,
        };
        let path = keys(error.path());
        let reason = reworded(&without_secrets(&error.inner().to_string(), &path, tree.nearest(&path)));
        let reason = tree.get(&path).and_then(|node| instead(&reason, &path, node)).unwrap_or(reason);
        problems.push(Problem::at(&path, reason, &tree));
        unread.push(path[..path.len().saturating_sub(1)].to_vec());
        if !tree.remove(&path) {
            return Config::default();
        }
    }
}

/// Returns a clearer reason for a mistake that many make.
fn instead(reason: &str, path: &[String], node: &Node) -> Option<String> {
    match (path, &node.kind) {
        ([section, name, part], Kind::Table(_)) if matches!(&**section, "types" | "pools" | "cron") => {
            let quoted = format!("unknown key; a name with a dot is quoted: [{section}.\"{name}.{part}\"]");
            reason.starts_with("unknown key; expected one of").then_some(quoted)
        }
        ([.., key], Kind::Leaf(Value::Array(_))) if key == "backoff" => {
            Some("must be a table that names one kind, such as { list = [\"10s\", \"30s\"] }".to_owned())
        }
        _ => None,
    }
}

/// Returns the keys down to the place of an error. The items of a list are not distinguished.
fn keys(path: &serde_path_to_error::Path) -> Vec<String> {
    let key = |segment: &Segment| match segment {
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Seq { .. } | Segment::Unknown => None,
    };
    path.iter().map_while(key).collect()
}

/// Returns `reason` without the value if the value may be secret: addresses contain passwords, and programs get tokens.
fn without_secrets(reason: &str, path: &[String], node: &Node) -> String {
    let Kind::Leaf(value) = &node.kind else { return reason.to_owned() };
    // Rules contain codes and expressions, and a kind is a word, so the message may quote a wrong one.
    let rules = path.get(4).is_some_and(|key| key == "rules") || path.last().is_some_and(|key| key == "kind");
    let private =
        !rules && path.iter().any(|key| matches!(&**key, "redis" | "env" | "headers" | "handler" | "sinks"));
    let mut safe = reason.to_owned();
    for text in texts(value) {
        if !text.is_empty() && (private || text.contains("://")) {
            safe = safe.replace(&format!("{text:?}"), "…").replace(text, "…");
        }
    }
    safe
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(entries) => entries.values().flat_map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Sources;

    fn told(toml: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        std::fs::write(&file, toml).unwrap();
        Sources::default().files([file]).read().unwrap_err().problems[0].to_string()
    }

    #[test]
    fn a_name_with_a_dot_that_is_not_quoted_is_explained() {
        let of_type = told("[types.mail.send]\nhandler = \"noop\"\n");
        let want = "types.mail.send: unknown key; a name with a dot is quoted: [types.\"mail.send\"] (";
        assert!(of_type.starts_with(want), "{of_type}");
        let of_step = told("[types.mail.setps.a]\nkind = \"auto\"\n");
        assert!(of_step.contains("did you mean \"steps\"?"), "{of_step}");
    }

    #[test]
    fn a_list_of_pauses_is_answered_with_how_to_write_one() {
        let told = told("[types.a]\nhandler = \"noop\"\nbackoff = [10, 30, 60]\n");
        let want = "types.a.backoff: must be a table that names one kind, such as { list = [";
        assert!(told.starts_with(want), "{told}");
    }

    #[test]
    fn lark_is_known_by_its_other_name() {
        let told = told("[alerts.sinks.ops]\nkind = \"lark\"\n");
        assert!(told.starts_with("alerts.sinks.ops.kind: unknown value; did you mean \"feishu\"?"), "{told}");
    }
}
