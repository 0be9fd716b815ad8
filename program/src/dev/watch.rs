//! `--watch`: notices when the files of a pool's programs change. It looks at times and sizes again and again, because that works
//! on every file system, also on those of containers and virtual machines.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use streamfleet::Reload;
use streamfleet_service::config::Config;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::output::listed;

/// How often to look, at least …
const EVERY: Duration = Duration::from_millis(400);

/// … and how much more time passes between two looks than one takes.
const PAUSE_FACTOR: u32 = 20;

/// How many entries of folders are looked at. Further ones are not watched.
const MOST_ENTRIES: usize = 20_000;

/// Folders that hold other people's code, or what programs write themselves. Those that begin with a dot are left out, too.
const LEFT_OUT: [&str; 12] = [
    "__pycache__",
    "build",
    "cache",
    "dist",
    "logs",
    "node_modules",
    "runtime",
    "storage",
    "target",
    "tmp",
    "vendor",
    "venv",
];

/// The endings of the files that count: code and settings. Programs write other ones, such as reports, while they work.
const ENDINGS: [&str; 19] = [
    "cjs", "cts", "env", "html", "ini", "js", "jsx", "mjs", "mts", "php", "py", "rb", "sh", "toml", "ts",
    "tsx", "twig", "yaml", "yml",
];

/// What is watched of each file.
type Stamp = (Option<SystemTime>, u64);

/// The files of one folder, as they were at a look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Files {
    stamps: BTreeMap<PathBuf, Stamp>,
    /// Whether there are more entries than are looked at.
    is_cut: bool,
}

/// A folder that is watched.
pub(super) struct Watch {
    folder: PathBuf,
    /// Files that count whatever they are called: those that the command names.
    named: Vec<PathBuf>,
    seen: Files,
    /// A change that may not be complete yet.
    pending: Option<Files>,
    took: Duration,
}

/// Returns a watch of each folder in which pools run their programs.
pub(super) fn of(config: &Config) -> Vec<Watch> {
    let mut commands = BTreeMap::<PathBuf, Vec<String>>::new();
    for pool in config.pools_in_use() {
        let folder = pool.directory.clone().unwrap_or_else(|| PathBuf::from("."));
        commands.entry(folder).or_default().extend_from_slice(&pool.command);
    }
    commands.into_iter().map(|(folder, command)| Watch::new(folder, &command)).collect()
}

/// Returns what to know about these watches.
pub(super) fn remark(watches: &[Watch]) -> String {
    if watches.is_empty() {
        return "There is nothing to watch: no type uses a pool, and exec starts a program for each job."
            .to_owned();
    }
    let shown = |watch: &Watch| {
        let rest = if watch.seen.is_cut { " (in part: it is too large)" } else { "" };
        format!("{}{rest}", watch.folder.display())
    };
    format!(
        "When code or settings change, new programs replace those of the pools. Watched: {}.",
        listed(watches.iter().map(shown))
    )
}

/// Requests new programs whenever files change. Ends only if there is nothing to watch, or with the process.
pub(super) async fn run(mut watches: Vec<Watch>, reload: &Reload) {
    while let Some(pause) = watches.iter().map(Watch::pause).max() {
        sleep(pause).await;
        let look = move || {
            let changed: Vec<PathBuf> = watches.iter_mut().filter_map(Watch::changed).collect();
            (watches, changed)
        };
        let Ok((looked, changed)) = spawn_blocking(look).await else { return };
        watches = looked;
        if let Some(file) = changed.first() {
            tracing::info!(?file, "files have changed: new programs replace those of the pools");
            reload.request();
        }
    }
}

impl Watch {
    /// Watches a folder from now on, and those files in it that a command names.
    fn new(folder: PathBuf, command: &[String]) -> Self {
        let named = command.iter().map(|word| folder.join(word)).filter(|path| path.is_file()).collect();
        let mut watch = Self { folder, named, seen: Files::default(), pending: None, took: Duration::ZERO };
        watch.seen = watch.look();
        watch
    }

    /// Returns how long to wait until the next look.
    fn pause(&self) -> Duration {
        EVERY.max(self.took * PAUSE_FACTOR)
    }

    /// Looks again. Returns a file that has changed, appeared or gone, once nothing has changed since the look before: a
    /// change of many files should be complete.
    fn changed(&mut self) -> Option<PathBuf> {
        let now = self.look();
        if now.stamps == self.seen.stamps {
            self.pending = None;
            return None;
        }
        if self.pending.as_ref() != Some(&now) {
            self.pending = Some(now);
            return None;
        }
        let before = std::mem::replace(&mut self.seen, now);
        self.pending = None;
        let differs =
            |(path, stamp): &(&PathBuf, &Stamp), other: &Files| other.stamps.get(*path) != Some(*stamp);
        let new = self.seen.stamps.iter().find(|entry| differs(entry, &before));
        let gone = || before.stamps.iter().find(|entry| differs(entry, &self.seen));
        let (path, _) = new.or_else(gone)?;
        Some(path.strip_prefix(&self.folder).unwrap_or(path).to_owned())
    }

