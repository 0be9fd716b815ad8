//! The configuration as a tree of values that remember where they came from.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// One value or table, and its source.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// Where it was set, for people to read: `streamfleet.toml:12`, or the name of a variable or flag.
    pub(super) origin: Arc<str>,
}

/// What a node holds.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    Leaf(Value),
    Table(BTreeMap<String, Node>),
}

impl Node {
    /// Creates an empty table.
    pub(super) fn table(origin: &Arc<str>) -> Self {
        Self { kind: Kind::Table(BTreeMap::new()), origin: Arc::clone(origin) }
    }

    /// Creates a value.
    pub(super) fn leaf(value: Value, origin: &Arc<str>) -> Self {
        Self { kind: Kind::Leaf(value), origin: Arc::clone(origin) }
    }

    /// Returns the node at exactly this path.
    pub(super) fn get(&self, path: &[String]) -> Option<&Self> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        match &self.kind {
            Kind::Table(entries) => entries.get(first)?.get(rest),
            Kind::Leaf(_) => None,
        }
    }

    /// Returns the node at this path, or the nearest one above it.
    pub(super) fn nearest(&self, path: &[String]) -> &Self {
        let deeper = match (&self.kind, path.first()) {
            (Kind::Table(entries), Some(first)) => entries.get(first),
            (Kind::Table(_), None) | (Kind::Leaf(_), _) => None,
        };
        deeper.map_or(self, |node| node.nearest(&path[1..]))
    }

    /// Removes the node at this path, or the nearest one above it, and the tables that this leaves empty. Returns false
    /// if that would be the root.
    pub(super) fn remove(&mut self, path: &[String]) -> bool {
        let (Kind::Table(entries), Some((first, rest))) = (&mut self.kind, path.split_first()) else {
            return false;
        };
        let Some(node) = entries.get_mut(first) else { return false };
        // An empty table has no meaning.
        let gone = !node.remove(rest) || matches!(&node.kind, Kind::Table(left) if left.is_empty());
        if gone {
            entries.remove(first);
        }
        true
    }

    /// Removes the node at exactly this path, if there is one.
    pub(super) fn remove_exactly(&mut self, path: &[&str]) {
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        if self.get(&path).is_some() {
            self.remove(&path);
        }
    }

    /// Returns the table at this path. It is created if it is missing, and it replaces a value that is in its place.
    pub(super) fn make_table(&mut self, path: &[String], origin: &Arc<str>) -> &mut BTreeMap<String, Self> {
        if matches!(self.kind, Kind::Leaf(_)) {
            *self = Self::table(origin);
        }
        let Kind::Table(entries) = &mut self.kind else { unreachable!("made a table above") };
        match path.split_first() {
            None => entries,
            Some((first, rest)) => {
                entries.entry(first.clone()).or_insert_with(|| Self::table(origin)).make_table(rest, origin)
            }
        }
    }

    /// Merges `over` into this tree: tables are merged, values are replaced. A choice (`handler`, `backoff`) is
    /// replaced as a whole if `over` makes a different one.
    pub(super) fn merge(&mut self, over: Self) {
        self.merge_at(over, 0);
    }

    fn merge_at(&mut self, over: Self, depth: usize) {
        let Self { kind: Kind::Table(new), origin } = over else {
            *self = over;
            return;
        };
        let Kind::Table(entries) = &mut self.kind else {
            *self = Self { kind: Kind::Table(new), origin };
            return;
        };
        for (key, node) in new {
            match entries.get_mut(&key) {
                // A payload is replaced as a whole: parts of two payloads do not make one.
                Some(old) if depth == 2 && key == "payload" => *old = node,
                Some(old) if matches!(depth, 2 | 4) && is_choice(&key) && !old.shares_key(&node) => {
                    *old = node;
                }
                // Each class has one action.
                Some(old) if matches!(depth, 2 | 4 | 6) && key == "errors" => old.replace_entries(node),
                Some(old) => old.merge_at(node, depth + 1),
                None => {
                    entries.insert(key, node);
                }
            }
        }
    }

    /// Adds the entries of `over`, which replace those with the same keys as a whole.
    fn replace_entries(&mut self, over: Self) {
        match (&mut self.kind, over.kind) {
            (Kind::Table(old), Kind::Table(new)) => old.extend(new),
            (kind, new) => *kind = new,
        }
    }

    fn shares_key(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Table(old), Kind::Table(new)) => new.keys().any(|key| old.contains_key(key)),
            (Kind::Leaf(_), _) | (_, Kind::Leaf(_)) => false,
        }
    }

    /// Returns the values without their sources.
    pub(super) fn value(&self) -> Value {
        match &self.kind {
            Kind::Leaf(value) => value.clone(),
            Kind::Table(entries) => {
                Value::Object(entries.iter().map(|(key, node)| (key.clone(), node.value())).collect())
            }
        }
    }
}

/// Returns true for keys of a type, or of one of its steps, whose table names one of several kinds.
fn is_choice(key: &str) -> bool {
    matches!(key, "handler" | "backoff")
}
