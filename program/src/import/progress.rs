//! How far an import has come: a file beside the mapping, with the key of the last row of each table that is done.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use streamfleet_sql::foreign::Key;

use crate::Wrong;

/// How far an import has come.
#[derive(Debug)]
pub(super) struct Progress {
    path: PathBuf,
    passed: Passed,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Passed {
    /// The database, without its login.
    database: String,
    /// By what the ids of a table's jobs begin with.
    tables: BTreeMap<String, Key>,
}

impl Progress {
    /// Reads how far an earlier run with this mapping has come, or begins again.
    ///
    /// # Errors
    ///
    /// [`Wrong`] if the file cannot be read, or is about another database.
    pub(super) fn read(mapping: &Path, database: String, is_restart: bool) -> Result<Self, Wrong> {
        let mut path = OsString::from(mapping);
        path.push(".progress");
        let path = PathBuf::from(path);
        let wrong = |why: String| Wrong(format!("{}: {why}; --restart begins again", path.display()));
        let passed = match std::fs::read(&path) {
            _ if is_restart => Passed::default(),
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Passed::default(),
            Err(error) => return Err(wrong(error.to_string())),
        };
        if !passed.tables.is_empty() && passed.database != database {
            return Err(wrong(format!("is about {}, but the mapping names {database}", passed.database)));
        }
        Ok(Self { path, passed: Passed { database, ..passed } })
    }

    /// The key of the last row of a table that is done.
    pub(super) fn of(&self, table: &str) -> Option<Key> {
        self.passed.tables.get(table).cloned()
    }

    /// Notes that a table is done up to this key. A process that dies leaves either the old file or the new one.
    pub(super) fn note(&mut self, table: &str, key: &Key) -> io::Result<()> {
        self.passed.tables.insert(table.to_owned(), key.clone());
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        serde_json::to_writer(&mut file, &self.passed)?;
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map(drop).map_err(|error| error.error)
    }

    /// The file.
    pub(super) fn shown(&self) -> String {
        self.path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_again_unless_it_is_about_another_database() {
        let folder = tempfile::tempdir().unwrap();
        let mapping = folder.path().join("shop.toml");
        let read = |database: &str, is_restart| Progress::read(&mapping, database.to_owned(), is_restart);
        let mut progress = read("mysql://db/shop", false).unwrap();
        assert_eq!(progress.of("jobs"), None);
        progress.note("jobs", &Key::Int(7)).unwrap();
        progress.note("mails", &Key::Text("m-1".to_owned())).unwrap();
        let again = read("mysql://db/shop", false).unwrap();
        assert_eq!((again.of("jobs"), again.of("others")), (Some(Key::Int(7)), None));
        assert_eq!(read("mysql://db/shop", true).unwrap().of("jobs"), None);
        let other = read("mysql://db/other", false).unwrap_err().to_string();
        assert!(other.contains("is about mysql://db/shop") && other.contains("--restart"), "{other}");
        std::fs::write(folder.path().join("shop.toml.progress"), "{").unwrap();
        assert!(read("mysql://db/shop", false).unwrap_err().to_string().contains("--restart"));
    }
}
