//! `--watch`: notices when the files of a pool's programs change. It looks at times and sizes again and again, because that works
//! on every file system, also on those of containers and virtual machines.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use streamfleet::Reload;
use streamfleet_service::config::{Config, DEFAULT_FILE};
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

/// Those of them into which compilers write: they count if a command names a file in them.
const COMPILED: [&str; 2] = ["build", "dist"];

/// The endings of sources that do not run if what they are compiled into does.
const TYPE_SCRIPT: [&str; 4] = ["cts", "mts", "ts", "tsx"];

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

/// What is watched.
pub(super) struct Watches {
    /// The files of the configuration and the schemas of types, which are read at the start only.
    settings: Watch,
    /// The folders of programs.
    programs: Vec<Watch>,
}

/// A folder that is watched.
#[derive(Default)]
struct Watch {
    folder: PathBuf,
    /// Files that do not count: those of the configuration, by their names and where they are.
    settings: Vec<(OsString, PathBuf)>,
    /// Files that count whatever they are called: those that the command names.
    named: Vec<PathBuf>,
    /// Folders of [`COMPILED`] that count, because the command names a file in them.
    compiled: Vec<PathBuf>,
    /// Whether sources in TypeScript count. New programs that start before these are compiled would run the old code.
    has_sources: bool,
    seen: Files,
    /// A change that may not be complete yet.
    pending: Option<Files>,
    took: Duration,
}

/// Returns a watch of each folder in which pools run their programs, and of the files of the configuration.
pub(super) fn of(config: &Config, files: &[PathBuf]) -> Watches {
    let mut settings = if files.is_empty() { vec![PathBuf::from(DEFAULT_FILE)] } else { files.to_vec() };
    settings.extend(config.types.values().filter_map(|section| section.payload_schema.clone()));
    let mut commands = BTreeMap::<PathBuf, Vec<String>>::new();
    for pool in config.pools_in_use() {
        let folder = pool.directory.clone().unwrap_or_else(|| PathBuf::from("."));
        commands.entry(folder).or_default().extend_from_slice(&pool.command);
    }
    let programs =
        commands.into_iter().map(|(folder, command)| Watch::new(folder, &command, &settings)).collect();
    Watches { settings: Watch::of_files(&settings), programs }
}

/// Returns what to know about these watches.
pub(super) fn remark(watches: &Watches) -> String {
    if watches.programs.is_empty() {
        return "There is nothing to watch: no type uses a pool, and exec starts a program for each job."
            .to_owned();
    }
    let shown = |watch: &Watch| {
        let rest = if watch.seen.is_cut { " (in part: it is too large)" } else { "" };
        // A full stop after it would look like a part of it.
        let folder = fs::canonicalize(&watch.folder).unwrap_or_else(|_| watch.folder.clone());
        format!("{}{rest}", folder.display())
    };
    format!(
        "When code or settings change, new programs replace those of the pools. Watched: {}",
        listed(watches.programs.iter().map(shown))
    )
}

/// Requests new programs whenever files change, and says so if that is not enough. Ends with the process.
pub(super) async fn run(mut watches: Watches, reload: &Reload) {
    loop {
        sleep(watches.programs.iter().map(Watch::pause).fold(EVERY, Duration::max)).await;
        let look = move || {
            let settings = watches.settings.changed();
            let changed: Vec<PathBuf> = watches.programs.iter_mut().filter_map(Watch::changed).collect();
            (watches, settings, changed)
        };
        let Ok((looked, settings, changed)) = spawn_blocking(look).await else { return };
        watches = looked;
        if let Some(file) = settings {
            tracing::warn!(?file, "the configuration has changed: restart `streamfleet dev` to apply it");
        }
        if let Some(file) = changed.first() {
            tracing::info!(?file, "files have changed: new programs replace those of the pools");
            reload.request();
        }
    }
}

impl Watch {
    /// Watches a folder from now on, and those files in it that a command names, but not the `settings`.
    fn new(folder: PathBuf, command: &[String], settings: &[PathBuf]) -> Self {
        let words: Vec<PathBuf> = command.iter().map(|word| folder.join(word)).collect();
        let folders = words.iter().flat_map(|word| word.ancestors().skip(1));
        let is_compiled = |inner: &&Path| {
            let is_inside = inner.starts_with(&folder) && *inner != folder;
            is_inside && COMPILED.iter().any(|name| inner.ends_with(name))
        };
        let compiled: Vec<PathBuf> = folders.filter(is_compiled).map(Path::to_owned).collect();
        let has_sources = compiled.is_empty() || words.iter().any(|word| is_source(word));
        let place = |file: &PathBuf| Some((file.file_name()?.to_owned(), fs::canonicalize(file).ok()?));
        let settings = settings.iter().filter_map(place).collect();
        let named = words.into_iter().filter(|word| word.is_file()).collect();
        Self { folder, settings, named, compiled, has_sources, ..Self::default() }.begun()
    }

