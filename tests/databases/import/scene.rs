//! A table of another queue, beside a Redis.

use std::path::Path;

use harness::process::Launch;
use serde_json::Value;
use streamfleet::Queue;
use streamfleet_sql::Dialect;

use crate::kit::Place;
use crate::scene::{SOON, Scene};

pub(super) struct ImportScene {
    pub(super) scene: Scene,
}

impl ImportScene {
    /// Makes tables, and writes a mapping, to which the address of the database is added.
    pub(super) async fn new(place: Place, mapping: &str, create: &[&str]) -> Self {
        let scene = Self { scene: Scene::new(place).await };
        let mut hand = scene.place().hand().await;
        for text in create {
            hand.run(&worded(scene.place().dialect, text)).await;
        }
        scene.write(mapping);
        scene
    }

    pub(super) fn place(&self) -> &Place {
        &self.scene.place
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.scene.queue
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.scene.folder.path().join(name).display().to_string()
    }

    /// Writes a mapping in place of the last one.
    pub(super) fn write(&self, mapping: &str) {
        let lines = mapping.lines().filter(|line| !line.starts_with("url_file"));
        let address = format!("url_file = {:?}\n", self.path("url"));
        let text = address + &lines.collect::<Vec<_>>().join("\n");
        std::fs::write(self.path("import.toml"), text).unwrap();
    }

    pub(super) fn launch(&self, flags: &[&str]) -> Launch {
        self.launch_with(flags, "")
    }

    pub(super) fn launch_with(&self, flags: &[&str], sections: &str) -> Launch {
        let mapping = self.path("import.toml");
        self.scene.launch(&[&["import", &mapping, "-o", "json"], flags].concat(), sections)
    }

    /// Imports, and returns the exit code and the report.
    pub(super) fn import(&self, flags: &[&str]) -> (Option<i32>, Value) {
        let output = self.launch(flags).output(SOON);
        let report = serde_json::from_str(&output.stdout);
        (output.code, report.unwrap_or_else(|_| panic!("{output:?}")))
    }

    /// What another command prints.
    pub(super) fn json(&self, command: &[&str]) -> Value {
        self.scene.json(command, "")
    }

    /// The last key of a table that is done, if it is a number.
    pub(super) fn passed(&self, table: &str) -> Option<i64> {
        let text = std::fs::read(Path::new(&self.path("import.toml.progress"))).ok()?;
        let progress: Value = serde_json::from_slice(&text).unwrap();
        progress["tables"][table]["int"].as_i64()
    }
}

/// Returns a statement in the words of a dialect.
pub(super) fn worded(dialect: Dialect, text: &str) -> String {
    let words = match dialect {
        Dialect::MySql => [
            "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY",
            "LONGTEXT",
            "LONGBLOB",
            "JSON",
            "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP",
            "TINYINT UNSIGNED",
            "INT UNSIGNED",
        ],
        Dialect::Postgres => [
            "BIGSERIAL PRIMARY KEY",
            "TEXT",
            "BYTEA",
            "JSONB",
            "TIMESTAMP(0) WITHOUT TIME ZONE DEFAULT CURRENT_TIMESTAMP",
            "SMALLINT",
            "INTEGER",
        ],
        Dialect::Sqlite => [
            "INTEGER PRIMARY KEY AUTOINCREMENT",
            "TEXT",
            "BLOB",
            "TEXT",
            "DATETIME DEFAULT CURRENT_TIMESTAMP",
            "INTEGER",
            "INTEGER",
        ],
    };
    let names = ["{id}", "{longtext}", "{blob}", "{json}", "{datetime}", "{tiny}", "{int}"];
    names.iter().zip(words).fold(text.to_owned(), |text, (name, word)| text.replace(name, word))
}
