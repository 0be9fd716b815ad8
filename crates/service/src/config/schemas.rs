//! The schemas of types. `payload_schema` names a file, relative to the file that sets it.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;
use streamfleet::schema::{Schema, Schemas};

use super::problem::{Invalid, Problem};
use super::sections::TypeSection;
use super::tree::{Kind, Node};
use super::{Config, Effective};

/// The key of a type that names the file.
pub(super) const KEY: &str = "payload_schema";

/// Makes the paths of schemas that this file sets absolute. What variables set is relative to the working folder.
pub(super) fn anchor(layer: &mut Node, file: &Path) {
    let file = std::path::absolute(file).ok();
    let Some(folder) = file.as_deref().and_then(Path::parent) else { return };
    let Kind::Table(sections) = &mut layer.kind else { return };
    let Some(Node { kind: Kind::Table(types), .. }) = sections.get_mut("types") else { return };
    for section in types.values_mut() {
        let Kind::Table(keys) = &mut section.kind else { continue };
        let Some(Node { kind: Kind::Leaf(Value::String(path)), .. }) = keys.get_mut(KEY) else { continue };
        // A path that is not UTF-8 stays relative to the working folder.
        if let Some(anchored) = folder.join(&*path).to_str() {
            *path = anchored.to_owned();
        }
    }
}

/// Returns why the schema of a type cannot be used in this build, if the type has one.
pub(super) fn unsupported(section: &TypeSection) -> Option<String> {
    let is_ignored = section.payload_schema.is_some() && !Schema::AVAILABLE;
    is_ignored.then(|| "has no effect: this program was built without the feature schema".to_owned())
}

impl Effective {
    /// Reads and compiles the schemas of all types, and checks the payloads of recurring jobs against them.
    ///
    /// # Errors
    ///
    /// [`Invalid`] with the schemas that cannot be read or used, and the recurring jobs whose payload does not fit.
    pub fn schemas(&self) -> Result<Schemas, Invalid> {
        let (schemas, problems) = self.read_schemas();
        Invalid::unless_none(problems).map(|()| schemas)
    }

    /// Returns the schemas that can be used, and everything that is wrong.
    pub(super) fn read_schemas(&self) -> (Schemas, Vec<Problem>) {
        let (mut schemas, mut problems) = (Schemas::default(), Vec::new());
        for (job_type, section) in &self.config.types {
            let Some(path) = &section.payload_schema else { continue };
            match read(path) {
                Ok(schema) => schemas.insert(job_type.clone(), schema),
                Err(why) => {
                    let key = ["types", job_type.as_str(), KEY].map(str::to_owned);
                    problems.push(Problem::at(&key, format!("{}: {why}", path.display()), &self.tree));
                }
            }
        }
        problems.extend(unfit(&self.config, &schemas).map(|(key, why)| Problem::at(&key, why, &self.tree)));
        (schemas, problems)
    }
}

/// Returns the payloads of recurring jobs that do not fit: their keys, and why.
fn unfit<'a>(config: &'a Config, schemas: &'a Schemas) -> impl Iterator<Item = ([String; 3], String)> + 'a {
    config.cron.iter().filter_map(|(name, section)| {
        // Checking the configuration reports what else is wrong with it.
        let entry = section.entry(name).ok()?;
        let job_type = entry.job_type();
        let invalid = schemas.check(job_type, entry.payload_bytes(), entry.encoding()).err()?;
        let key = ["cron", name.as_str(), "payload"].map(str::to_owned);
        Some((key, format!("does not fit the schema of {job_type}: {invalid}")))
    })
}

/// Reads and compiles one schema. The error says what is wrong with the file.
fn read(path: &Path) -> Result<Schema, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    // Opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err("is not a file".to_owned());
    }
    let (mut json, most) = (Vec::new(), Schema::MAX_BYTES as u64);
    // One more byte shows that it is too large.
    File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut json)).map_err(failed)?;
    Schema::parse(&json).map_err(|error| error.to_string())
}
