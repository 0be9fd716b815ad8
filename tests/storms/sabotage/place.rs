//! The folder of a scene, through which its processes exchange what they saw and what to do.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::clock::note_stalls;
use harness::ledger::Ledger;

/// If a process stalls for this long, the machine gave it no CPU time, and its leases may be lost.
const STALLED: Duration = Duration::from_millis(700);

/// A folder with the runs of jobs (`ledger`), broken rules (`complaints`), orders (`gates`), and how long processes
/// stalled (`stalls`).
pub(super) struct Place(PathBuf);

impl Place {
    pub(super) fn new(folder: &Path) -> Self {
        for part in ["ledger", "complaints", "gates", "stalls"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        Self(folder.to_owned())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn ledger(&self) -> Ledger {
        Ledger::new(&self.0.join("ledger"))
    }

    /// Records that a rule was broken, and by what.
    pub(super) fn complain(&self, rule: &str, what: &str) {
        self.append("complaints", &format!("{rule}: {}", what.replace('\n', " ")));
    }

    /// Returns the broken rules, each with what broke it.
    pub(super) fn complaints(&self) -> Vec<(String, String)> {
        let parts = self.lines("complaints").into_iter().map(|line| {
            let (rule, what) = line.split_once(": ").unwrap_or(("", &line));
            (rule.to_owned(), what.to_owned())
        });
        parts.collect()
    }

    /// Opens a gate with an order for all that wait there, now or later.
    pub(super) fn open(&self, gate: &str, word: &str) {
        let gates = self.0.join("gates");
        fs::write(gates.join(".new"), word).unwrap();
        fs::rename(gates.join(".new"), gates.join(gate)).unwrap();
    }

    pub(super) fn word_at(&self, gate: &str) -> Option<String> {
        fs::read_to_string(self.0.join("gates").join(gate)).ok()
    }

    /// Records each period in which this process did not run.
    pub(super) fn watch_the_clock(&self) {
        let place = Self(self.0.clone());
        note_stalls(STALLED, move |from, until| {
            place.append("stalls", &format!("{:?}", Duration::from_nanos(until - from)));
        });
    }

    /// Returns which processes stalled, and for how long.
    pub(super) fn stalls(&self) -> Vec<(u32, String)> {
        let files = fs::read_dir(self.0.join("stalls")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let pid = |path: &Path| path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        files.map(|path| (pid(&path), fs::read_to_string(&path).unwrap())).collect()
    }

    fn append(&self, part: &str, line: &str) {
        let path = self.0.join(part).join(std::process::id().to_string());
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn lines(&self, part: &str) -> Vec<String> {
        let files = fs::read_dir(self.0.join(part)).unwrap();
        let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
    }
}