    /// Watches only these files from now on.
    fn of_files(files: &[PathBuf]) -> Self {
        // There is no folder without a name.
        Self { named: files.to_owned(), ..Self::default() }.begun()
    }

    fn begun(mut self) -> Self {
        self.seen = self.look();
        self
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
            let path = entry.path();
            if !name.starts_with('.') && (!LEFT_OUT.contains(&name) || self.compiled.contains(&path)) {
                folders.push(path);
            }
        } else if counts(name) {
            let path = entry.path();
            if self.is_setting(name, &path) || (!self.has_sources && is_source(&path)) {
                return;
            }
            files.stamps.extend(stamp(&path).map(|stamp| (path, stamp)));
        }
    }

    /// Returns true if this is a file of the configuration.
    fn is_setting(&self, name: &str, path: &Path) -> bool {
        let mut named = self.settings.iter().filter(|(setting, _)| setting.as_os_str() == name);
        named.any(|(_, place)| fs::canonicalize(path).is_ok_and(|path| path == *place))
    }
}

/// Returns true if a file with this name counts: by its ending, or as `.env` and `.env.local` do.
fn counts(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    name.starts_with(".env") || ending.is_some_and(|ending| ENDINGS.contains(&ending))
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ending| TYPE_SCRIPT.iter().any(|known| ending == *known))
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
        let mut watch = Watch::new(folder.to_owned(), &[], &[]);
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
        let mut watch = Watch::new(dir.path().to_owned(), &[], &[]);
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
        let mut watch = Watch::new(folder.to_owned(), &["bin/worker".to_owned(), "--fast".to_owned()], &[]);
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
    fn what_a_compiler_writes_counts_and_its_sources_do_not_if_the_command_names_a_file_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let command = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        // It need not be there at the start.
        let mut compiled = Watch::new(folder.to_owned(), &command(&["node", "./dist/worker.js"]), &[]);
        let words = command(&["node", "dist/worker.js", "tsx", "other.ts"]);
        let mut both = Watch::new(folder.to_owned(), &words, &[]);
        let mut usual = Watch::new(folder.to_owned(), &command(&["node", "worker.js"]), &[]);
        write(folder, "src/handler.ts", "one");
        write(folder, "build/other.js", "one");
        assert_eq!(settled(&mut compiled), None);
        assert_eq!(settled(&mut both).as_deref(), Some("src/handler.ts"));
        assert_eq!(settled(&mut usual).as_deref(), Some("src/handler.ts"));
        write(folder, "dist/lib/handler.js", "one");
        assert_eq!(settled(&mut compiled).as_deref(), Some("dist/lib/handler.js"));
        assert_eq!(settled(&mut both).as_deref(), Some("dist/lib/handler.js"));
        assert_eq!(settled(&mut usual), None);
    }

    #[test]
    fn the_schemas_of_types_count_as_the_configuration_does() {
        let dir = tempfile::tempdir().unwrap();
        let schema = dir.path().join("mail.json");
        write(dir.path(), "mail.json", "{}");
        let mut config = Config::default();
        let section = config.types.entry("mail.send".parse().unwrap()).or_default();
        section.payload_schema = Some(schema.clone());
        let mut watches = of(&config, &[dir.path().join("streamfleet.toml")]);
        write(dir.path(), "mail.json", "true");
        assert_eq!(settled(&mut watches.settings), Some(schema.display().to_string()));
    }

    #[test]
    fn the_files_of_the_configuration_do_not_count_as_code() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let file = folder.join("streamfleet.toml");
        write(folder, "streamfleet.toml", "one");
        write(folder, "app/streamfleet.toml", "one");
        let mut programs = Watch::new(folder.to_owned(), &[], std::slice::from_ref(&file));
        let mut settings = Watch::of_files(std::slice::from_ref(&file));
        write(folder, "streamfleet.toml", "three");
        assert_eq!(
            (settled(&mut programs), settled(&mut settings)),
            (None, Some(file.display().to_string()))
        );
        write(folder, "app/streamfleet.toml", "three");
        assert_eq!(settled(&mut programs).as_deref(), Some("app/streamfleet.toml"));
        assert_eq!(settled(&mut settings), None);
    }

    #[test]
    fn a_huge_folder_is_looked_at_in_part() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MOST_ENTRIES {
            fs::hard_link(dir.path().join("0.txt"), dir.path().join(format!("{number}.txt")))
                .or_else(|_| fs::write(dir.path().join(format!("{number}.txt")), ""))
                .unwrap();
        }
        let watch = Watch::new(dir.path().to_owned(), &[], &[]);
        assert!(watch.seen.is_cut && watch.pause() >= EVERY);
    }
}
