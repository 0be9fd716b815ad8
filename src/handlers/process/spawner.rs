//! The thread that starts children. A child dies with the thread that started it. Threads of a runtime may end before
//! the process does; this one does not.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// How many requests may wait for the thread. Further senders wait to send.
const WAITING_MAX: usize = 64;

/// What the thread does for one caller.
type Request = Box<dyn FnOnce() + Send>;

/// Runs `start` on the thread. If the caller is gone by then, what it returns is dropped at once.
pub(crate) async fn on_the_thread<T: Send + 'static>(
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
    thread()?.send(request).await.map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

/// Returns the channel to the thread, which is started when it is first needed.
fn thread() -> io::Result<mpsc::Sender<Request>> {
    static THREAD: Mutex<Option<mpsc::Sender<Request>>> = Mutex::new(None);
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = thread.as_ref().filter(|sender| !sender.is_closed()) {
        return Ok(sender.clone());
    }
    let (sender, requests) = mpsc::channel(WAITING_MAX);
    thread::Builder::new().name("exec-spawner".to_owned()).spawn(move || serve(requests))?;
    *thread = Some(sender.clone());
    Ok(sender)
}

fn serve(mut requests: mpsc::Receiver<Request>) {
    while let Some(start) = requests.blocking_recv() {
        start();
    }
}