    fn look(&mut self) -> Files {
        let began = Instant::now();
        let mut files = Files::default();
        let (mut folders, mut entries) = (vec![self.folder.clone()], 0);
        while let Some(folder) = folders.pop() {
            // Who deletes or protects a folder does not want it to be watched.
            let Ok(listed) = fs::read_dir(folder) else { continue };
            for entry in listed.filter_map(Result::ok) {
                entries += 1;
                if entries > MOST_ENTRIES {
                    files.is_cut = true;
                    break;
                }
                self.note(&entry, &mut files, &mut folders);
            }
            if files.is_cut {
                break;
            }
        }
        for path in &self.named {
            files.stamps.extend(stamp(path).map(|stamp| (path.clone(), stamp)));
        }
        self.took = began.elapsed();
        files
    }

    /// Notes a file that counts, or a folder that is to be looked at. Links to folders are not followed, so there is no circle.
    fn note(&self, entry: &DirEntry, files: &mut Files, folders: &mut Vec<PathBuf>) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { return };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !name.starts_with('.') && !LEFT_OUT.contains(&name) {
                folders.push(entry.path());
            }
        } else if counts(name) {
            let path = entry.path();
            files.stamps.extend(stamp(&path).map(|stamp| (path, stamp)));
        }
    }
}

/// Returns true if a file with this name counts: by its ending, or as `.env` and `.env.local` do.
fn counts(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    name.starts_with(".env") || ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = fs::metadata(path).ok()?;
    Some((about.modified().ok(), about.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Looks until the change is complete.
    fn settled(watch: &mut Watch) -> Option<String> {
        let first = watch.changed();
        assert_eq!(first, None, "a change may not be complete yet");
        watch.changed().map(|path| path.display().to_string())
    }

    #[test]
    fn a_file_that_is_changed_added_or_removed_is_noticed_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        write(folder, "worker.php", "one");
        write(folder, "app/Mail.php", "one");
        let mut watch = Watch::new(folder.to_owned(), &[]);
        assert_eq!(settled(&mut watch), None);
        write(folder, "app/Mail.php", "three");
        assert_eq!(settled(&mut watch).as_deref(), Some("app/Mail.php"));
        assert_eq!(settled(&mut watch), None);
        write(folder, ".env.local", "A=1");
        assert_eq!(settled(&mut watch).as_deref(), Some(".env.local"));
        fs::remove_file(folder.join("worker.php")).unwrap();
        assert_eq!(settled(&mut watch).as_deref(), Some("worker.php"));
        fs::remove_dir_all(folder.join("app")).unwrap();
        assert_eq!(settled(&mut watch).as_deref(), Some("app/Mail.php"));
    }

    #[test]
    fn a_change_that_goes_on_is_reported_when_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = Watch::new(dir.path().to_owned(), &[]);
        for length in 1..5 {
            write(dir.path(), "a.py", &"x".repeat(length));
            assert_eq!(watch.changed(), None);
        }
        assert_eq!(watch.changed(), Some("a.py".into()));
    }

    #[test]
    fn what_others_wrote_and_what_programs_write_does_not_count_unless_the_command_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        write(folder, "bin/worker", "one");
        let mut watch = Watch::new(folder.to_owned(), &["bin/worker".to_owned(), "--fast".to_owned()]);
        let ours = [
            "vendor/a.php",
            "lib/node_modules/a.js",
            ".git/a.py",
            "runtime/a.php",
            "report.csv",
            "a.log",
            "php",
        ];
        for name in ours {
            write(folder, name, "new");
        }
        // A circle would never end.
        std::os::unix::fs::symlink(folder, folder.join("circle")).unwrap();
        assert_eq!(settled(&mut watch), None);
        write(folder, "bin/worker", "three");
        assert_eq!(settled(&mut watch).as_deref(), Some("bin/worker"));
    }

    #[test]
    fn a_huge_folder_is_looked_at_in_part() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MOST_ENTRIES {
            fs::hard_link(dir.path().join("0.txt"), dir.path().join(format!("{number}.txt")))
                .or_else(|_| fs::write(dir.path().join(format!("{number}.txt")), ""))
                .unwrap();
        }
        let watch = Watch::new(dir.path().to_owned(), &[]);
        assert!(watch.seen.is_cut && watch.pause() >= EVERY);
    }
}
