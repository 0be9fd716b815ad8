//! The sources of the configuration: files, then the environment, then flags. Later ones win.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use streamfleet::traces::Traces;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;
use super::schemas;
use super::tree::{Kind, Node};

/// The file that is read, if it exists, when no file is named.
pub const DEFAULT_FILE: &str = "streamfleet.toml";

/// Variables with this prefix set keys. The second underscore keeps out variables such as Kubernetes' own
/// `STREAMFLEET_PORT`.
pub const PREFIX: &str = "STREAMFLEET__";

/// Variables that OpenTelemetry programs share, and the sections and keys of `telemetry` that they set; later ones win. All
/// other sources take precedence over them.
const SHARED: [(&str, &str, &str); 12] = [
    ("OTEL_SERVICE_NAME", "traces", "service_name"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "traces", "endpoint"),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "traces", "endpoint"),
    ("OTEL_TRACES_EXPORTER", "traces", "endpoint"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "traces", "headers"),
    ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "traces", "headers"),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "metrics", "endpoint"),
    ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "metrics", "endpoint"),
    ("OTEL_METRICS_EXPORTER", "metrics", "endpoint"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "metrics", "headers"),
    ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "metrics", "headers"),
    ("OTEL_METRIC_EXPORT_INTERVAL", "metrics", "interval"),
];

/// Returns a variable's value as the key has it; `None` if it says nothing here.
fn shared(name: &str, value: &str) -> Option<String> {
    match (name, value) {
        ("OTEL_TRACES_EXPORTER" | "OTEL_METRICS_EXPORTER", "none") => Some("off".to_owned()),
        ("OTEL_TRACES_EXPORTER" | "OTEL_METRICS_EXPORTER", _) => None,
        // In milliseconds.
        ("OTEL_METRIC_EXPORT_INTERVAL", _) => Some(format!("{value}ms")),
        _ => Some(value.to_owned()),
    }
}

/// The sources of the configuration.
///
/// ```no_run
/// use streamfleet_service::config::{Flags, Sources};
///
/// # fn example() -> Result<(), streamfleet_service::config::Invalid> {
/// let flags = Flags::default().queues(["mail"]);
/// let effective = Sources::from_environment().files(["/etc/streamfleet.toml"]).flags(flags).read()?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Sources {
    /// Files; each must exist. If there are none, [`DEFAULT_FILE`] in the current folder is read if it exists.
    pub files: Vec<PathBuf>,
    /// Variables. Those without [`PREFIX`] are ignored, except OpenTelemetry's, such as `OTEL_EXPORTER_OTLP_ENDPOINT` and
    /// `OTEL_SERVICE_NAME`.
    pub environment: Vec<(OsString, OsString)>,
    /// The flags of the command line.
    pub flags: Flags,
}

/// The flags of the command line.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Flags {
    /// `--redis`.
    pub redis: Option<String>,
    /// `--namespace`.
    pub namespace: Option<String>,
    /// `--queues`: serve only these.
    pub queues: Vec<String>,
    /// `--concurrency`: for every queue that is served.
    pub concurrency: Option<usize>,
}

impl Sources {
    /// Returns [`DEFAULT_FILE`] and this process's environment.
    pub fn from_environment() -> Self {
        Self::of_process(Vec::new(), Flags::default())
    }

    /// Returns these files and flags with this process's environment.
    pub fn of_process(files: Vec<PathBuf>, flags: Flags) -> Self {
        Self { files, environment: std::env::vars_os().collect(), flags }
    }

    setters! {
        /// Sets the files, of which each must exist; later ones win. Without any, [`DEFAULT_FILE`] is read if it exists.
        files: impl IntoIterator<Item = impl Into<PathBuf>> => files.into_iter().map(Into::into).collect();
        /// Sets the variables, each a name and a value; by default, there are none.
        environment: impl IntoIterator<Item = (OsString, OsString)> => environment.into_iter().collect();
        /// Sets the flags of the command line.
        flags: Flags;
    }

    /// Merges all sources into one tree. Also returns what could not be read.
    pub(super) fn merged(&self) -> (Node, Vec<Problem>) {
        let mut tree = Node::table(&Arc::from(""));
        let mut problems = Vec::new();
        if Traces::AVAILABLE {
            self.set_shared(&mut tree);
        }
        let standard = [PathBuf::from(DEFAULT_FILE)];
        let files = if self.files.is_empty() { &standard[..] } else { &self.files };
        for file in files {
            match read(file) {
                Ok(Some(layer)) => tree.merge(layer),
                Ok(None) if self.files.is_empty() => {}
                Ok(None) => problems.push(Problem::with(file.display().to_string(), "file not found")),
                Err(problem) => problems.push(problem),
            }
        }
        let prefixed =
            |(name, _): &&(OsString, OsString)| name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        let mut variables: Vec<_> = self.environment.iter().filter(prefixed).collect();
        variables.sort();
        for (name, value) in variables {
            match (name.to_str(), value.to_str()) {
                (Some(name), Some(value)) => set_variable(&mut tree, name, value),
                _ => problems.push(Problem::with(name.to_string_lossy(), "is not UTF-8")),
            }
        }
        self.flags.apply(&mut tree);
        (tree, problems)
    }
}

impl Sources {
    fn set_shared(&self, tree: &mut Node) {
        for (name, section, key) in SHARED {
            let set = self.environment.iter().find(|(set, value)| set == name && !value.is_empty());
            let value = set.and_then(|(_, value)| value.to_str()).and_then(|value| shared(name, value));
            let Some(value) = value else { continue };
            let (origin, path) = (Arc::from(name), ["telemetry".to_owned(), section.to_owned()]);
            tree.make_table(&path, &origin).insert(key.to_owned(), Node::leaf(value.into(), &origin));
        }
    }
}

