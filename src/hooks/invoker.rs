//! Calls one hook, one notification at a time. The hook runs on its own thread, so that a hook that blocks takes no
//! thread from the handlers. A thread whose call does not return is abandoned, and the next call gets a new one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::NotificationReceiver;
use super::hook::ErasedHook;
use super::notification::Notification;
use crate::event::{Event, Events, HookFailure, Recipient, ReportEvent};

/// A call that waits is ended on its thread by its time limit. A call that blocks its thread is abandoned this much later.
const MARGIN: Duration = Duration::from_millis(500);

/// The most abandoned threads that are tolerated. Beyond that, notifications are dropped until one of them returns.
const ABANDONED_MAX: usize = 4;

/// How long the remaining notifications get when the process stops.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(2);

/// Calls one hook.
pub(super) struct Invoker {
    pub(super) hook: Arc<dyn ErasedHook>,
    /// How long one call may take.
    pub(super) limit: Duration,
    pub(super) events: Events,
}

/// A request to the hook's thread.
struct Call {
    notification: Arc<Notification>,
    limit: Duration,
    answer: oneshot::Sender<Result<(), CallFailure>>,
}

/// How a call failed.
type CallFailure = (HookFailure, String);

/// The threads of one hook: the current one, and a count of all, including abandoned ones.
struct Threads {
    current: Option<SyncSender<Call>>,
    alive: Arc<()>,
}

impl Invoker {
    /// Calls the hook until stopped, and then with the notifications that are still waiting.
    pub(super) async fn run(self, mut receiver: NotificationReceiver, stop: CancellationToken) {
        let mut threads = Threads { current: None, alive: Arc::new(()) };
        loop {
            let received = stop.run_until_cancelled(receiver.items.recv()).await;
            let Some(notification) = received.flatten() else { break };
            self.call(notification, self.limit, &mut threads).await;
            self.note_dropped(receiver.dropped.take());
        }
        let deadline = Instant::now() + LAST_CALLS_TIMEOUT.min(self.limit);
        while let Ok(notification) = receiver.items.try_recv() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.note_dropped(1 + receiver.discard());
                break;
            }
            self.call(notification, left, &mut threads).await;
        }
        self.note_dropped(receiver.dropped.take());
    }

    async fn call(&self, notification: Arc<Notification>, limit: Duration, threads: &mut Threads) {
        let Some(thread) = threads.get(&self.hook) else {
            self.note_dropped(1);
            return;
        };
        let (answer, answered) = oneshot::channel();
        let called = match thread.try_send(Call { notification, limit, answer }) {
            Ok(()) => tokio::time::timeout(limit + MARGIN, answered).await,
            Err(_) => Ok(Ok(Err((HookFailure::Panic, "its thread has ended".to_owned())))),
        };
        let failure = match called {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(failure))) => failure,
            Ok(Err(_)) => {
                threads.current = None;
                (HookFailure::Panic, "its thread has ended".to_owned())
            }
            Err(_) => {
                threads.current = None;
                (HookFailure::Timeout, format!("blocked its thread for longer than {limit:?}; abandoned"))
            }
        };
        let (hook, (kind, error)) = (self.hook.name(), &failure);
        self.events.emit(&Event::Report(ReportEvent::HookFailed { hook, kind: *kind, error }));
    }

    fn note_dropped(&self, notifications: u64) {
        if notifications > 0 {
            self.events.emit(&Event::Report(ReportEvent::NotificationsDropped {
                recipient: Recipient::Hook,
                notifications,
            }));
        }
    }
}

impl Threads {
    /// Returns the thread to call; `None` if too many were abandoned, or the system cannot start another.
    fn get(&mut self, hook: &Arc<dyn ErasedHook>) -> Option<&SyncSender<Call>> {
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

/// Runs the hook's thread until no caller is left.
fn answer_calls(hook: &dyn ErasedHook, runtime: &Handle, calls: &Receiver<Call>) {
    for Call { notification, limit, answer } in calls {
        let call = AssertUnwindSafe(async { hook.notify(&notification).await }).catch_unwind();
        let result = match runtime.block_on(async { tokio::time::timeout(limit, call).await }) {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(error))) => Err((HookFailure::Error, error.to_string())),
            Ok(Err(_panic)) => Err((HookFailure::Panic, "it panicked".to_owned())),
            Err(_) => Err((HookFailure::Timeout, format!("took longer than {limit:?}; abandoned"))),
        };
        // If nobody is waiting, the answer came too late, and was counted.
        drop(answer.send(result));
    }
}
