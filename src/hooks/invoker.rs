//! Calls one hook, one notification at a time. The hook runs on a thread of its own, so that one that blocks takes no thread from
//! the handlers; a thread whose call does not return is abandoned, and the next call gets another.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::channel::NotificationReceiver;
use super::hook::Called;
use super::notification::Notification;
use crate::event::{Event, Events, HookFailure, Recipient};

/// A call that waits for something is ended by its limit of time on its thread; one that blocks the thread is given up
/// so much later.
const MARGIN: Duration = Duration::from_millis(500);

/// So many threads that do not come back are put up with. Beyond that notifications are dropped until one does.
const ABANDONED_MAX: usize = 4;

/// What is left when the process stops gets so long.
const LAST_CALLS: Duration = Duration::from_secs(2);

/// Calls one hook.
pub(super) struct Invoker {
    pub(super) hook: Arc<dyn Called>,
    /// How long one call may take.
    pub(super) limit: Duration,
    pub(super) events: Events,
}

/// What is asked of the hook's thread.
struct Call {
    notification: Arc<Notification>,
    limit: Duration,
    answer: oneshot::Sender<Result<(), Fault>>,
}

/// How a call failed.
type Fault = (HookFailure, String);

/// The threads of one hook: the one that is called, and how many there are with those abandoned.
struct Threads {
    current: Option<SyncSender<Call>>,
    alive: Arc<()>,
}

impl Invoker {
    /// Calls until stopped, then with what was told before.
    pub(super) async fn run(self, mut receiver: NotificationReceiver, stop: CancellationToken) {
        let mut threads = Threads { current: None, alive: Arc::new(()) };
        loop {
            let notification = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                notification = receiver.notifications.recv() => notification,
            };
            let Some(notification) = notification else { break };
            self.call(notification, self.limit, &mut threads).await;
            self.note_dropped(receiver.dropped());
        }
        let deadline = Instant::now() + LAST_CALLS.min(self.limit);
        while let Ok(notification) = receiver.notifications.try_recv() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.note_dropped(1 + receiver.discard());
                break;
            }
            self.call(notification, left, &mut threads).await;
        }
        self.note_dropped(receiver.dropped());
    }

    async fn call(&self, notification: Arc<Notification>, limit: Duration, threads: &mut Threads) {
        let Some(thread) = threads.get(&self.hook) else {
            self.note_dropped(1);
            return;
        };
        let (answer, answered) = oneshot::channel();
        let called = match thread.try_send(Call { notification, limit, answer }) {
            Ok(()) => tokio::time::timeout(limit + MARGIN, answered).await,
            Err(_) => Ok(Ok(Err((HookFailure::Panic, "its thread is gone".to_owned())))),
        };
        let fault = match called {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(fault))) => fault,
            Ok(Err(_)) => {
                threads.current = None;
                (HookFailure::Panic, "its thread is gone".to_owned())
            }
            Err(_) => {
                threads.current = None;
                (HookFailure::Timeout, format!("blocked its thread for longer than {limit:?}; abandoned"))
            }
        };
        let (hook, (kind, error)) = (self.hook.name(), &fault);
        self.events.tell(&Event::HookFailed { hook, kind: *kind, error });
    }

    fn note_dropped(&self, notifications: u64) {
        if notifications > 0 {
            self.events.tell(&Event::NotificationsDropped { recipient: Recipient::Hook, notifications });
        }
    }
}

impl Threads {
    /// The thread to call; `None` where too many were abandoned, or the system has none.
    fn get(&mut self, hook: &Arc<dyn Called>) -> Option<&SyncSender<Call>> {
        if self.current.is_none() && Arc::strong_count(&self.alive) <= ABANDONED_MAX {
            let (calls, called) = sync_channel(1);
            let (hook, runtime, alive) = (Arc::clone(hook), Handle::current(), Arc::clone(&self.alive));
            let work = move || {
                answer_calls(&*hook, &runtime, &called);
                drop(alive);
            };
            let thread = std::thread::Builder::new().name("hook".to_owned()).spawn(work);
            self.current = thread.ok().map(|_detached| calls);
        }
        self.current.as_ref()
    }
}

/// The hook's thread, until nobody calls any more.
fn answer_calls(hook: &dyn Called, runtime: &Handle, calls: &Receiver<Call>) {
    for Call { notification, limit, answer } in calls {
        let call = AssertUnwindSafe(async { hook.tell(&notification).await }).catch_unwind();
        let result = match runtime.block_on(async { tokio::time::timeout(limit, call).await }) {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err((HookFailure::Error, error.to_string())),
            Ok(Err(_panic)) => Err((HookFailure::Panic, "it panicked".to_owned())),
            Err(_) => Err((HookFailure::Timeout, format!("took longer than {limit:?}; abandoned"))),
        };
        // Where nobody waits any more, it was too late and counted.
        drop(answer.send(result));
    }
}