impl Flags {
    setters! {
        /// Sets the address of Redis; `None` leaves it as the other sources have it.
        redis: impl Into<Option<String>> => redis.into();
        /// Sets the first part of every key; `None` leaves it as the other sources have it.
        namespace: impl Into<Option<String>> => namespace.into();
        /// Sets the only queues to serve; none for those that the other sources name.
        queues: impl IntoIterator<Item = impl Into<String>> => queues.into_iter().map(Into::into).collect();
        /// Sets the concurrency of every queue that is served; `None` leaves it as the other sources have it.
        concurrency: impl Into<Option<usize>> => concurrency.into();
    }

    fn apply(&self, tree: &mut Node) {
        let set = |tree: &mut Node, key: &str, value: &Option<String>, flag: &str| {
            let origin = Arc::from(flag);
            if let Some(value) = value {
                let leaf = Node::leaf(value.clone().into(), &origin);
                tree.make_table(&["redis".to_owned()], &origin).insert(key.to_owned(), leaf);
            }
        };
        set(tree, "url", &self.redis, "--redis");
        set(tree, "namespace", &self.namespace, "--namespace");
        if self.redis.is_some() {
            // Otherwise a file with another address would win over the flag.
            tree.remove_exactly(&["redis", "url_file"]);
        }
        if !self.queues.is_empty() {
            let origin = Arc::from("--queues");
            let queues = tree.make_table(&["queues".to_owned()], &origin);
            queues.retain(|name, _| self.queues.contains(name));
            for name in &self.queues {
                queues.entry(name.clone()).or_insert_with(|| Node::table(&origin));
            }
        }
        if let Some(concurrency) = self.concurrency {
            let origin = Arc::from("--concurrency");
            let queues = tree.make_table(&["queues".to_owned()], &origin);
            if queues.is_empty() {
                queues.insert("default".to_owned(), Node::table(&origin));
            }
            for queue in queues.values_mut() {
                let leaf = Node::leaf(concurrency.into(), &origin);
                queue.make_table(&[], &origin).insert("concurrency".to_owned(), leaf);
            }
        }
    }
}

fn set_variable(tree: &mut Node, name: &str, value: &str) {
    let origin = Arc::from(name);
    let mut path: Vec<String> = name[PREFIX.len()..].split("__").map(str::to_lowercase).collect();
    // The names of sinks stand one level deeper than the others.
    let at = if path.starts_with(&["alerts".to_owned(), "sinks".to_owned()]) { 2 } else { 1 };
    if let Some(own) = path.get(at)
        && let Some(known) = known_name(tree, &path[..at], own)
    {
        path[at] = known;
    }
    let Some(last) = path.pop() else { return };
    tree.make_table(&path, &origin).insert(last, Node::leaf(value.into(), &origin));
}

/// Returns the queue, type, recurring job or sink from the files that a variable refers to. Shells allow only underscores in
/// a variable's name, so `REPORT_GENERATE` refers to `report.generate` if no other type matches.
fn known_name(tree: &Node, table: &[String], own: &str) -> Option<String> {
    let is_named = match table {
        [section] => matches!(section.as_str(), "queues" | "pools" | "types" | "cron"),
        [_, section] => section == "sinks",
        _ => false,
    };
    let Kind::Table(names) = &tree.get(table).filter(|_| is_named)?.kind else { return None };
    let mut alike = names.keys().filter(|name| name.replace(['.', '-'], "_") == own);
    let only = alike.next()?.clone();
    (!names.contains_key(own) && alike.next().is_none()).then_some(only)
}

/// Reads a file as a tree; `None` if the file does not exist.
fn read(path: &Path) -> Result<Option<Node>, Problem> {
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Problem::with(name, format!("cannot be read: {error}"))),
    };
    let starts = text.match_indices('\n').map(|(end, _)| end + 1).collect();
    let lines = Lines { name: &name, starts };
    let table = DeTable::parse(&text).map_err(|error| {
        // The error's own text quotes the line, which may contain a password.
        let at = error.span().map_or(0, |span| span.start);
        Problem::with(lines.origin(at).to_string(), format!("is not TOML: {}", error.message()))
    })?;
    let origin = lines.origin(0);
    let mut layer = lines.table(table.get_ref(), &origin);
    schemas::anchor(&mut layer, path);
    Ok(Some(layer))
}

/// Turns the parser's output into nodes that know their lines.
struct Lines<'a> {
    name: &'a str,
    /// Where each line except the first begins.
    starts: Vec<usize>,
}

impl Lines<'_> {
    fn origin(&self, at: usize) -> Arc<str> {
        let line = 1 + self.starts.partition_point(|start| *start <= at);
        Arc::from(format!("{}:{line}", self.name))
    }

    fn table(&self, table: &DeTable<'_>, origin: &Arc<str>) -> Node {
        let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let key: &std::borrow::Cow<'_, str> = key.get_ref();
            let origin = self.origin(value.span().start);
            let table = value.get_ref().as_table();
            let leaf = || Node::leaf(json(value.get_ref()), &origin);
            let node = table.map_or_else(leaf, |table| self.table(table, &origin));
            (key.to_string(), node)
        };
        Node { kind: Kind::Table(table.iter().map(entry).collect()), origin: Arc::clone(origin) }
    }
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            i64::from_str_radix(&digits, number.radix()).map_or_else(|_| digits.into(), Value::from)
        }
        DeValue::Float(number) => {
            let digits = number.as_str().replace('_', "");
            digits.parse::<f64>().map_or_else(|_| digits.clone().into(), Value::from)
        }
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                (key.to_string(), json(value.get_ref()))
            };
            Value::Object(table.iter().map(entry).collect())
        }
    }
}
