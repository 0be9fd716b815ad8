//! Other files in TOML that a command reads, with mistakes reported as those of the configuration are: file, line and key.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::problem::{Invalid, Problem, reworded};

/// The most bytes of a file.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a file of at most 1 MiB.
///
/// # Errors
///
/// [`Invalid`] if it cannot be read, or with its first mistake. The message quotes no address, because one may have a password.
pub fn read_document<T: DeserializeOwned>(path: &Path) -> Result<T, Invalid> {
    let name = path.display().to_string();
    let problem = |at: String, key: String, reason: String| Invalid {
        problems: vec![Problem { key, reason, origin: Some(at) }],
    };
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
    read.map_err(|error| problem(name.clone(), String::new(), format!("cannot be read: {error}")))?;
    if text.len() as u64 > MAX_BYTES {
        return Err(problem(name, String::new(), format!("has more than {MAX_BYTES} bytes")));
    }
    let at = |error: &toml::de::Error| {
        let before = error.span().map_or(0, |span| span.start);
        format!("{name}:{}", 1 + text.bytes().take(before).filter(|byte| *byte == b'\n').count())
    };
    let parsed = toml::Deserializer::parse(&text)
        .map_err(|error| problem(at(&error), String::new(), format!("is not TOML: {}", error.message())))?;
    serde_path_to_error::deserialize(parsed).map_err(|error| {
        let path = error.path().to_string();
        let key = if path == "." { String::new() } else { path };
        let reason = reworded(error.inner().message());
        let is_secret = reason.contains("://");
        let reason = if is_secret { "has a value that does not fit".to_owned() } else { reason };
        problem(at(error.inner()), key, reason)
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only errors are looked at")]
    struct Document {
        url: Option<u32>,
        table: Vec<Table>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only errors are looked at")]
    struct Table {
        name: String,
        queue: Option<String>,
    }

    fn told(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("import.toml");
        std::fs::write(&path, text).unwrap();
        let told = read_document::<Document>(&path).unwrap_err().problems[0].to_string();
        told.replace(&folder.path().display().to_string(), "")
    }

    #[test]
    fn a_mistake_is_reported_with_file_line_and_key() {
        let unknown = told("[[table]]\nname = \"a\"\n[[table]]\nname = \"b\"\nqueu = 1\n");
        assert_eq!(unknown, "table[1].queu: unknown key; did you mean \"queue\"? (/import.toml:5)");
        assert_eq!(told("[[table]]\nname = 1\n"), "table[0].name: must be a string (/import.toml:2)");
        assert!(told("[[table]]\n").contains("name is missing (/import.toml:1)"), "{}", told("[[table]]\n"));
        assert!(told("table = [\n").starts_with("/import.toml:"));
    }

    #[test]
    fn no_address_is_quoted() {
        let told = told("url = \"mysql://ann:secret@db/app\"\ntable = []\n");
        assert_eq!(told, "url: has a value that does not fit (/import.toml:1)");
    }
}
