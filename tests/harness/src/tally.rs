//! Counts what a process of the fleet reports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use streamfleet::event::{Event, Events, QueueEvent};
use streamfleet::job::JobId;
use streamfleet::{Fleet, FleetConfig, Handler};

use crate::fleet::{Running, quick};

/// All outcomes that a process reports, and what else it counts.
#[derive(Clone, Default)]
pub struct Tally(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    endings: BTreeMap<String, Vec<&'static str>>,
    fenced: usize,
    quarantine: Vec<String>,
}

impl Tally {
    pub fn events(&self) -> Events {
        let seen = Arc::clone(&self.0);
        Events::new(vec![Arc::new(move |event: &Event<'_>| {
            let mut seen = seen.lock().unwrap();
            match event {
                Event::Finished(end) => {
                    seen.endings.entry(end.job.to_string()).or_default().push(end.ending.as_str());
                }
                Event::Queue { event: QueueEvent::Fenced, .. } => seen.fenced += 1,
                Event::Queue { event: QueueEvent::SetAside { job, keys, .. }, .. } => {
                    seen.quarantine.push(format!("{job}: {keys}"))
                }
                _ => {}
            }
        })])
    }

    /// Returns how each attempt of a job ended.
    pub fn of(&self, job: &JobId) -> Vec<&'static str> {
        self.0.lock().unwrap().endings.get(&job.to_string()).cloned().unwrap_or_default()
    }

    /// Returns how many attempts ended.
    pub fn all(&self) -> usize {
        self.0.lock().unwrap().endings.values().map(Vec::len).sum()
    }

    pub fn fenced(&self) -> usize {
        self.0.lock().unwrap().fenced
    }

    /// Returns what was set aside, with the keys that the event names.
    pub fn quarantine(&self) -> Vec<String> {
        self.0.lock().unwrap().quarantine.clone()
    }
}

/// Starts a process whose outcomes are counted.
pub fn start(config: FleetConfig, handler: impl Handler, tally: &Tally) -> Running {
    let builder = Fleet::builder(config).events(tally.events());
    Running::of(builder.handler_with("test", quick(3), handler).unwrap().build())
}
