//! The demo's folder: it receives the input that the demo needs, and holds the output afterwards. It is emptied at the
//! start, but only of what an earlier demo left there.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// The real input. It is compiled in, so that the demo runs anywhere.
pub(super) const TABLE: &str = include_str!("../seattle-weather.csv");
const PROGRAM: &str = include_str!("../report.py");

const TABLE_FILE: &str = "seattle-weather.csv";
const PROGRAM_FILE: &str = "report.py";

/// The file that marks a folder as a demo's. It is locked while a demo runs.
const MARK: &str = ".streamfleet-demo";

/// Everything that a demo puts into its folder; nothing else is ever deleted.
const FILES: [&str; 4] = [TABLE_FILE, PROGRAM_FILE, "fleet.toml", "jobs.redis"];
const FOLDERS: [&str; 3] = ["redis", "reports", "logs"];

/// The folder, locked for as long as the demo runs.
pub(super) struct Folder {
    /// The path as it was given, for messages.
    shown: PathBuf,
    /// The absolute path, for other processes.
    pub(super) path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Creates the folder, or empties that of an earlier demo, and writes the input into it.
    pub(super) fn open(shown: &Path) -> anyhow::Result<Self> {
        let unusable = || format!("failed to prepare the folder {}", shown.display());
        fs::create_dir_all(shown).with_context(unusable)?;
        let path = shown.canonicalize().with_context(unusable)?;
        let is_empty = fs::read_dir(&path).with_context(unusable)?.next().is_none();
        if !is_empty && !path.join(MARK).exists() {
            bail!(
                "{} contains files that are not a demo's; choose a new or an empty folder with --output",
                shown.display()
            );
        }
        let lock = File::create(path.join(MARK)).with_context(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another demo is running in {}", shown.display()),
            Err(TryLockError::Error(error)) => return Err(error).with_context(unusable),
        }
        let folder = Self { shown: shown.to_owned(), path, _lock: lock };
        folder.empty().and_then(|()| folder.fill()).with_context(unusable)?;
        Ok(folder)
    }

    /// The path of a file in the folder, for messages.
    pub(super) fn show(&self, name: &str) -> String {
        self.shown.join(name).display().to_string()
    }

    fn empty(&self) -> io::Result<()> {
        for name in FILES {
            unless_missing(fs::remove_file(self.path.join(name)))?;
        }
        for name in FOLDERS {
            unless_missing(fs::remove_dir_all(self.path.join(name)))?;
        }
        Ok(())
    }

    fn fill(&self) -> io::Result<()> {
        // Nothing in there is source code.
        fs::write(self.path.join(".gitignore"), "*\n")?;
        fs::write(self.path.join(TABLE_FILE), TABLE)?;
        fs::write(self.path.join(PROGRAM_FILE), PROGRAM)?;
        for name in FOLDERS {
            fs::create_dir(self.path.join(name))?;
        }
        Ok(())
    }
}

fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_other_files_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
        let error = Folder::open(dir.path()).err().unwrap();
        assert!(error.to_string().contains("not a demo's"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_earlier_demos_files_are_deleted_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        drop(Folder::open(dir.path()).unwrap());
        let put = |name: &str| fs::write(dir.path().join(name), "x").unwrap();
        put("reports/old.md");
        put("notes.txt");
        let folder = Folder::open(dir.path()).unwrap();
        assert!(!dir.path().join("reports/old.md").exists() && dir.path().join("notes.txt").exists());
        assert_eq!(fs::read_to_string(folder.path.join(TABLE_FILE)).unwrap(), TABLE);
        assert!(Folder::open(dir.path()).err().unwrap().to_string().contains("another demo"));
    }
}
