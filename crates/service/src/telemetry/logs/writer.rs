//! Standard error behind a bounded queue and its own thread. A stopped terminal, or a pipe that nobody reads, costs log
//! lines but never a worker's time. A closed standard error is not an error.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// How many lines may wait. Further lines are dropped and counted.
const WAITING_MAX: usize = 4096;

/// How long the end of the process waits for the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Accepts lines.
#[derive(Clone)]
pub(super) struct Lines {
    queue: SyncSender<Vec<u8>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    lost: AtomicU64,
    closing: AtomicBool,
}

/// Writes the last lines when it is dropped.
#[must_use]
pub struct Flush {
    lines: Lines,
    written: Receiver<()>,
}

/// Starts the writer's thread.
pub(super) fn open() -> io::Result<(Lines, Flush)> {
    open_to(io::stderr())
}

fn open_to(out: impl Write + Send + 'static) -> io::Result<(Lines, Flush)> {
    let (queue, waiting) = sync_channel(WAITING_MAX);
    let (done, written) = sync_channel(1);
    let lines = Lines { queue, shared: Arc::default() };
    let shared = Arc::clone(&lines.shared);
    let thread = std::thread::Builder::new().name("logs".to_owned());
    thread.spawn(move || write(out, &waiting, &shared, &done))?;
    Ok((lines.clone(), Flush { lines, written }))
}

fn write(mut out: impl Write, waiting: &Receiver<Vec<u8>>, shared: &Shared, done: &SyncSender<()>) {
    // An error means that the reader is gone, and there is nowhere else to report it.
    let mut put = |bytes: &[u8]| out.write_all(bytes).and_then(|()| out.flush()).unwrap_or_default();
    while let Ok(line) = waiting.recv() {
        put(&line);
        waiting.try_iter().for_each(|line| put(&line));
        let lost = shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            put(format!("{lost} log lines were lost: standard error was too slow\n").as_bytes());
        }
        if shared.closing.load(Ordering::Acquire) {
            done.try_send(()).unwrap_or_default();
        }
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(TrySendError::Full(_)) = self.queue.try_send(bytes.to_vec()) {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.lines.shared.closing.store(true, Ordering::Release);
        // An empty line wakes the thread if it sleeps. If the queue is full, it does not sleep.
        self.lines.queue.try_send(Vec::new()).unwrap_or_default();
        self.written.recv_timeout(FLUSH_TIMEOUT).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::logs::human::tests::Sink;

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_loses_lines_and_learns_how_many() {
        let sink = Sink::default();
        let held = sink.0.lock().unwrap();
        let (mut lines, flush) = open_to(sink.clone()).unwrap();
        for _ in 0..WAITING_MAX + 100 {
            lines.write_all(b"line\n").unwrap();
        }
        drop(held);
        drop(flush);
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("log lines were lost"), "{} bytes", text.len());
    }

    #[test]
    fn a_closed_standard_error_is_no_error() {
        let (mut lines, flush) = open_to(Broken).unwrap();
        lines.write_all(b"line\n").unwrap();
        drop(flush);
        lines.write_all(b"line\n").unwrap();
    }
}
