//! The threads that start children: one for each user, because the programs of a user can hold up its starts, and not those of others.
//! A child dies with the thread that started it. Threads of a runtime may end before the process does; these do not.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::broker::mutex::lock;

/// How many requests may wait for a thread. Further senders wait to send.
const WAITING_MAX: usize = 64;

/// After how long a caller that still waits is reported.
const LONG: Duration = Duration::from_secs(30);

/// What a thread does for one caller.
type Request = Box<dyn FnOnce() + Send>;

/// Runs `start` on the thread of this user; `None` is the worker's. If the caller is gone by then, what it returns is dropped at once.
pub(crate) async fn on_the_thread<T: Send + 'static>(
    user: Option<u32>,
    start: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let mut started = pin!(ask(user, start));
    if let Ok(started) = timeout(LONG, started.as_mut()).await {
        return started;
    }
    tracing::warn!(
        user,
        seconds = LONG.as_secs(),
        "a program still waits for its start: a file system does not answer, or programs of its user stop those that start"
    );
    started.await
}

async fn ask<T: Send + 'static>(
    user: Option<u32>,
    start: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (sender, child) = oneshot::channel();
    let runtime = Handle::current();
    let request: Request = Box::new(move || {
        // The child's pipes belong to the runtime that asked for it.
        let _entered = runtime.enter();
        drop(sender.send(start()));
    });
    let gone = || io::Error::other("the thread that starts programs has ended");
    thread(user)?.send(request).await.map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

/// Returns the channel to the thread of a user, which is started when it is first needed.
fn thread(user: Option<u32>) -> io::Result<mpsc::Sender<Request>> {
    static THREADS: Mutex<BTreeMap<Option<u32>, mpsc::Sender<Request>>> = Mutex::new(BTreeMap::new());
    let mut threads = lock(&THREADS);
    if let Some(sender) = threads.get(&user).filter(|sender| !sender.is_closed()) {
        return Ok(sender.clone());
    }
    let (sender, requests) = mpsc::channel(WAITING_MAX);
    thread::Builder::new().name("exec-spawner".to_owned()).spawn(move || serve(requests))?;
    threads.insert(user, sender.clone());
    Ok(sender)
}

fn serve(mut requests: mpsc::Receiver<Request>) {
    while let Some(start) = requests.blocking_recv() {
        start();
    }
}
