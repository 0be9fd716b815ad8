//! How much slower the machine was, for a second, than at its best. What must end within a time gets as much more of it, because nobody
//! promises anything about a machine that other programs use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::wait::pause_for;

/// Work that takes about a millisecond of a processor.
const KNOWN: u64 = 300_000;

/// How many times the work is done in about a second.
const A_SECOND: usize = 20;

/// A known amount of work, repeated until it is asked how long it took.
pub struct Slowness {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl Slowness {
    /// Begins to measure.
    pub fn begin() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut took = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                (0..KNOWN).for_each(|n| {
                    std::hint::black_box(n);
                });
                took.push(begun.elapsed());
                pause_for(Duration::from_millis(50));
            }
            worst(&took)
        });
        Self { stop, thread }
    }

    /// Returns by which factor the work took longer in the slowest second than it took at the shortest; at least 1.
    pub fn end(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("nothing in it can panic")
    }
}

fn worst(took: &[Duration]) -> f64 {
    let Some(least) = took.iter().min() else { return 1.0 };
    let mean = |second: &[Duration]| second.iter().sum::<Duration>().div_f64(second.len() as f64);
    let seconds = took.chunks(A_SECOND).map(mean);
    seconds.max().map_or(1.0, |most| most.as_secs_f64() / least.as_secs_f64().max(f64::EPSILON))
}
