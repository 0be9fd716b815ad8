//! All recipients of notifications in one process. They are created before the first job runs, and stopped after the
//! last one has ended.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::hook::ErasedHook;
use super::invoker::Invoker;
use super::notification::Notification;
use super::publisher::Publisher;
use super::{Config, NotificationReceiver, NotificationSender, Publish, length};
use crate::batcher::lossy_queue;
use crate::broker::{Broker, Queue};
use crate::event::{Ending, Event, Events, QueueEvent};
use crate::job::ConsumerName;

/// The most notifications that may wait for one hook.
const HOOK_CAPACITY: usize = 1024;

/// The most notifications that may wait for the stream.
const STREAM_CAPACITY: usize = 4096;

/// All recipients of notifications.
pub(crate) struct Dispatch {
    config: Config,
    /// Receives failures of the dispatch itself.
    events: Events,
    hooks: Arc<[NotificationSender]>,
    callers: Vec<(Invoker, NotificationReceiver)>,
    stream: Option<NotificationReceiver>,
}

impl Dispatch {
    /// Returns the dispatch of a process, and the events that it listens to as well. They are unchanged if there are no recipients.
    pub(crate) fn new(
        config: &Config,
        hooks: &[Arc<dyn ErasedHook>],
        events: &Events,
        worker: &ConsumerName,
    ) -> (Self, Events) {
        let (mut senders, mut callers) = (Vec::new(), Vec::new());
        for hook in hooks {
            let (sender, receiver) = lossy_queue(HOOK_CAPACITY);
            let invoker =
                Invoker { hook: Arc::clone(hook), limit: config.hook_timeout, events: events.clone() };
            senders.push(sender);
            callers.push((invoker, receiver));
        }
        let hooks: Arc<[NotificationSender]> = senders.into();
        let (publish, (stream, receiver)) = (config.publish, lossy_queue(STREAM_CAPACITY));
        let with_dispatch = if hooks.is_empty() && publish == Publish::None {
            events.clone()
        } else {
            let (hooks, worker) = (Arc::clone(&hooks), worker.clone());
            events.and(Arc::new(move |event| forward(event, &hooks, (publish, &stream), &worker)))
        };
        let stream = (publish != Publish::None).then_some(receiver);
        (Self { config: config.clone(), events: events.clone(), hooks, callers, stream }, with_dispatch)
    }

    /// Delivers notifications until stopped, and then those that are still waiting. Hooks also receive the lengths of these queues.
    pub(crate) fn start(self, broker: &Broker, queues: Vec<Queue>, stop: &CancellationToken) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for (invoker, receiver) in self.callers {
            tasks.spawn(invoker.run(receiver, stop.clone()));
        }
        if let Some(receiver) = self.stream {
            let (broker, max_length) = (broker.clone(), self.config.max_length);
            let publisher = Publisher { broker, max_length, events: self.events.clone() };
            tasks.spawn(publisher.run(receiver, stop.clone()));
        }
        if !self.hooks.is_empty() {
            for queue in queues {
                let every = self.config.queue_length_every;
                let (hooks, events) = (Arc::clone(&self.hooks), self.events.clone());
                tasks.spawn(length::run(queue, every, hooks, events, stop.clone()));
            }
        }
        tasks
    }
}

/// Passes on what a recipient wants. Anything else costs only a look at the event.
fn forward(
    event: &Event<'_>,
    hooks: &[NotificationSender],
    (publish, stream): (Publish, &NotificationSender),
    worker: &ConsumerName,
) {
    // Hooks have their own timer in every process.
    let to_hooks =
        !hooks.is_empty() && !matches!(event, Event::Queue { event: QueueEvent::QueueLength { .. }, .. });
    let to_stream = match publish {
        Publish::None => false,
        Publish::Failures => {
            matches!(event, Event::Finished(end) if matches!(end.ending, Ending::Retried | Ending::Dead(_)))
        }
        Publish::All => true,
    };
    if !to_hooks && !to_stream {
        return;
    }
    let Some(notification) = Notification::of(event, worker).map(Arc::new) else { return };
    if to_hooks {
        hooks.iter().for_each(|hook| hook.offer(Arc::clone(&notification)));
    }
    if to_stream {
        stream.offer(notification);
    }
}
