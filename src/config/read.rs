//! From a tree to a [`Config`], with everything that is wrong found in one go: a value that does not fit is noted and
//! taken away, and reading begins again.

use serde_json::Value;
use serde_path_to_error::Segment;

use super::problem::{Invalid, Problem, reworded};
use super::sections::Config;
use super::source::Sources;
use super::tree::{Kind, Node};
use super::{Effective, check};

impl Sources {
    /// Reads, joins and checks.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with everything that is wrong, in all sources. No text in it holds a password.
    pub fn read(&self) -> Result<Effective, Invalid> {
        let (tree, mut problems) = self.merged();
        let mut unread = Vec::new();
        let config = typed(tree.clone(), &mut problems, &mut unread);
        for (path, reason) in check::run(&config) {
            // A default that is wrong beside a key that could not be read may be wrong only for that.
            let follows = unread.iter().any(|parent| path.starts_with(parent));
            if tree.get(&path).is_some() || !follows {
                problems.push(Problem::at(&path, reason, &tree));
            }
        }
        Invalid::unless_none(problems)?;
        Ok(Effective { config, tree })
    }
}

/// What of the tree is usable. What is not becomes problems; the tables that had it are `unread` in part.
fn typed(mut tree: Node, problems: &mut Vec<Problem>, unread: &mut Vec<Vec<String>>) -> Config {
    loop {
        let error = match serde_path_to_error::deserialize::<_, Config>(tree.value()) {
            Ok(config) => return config,
            Err(error) => error,
        };
        let path = keys(error.path());
        let reason = reworded(&without_secrets(&error.inner().to_string(), &path, tree.nearest(&path)));
        problems.push(Problem::at(&path, reason, &tree));
        unread.push(path[..path.len().saturating_sub(1)].to_vec());
        if !tree.remove(&path) {
            return Config::default();
        }
    }
}

/// The keys down to where an error was found. What is inside a list is not told apart.
fn keys(path: &serde_path_to_error::Path) -> Vec<String> {
    let key = |segment: &Segment| match segment {
        Segment::Map { key } => Some(key.clone()),
        Segment::Enum { variant } => Some(variant.clone()),
        Segment::Seq { .. } | Segment::Unknown => None,
    };
    path.iter().map_while(key).collect()
}

/// `reason` without the value, where that may be a secret: addresses carry passwords, programs get tokens.
fn without_secrets(reason: &str, path: &[String], node: &Node) -> String {
    let Kind::Leaf(value) = &node.kind else { return reason.to_owned() };
    // Rules hold codes and expressions, and a word that is wrong is told.
    let rules = path.get(4).is_some_and(|key| key == "rules");
    let private = !rules && path.iter().any(|key| matches!(&**key, "redis" | "env" | "headers" | "handler"));
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
