//! The mapping file of `import`: where the tables or lists of another queue are, and what they mean.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use streamfleet::RedisConfig;
use streamfleet_operations::import::{BacklogMapping, Mapping};
use streamfleet_service::config::{address, read_document};

use crate::Wrong;

/// The most tables of one file.
const MAX_TABLES: usize = 200;

/// A mapping file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MappingFile {
    url: Option<SecretString>,
    url_file: Option<PathBuf>,
    /// The password of the Redis that has the lists.
    password_file: Option<PathBuf>,
    #[serde(rename = "table", default)]
    pub(super) tables: Vec<Mapping>,
    #[serde(rename = "list", default)]
    pub(super) lists: Vec<BacklogMapping>,
}

impl MappingFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// [`Wrong`] with the file, the line and the key.
    pub(super) fn read(path: &Path) -> Result<Self, Wrong> {
        let read: Self = read_document(path).map_err(|invalid| {
            let problems: Vec<String> = invalid.problems.iter().map(ToString::to_string).collect();
            Wrong(format!("the mapping has a problem: {}", problems.join("; ")))
        })?;
        read.check().map_err(|why| Wrong(format!("the mapping {}: {why}", path.display())))?;
        Ok(read)
    }

    /// Reads the address of the database.
    ///
    /// # Errors
    ///
    /// If the file that has it cannot be read.
    pub(super) fn address(&self) -> io::Result<SecretString> {
        address(self.url.as_ref(), self.url_file.as_deref(), "url_file")
    }

    /// How to reach the Redis that has the lists.
    pub(super) fn redis(&self) -> RedisConfig {
        let mut config = RedisConfig::default();
        if let Some(url) = &self.url {
            config = config.url(url.clone());
        }
        if let Some(path) = &self.url_file {
            config = config.url_file(path);
        }
        match &self.password_file {
            Some(path) => config.password_file(path),
            None => config,
        }
    }

    fn check(&self) -> Result<(), String> {
        let of_lists = !self.lists.is_empty();
        match (&self.url, &self.url_file) {
            (None, None) => {
                return Err("add url_file, the file with the address of the database or Redis".to_owned());
            }
            (Some(_), Some(_)) => return Err("has both url and url_file: leave one out".to_owned()),
            (Some(url), None) if of_lists && url.expose_secret().contains('@') => {
                let why = "url has a login, and a password must not stand in this file: use url_file or password_file";
                return Err(why.to_owned());
            }
            (Some(url), None) if !of_lists && !url.expose_secret().starts_with("sqlite:") => {
                let why = "url may have a password, which must not stand in this file: use url_file";
                return Err(why.to_owned());
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        let (tables, lists) = (self.tables.len(), self.lists.len());
        if of_lists && tables > 0 {
            return Err("has both tables and lists: write two files".to_owned());
        }
        if !(1..=MAX_TABLES).contains(&(tables + lists)) {
            return Err(format!("has {} tables or lists, but must have 1 to {MAX_TABLES}", tables + lists));
        }
        if !of_lists && self.password_file.is_some() {
            return Err(
                "password_file is for lists in a Redis: the address of a database has its own".to_owned()
            );
        }
        let mut ids = BTreeSet::new();
        let mut all = self.tables.iter().map(Mapping::id).chain(self.lists.iter().map(BacklogMapping::id));
        match all.find(|id| !ids.insert(*id)) {
            Some(twice) => Err(format!(
                "two tables or lists would give their jobs ids that begin with {twice:?}: give one of them another `id`"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "[[table]]\nname = \"jobs\"\nkey = \"id\"\nqueue = \"mail\"\ntype = \"mail.send\"\npayload = [\"to\"]\nall = \"waiting\"\n";

    fn told(text: &str) -> Result<MappingFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("import.toml");
        std::fs::write(&path, text).unwrap();
        MappingFile::read(&path).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_table_needs_little() {
        let read = told(&format!("url = \"sqlite:a.db\"\n{TABLE}")).unwrap();
        assert_eq!((read.tables.len(), read.tables[0].id()), (1, "jobs"));
    }

    #[test]
    fn every_way_to_write_a_column_is_known() {
        let forms = [
            "payload = { column = \"body\", as = \"laravel\" }",
            "payload = [\"to\", { column = \"data\", as = \"json\" }]",
        ];
        for form in forms {
            let text = TABLE.replace("payload = [\"to\"]", form);
            let text = text.replace(
                "type = \"mail.send\"",
                "type = { column = \"body\", map = { 'App\\Mail' = \"mail.send\" } }",
            );
            let more = "run_at = { column = \"due\", unit = \"s\" }\ndied_at = { column = \"at\", unit = \"utc\" }\nattempts = \"tries\"\nerror = \"why\"\n";
            told(&format!("url_file = \"/run/url\"\n{text}{more}")).unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |from: &str, to: &str| {
            told(&format!("url = \"sqlite:a.db\"\n{}", TABLE.replace(from, to))).unwrap_err()
        };
        assert!(told(TABLE).unwrap_err().contains("add url_file"));
        assert!(
            told(&format!("url = \"mysql://ann:secret@db/app\"\n{TABLE}"))
                .unwrap_err()
                .contains("use url_file")
        );
        assert!(
            told(&format!("url = \"sqlite:a.db\"\n{TABLE}{TABLE}")).unwrap_err().contains("another `id`")
        );
        assert!(with("all = \"waiting\"\n", "").contains("add `waiting`, `dead` or `all`"));
        assert!(with("all = \"waiting\"", "all = \"sleeping\"").contains("unknown value"));
        assert!(with("[\"to\"]", "[]").contains("must have 1 to"));
        assert!(with("[\"to\"]", "{ column = \"to\", as = \"xml\" }").contains("payload"));
        assert!(with("mail.send", "Mail Send").contains("a type must match"));
        assert!(with("queue =", "queu =").contains("did you mean \"queue\"? ("));
        let text = "all = \"waiting\"\nwaiting = { column = \"s\", values = [1] }";
        assert!(with("all = \"waiting\"", text).contains("leave out"));
        assert!(
            !told(&format!("url = \"mysql://ann:secret@db/app\"\n{TABLE}")).unwrap_err().contains("secret")
        );
    }
}
