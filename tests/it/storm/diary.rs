//! The diary of a storm: what handlers did, and when their process stood still, in files outside Redis. A line is appended
//! by one `write(2)`, so a killed writer leaves whole lines.
//!
//! ```text
//! start <mark> <step or -> <id> <attempt> <new or again> <fence> <pid> <t_ns> <wall_ms>
//! end   <mark> <step or -> <fence> <pid> <t_ns> <how>
//! stall <pid> <from_ns> <until_ns>
//! ```

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::harness::ledger::{Fence, How};

/// One run of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// What the submission was called.
    pub(super) mark: String,
    /// `-` where the job has no steps.
    pub(super) step: String,
    pub(super) id: String,
    pub(super) attempt: u32,
    /// True where the fleet says that somebody may have run it before.
    pub(super) again: bool,
    pub(super) fence: Fence,
    pub(super) pid: u32,
    pub(super) from: u64,
    pub(super) wall_ms: u64,
    pub(super) end: Option<(u64, How)>,
}

/// A process stood still between the two, for whatever reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) pid: u32,
    pub(super) from: u64,
    pub(super) until: u64,
}

/// Everything in a folder, in no order.
#[derive(Clone, Debug, Default)]
pub(super) struct Diary {
    pub(super) spans: Vec<Span>,
    pub(super) stalls: Vec<Stall>,
}

/// Appends to a file of the diary.
pub(super) struct Pen(File);

impl Pen {
    pub(super) fn new(folder: &Path) -> Self {
        let path = folder.join(format!("worker-{}", std::process::id()));
        Self(File::options().create(true).append(true).open(path).unwrap())
    }

    pub(super) fn started(&self, span: &Span) {
        let Span { mark, step, id, attempt, fence, pid, from, wall_ms, .. } = span;
        let again = if span.again { "again" } else { "new" };
        let Fence(ms, seq) = fence;
        self.append(&format!("start {mark} {step} {id} {attempt} {again} {ms}-{seq} {pid} {from} {wall_ms}"));
    }

    pub(super) fn ended(&self, span: &Span, t: u64, how: How) {
        let Span { mark, step, fence: Fence(ms, seq), pid, .. } = span;
        self.append(&format!("end {mark} {step} {ms}-{seq} {pid} {t} {}", how.name()));
    }

    pub(super) fn stalled(&self, stall: &Stall) {
        self.append(&format!("stall {} {} {}", stall.pid, stall.from, stall.until));
    }

    fn append(&self, line: &str) {
        (&self.0).write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

impl Diary {
    /// Reads all files of a folder.
    pub(super) fn read(folder: &Path) -> Self {
        let mut diary = Self::default();
        for file in fs::read_dir(folder).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let whole = text.rsplit_once('\n').map_or("", |(whole, _rest)| whole);
            whole.lines().for_each(|line| diary.take(line));
        }
        diary
    }

    /// Panics on a line that is none. The end of a run stands behind its start, in the same file.
    pub(super) fn take(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["start", mark, step, id, attempt, again, fence, pid, from, wall_ms] => self.spans.push(Span {
                mark: mark.to_owned(),
                step: step.to_owned(),
                id: id.to_owned(),
                attempt: attempt.parse().unwrap(),
                again: again == "again",
                fence: fenced(fence),
                pid: pid.parse().unwrap(),
                from: from.parse().unwrap(),
                wall_ms: wall_ms.parse().unwrap(),
                end: None,
            }),
            ["end", mark, step, fence, pid, t, how] => {
                let (fence, pid) = (fenced(fence), pid.parse().unwrap());
                let how = How::NAMES.iter().find(|(_, name)| *name == how).unwrap().0;
                let mut open = self.spans.iter_mut().rev().filter(|span| span.end.is_none());
                let own = |span: &&mut Span| {
                    (span.mark.as_str(), span.step.as_str(), span.fence, span.pid) == (mark, step, fence, pid)
                };
                open.find(own).expect("a run starts before it ends").end = Some((t.parse().unwrap(), how));
            }
            ["stall", pid, from, until] => self.stalls.push(Stall {
                pid: pid.parse().unwrap(),
                from: from.parse().unwrap(),
                until: until.parse().unwrap(),
            }),
            _ => panic!("no line of a diary: {line:?}"),
        }
    }
}

fn fenced(text: &str) -> Fence {
    let (ms, seq) = text.split_once('-').unwrap();
    Fence(ms.parse().unwrap(), seq.parse().unwrap())
}
