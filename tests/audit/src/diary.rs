//! The diary of an audit: what handlers did, and when their process stalled, in files outside Redis. Each line is appended
//! by one `write(2)`, so a killed writer leaves only whole lines.
//!
//! ```text
//! start <mark> <step or -> <id> <attempt> <new or again> <fence> <pid> <t_ns> <wall_ms>
//! end   <mark> <step or -> <fence> <pid> <t_ns> <how>
//! stall <pid> <from_ns> <until_ns>
//! ```
//!
//! Of a plain job that was accepted, started once and succeeded, only these facts are kept: a million such jobs take
//! a few megabytes.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use super::bulk;
use super::register::Reply;
use harness::ledger::{Fence, How};

/// One run of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The mark of the submission.
    pub mark: String,
    /// `-` if the job has no steps.
    pub step: String,
    pub id: String,
    pub attempt: u32,
    /// Whether the fleet says that the job may have run before.
    pub again: bool,
    pub fence: Fence,
    pub pid: u32,
    pub from: u64,
    pub wall_ms: u64,
    pub end: Option<(u64, How)>,
}

/// A period in which a process stalled, for whatever reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    pub pid: u32,
    pub from: u64,
    pub until: u64,
}

/// Everything in a folder, in no particular order.
#[derive(Clone, Debug, Default)]
pub struct Diary {
    pub spans: Vec<Span>,
    pub stalls: Vec<Stall>,
    pub plain: Plain,
    /// While the diary is read: the runs that have not ended yet.
    open: HashMap<(String, String, Fence, u32), Vec<usize>>,
}

/// How often plain jobs in bulk started and succeeded, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    started: Vec<u8>,
    ended_well: Vec<u8>,
    /// All starts of all jobs.
    pub starts: u64,
    /// The given moments in order, each with the time of the first start after it.
    pub went_on: Vec<(u64, Option<u64>)>,
}

/// Appends to a file of the diary.
pub struct Pen(File);

impl Pen {
    pub fn new(folder: &Path) -> Self {
        let path = folder.join(format!("worker-{}", std::process::id()));
        Self(File::options().create(true).append(true).open(path).unwrap())
    }

    pub fn started(&self, span: &Span) {
        let Span { mark, step, id, attempt, fence, pid, from, wall_ms, .. } = span;
        let again = if span.again { "again" } else { "new" };
        let Fence(ms, seq) = fence;
        self.append(&format!("start {mark} {step} {id} {attempt} {again} {ms}-{seq} {pid} {from} {wall_ms}"));
    }

    pub fn ended(&self, span: &Span, t: u64, how: How) {
        let Span { mark, step, fence: Fence(ms, seq), pid, .. } = span;
        self.append(&format!("end {mark} {step} {ms}-{seq} {pid} {t} {}", how.name()));
    }

    pub fn stalled(&self, stall: &Stall) {
        self.append(&format!("stall {} {} {}", stall.pid, stall.from, stall.until));
    }

    fn append(&self, line: &str) {
        (&self.0).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

impl Plain {
    fn new(count: usize, moments: &[u64]) -> Self {
        let went_on = moments.iter().map(|moment| (*moment, None)).collect();
        Self { started: vec![0; count], ended_well: vec![0; count], starts: 0, went_on }
    }

    /// Counts what a line reports, whatever job it is about.
    fn count(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["start", .., from, _wall_ms] = words[..] {
            self.starts += 1;
            self.started_at(from.parse().unwrap());
        }
        let Some(number) = words.get(1).and_then(|mark| bulk::number_of(mark)) else { return };
        match words[..] {
            ["start", _, _, _, attempt, again, ..] => {
                // A job that was tried before is not a plain case.
                let more = if (attempt, again) == ("1", "new") { 1 } else { 2 };
                self.started[number] = self.started[number].saturating_add(more);
            }
            ["end", .., "ok"] => self.ended_well[number] = self.ended_well[number].saturating_add(1),
            _ => {}
        }
    }

    fn started_at(&mut self, t: u64) {
        let at = self.went_on.partition_point(|(moment, _)| *moment <= t);
        if let Some((_, first)) = at.checked_sub(1).map(|at| &mut self.went_on[at]) {
            *first = Some(first.map_or(t, |first| first.min(t)));
        }
    }

    /// Whether the job started once and succeeded.
    pub fn is_plain(&self, number: usize) -> bool {
        (self.started[number], self.ended_well[number]) == (1, 1)
    }

    pub fn has_started(&self, number: usize) -> bool {
        self.started[number] > 0
    }
}

impl Diary {
    /// Reads all files of a folder. Of plain jobs in bulk it keeps the runs of those that are `odd`, or that did more than run
    /// once. `moments` are those after which work may have resumed.
    pub fn read(folder: &Path, replies: &[Reply], odd: &HashSet<usize>, moments: &[u64]) -> Self {
        let mut plain = Plain::new(replies.len(), moments);
        each_line(folder, |line| plain.count(line));
        let mut diary = Self::default();
        let is_quiet = |number: usize| {
            plain.is_plain(number) && replies[number] == Reply::Accepted && !odd.contains(&number)
        };
        each_line(folder, |line| {
            let number = line.split(' ').nth(1).and_then(bulk::number_of);
            if !number.is_some_and(is_quiet) {
                diary.take(line);
            }
        });
        diary.plain = plain;
        diary
    }

    /// Adds a line. Panics if it is invalid. The end of a run comes after its start, in the same file.
    pub fn take(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["start", mark, step, id, attempt, again, fence, pid, from, wall_ms] => {
                let (fence, pid) = (fenced(fence), pid.parse().unwrap());
                let open = self.open.entry((mark.to_owned(), step.to_owned(), fence, pid)).or_default();
                open.push(self.spans.len());
                self.spans.push(Span {
                    mark: mark.to_owned(),
                    step: step.to_owned(),
                    id: id.to_owned(),
                    attempt: attempt.parse().unwrap(),
                    again: again == "again",
                    fence,
                    pid,
                    from: from.parse().unwrap(),
                    wall_ms: wall_ms.parse().unwrap(),
                    end: None,
                });
            }
            ["end", mark, step, fence, pid, t, how] => {
                let key = (mark.to_owned(), step.to_owned(), fenced(fence), pid.parse().unwrap());
                let how = How::NAMES.iter().find(|(_, name)| *name == how).unwrap().0;
                let open = self.open.get_mut(&key).and_then(Vec::pop);
                let at = open.expect("a run starts before it ends");
                self.spans[at].end = Some((t.parse().unwrap(), how));
            }
            ["stall", pid, from, until] => self.stalls.push(Stall {
                pid: pid.parse().unwrap(),
                from: from.parse().unwrap(),
                until: until.parse().unwrap(),
            }),
            _ => panic!("invalid line in the diary: {line:?}"),
        }
    }
}

fn fenced(text: &str) -> Fence {
    let (ms, seq) = text.split_once('-').unwrap();
    Fence(ms.parse().unwrap(), seq.parse().unwrap())
}

/// Reads all whole lines of all files.
fn each_line(folder: &Path, mut take: impl FnMut(&str)) {
    let paths = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    for path in paths.filter(|path| path.is_file()) {
        let mut reader = BufReader::with_capacity(1 << 20, File::open(path).unwrap());
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            take(line.trim_end());
            line.clear();
        }
    }
}
