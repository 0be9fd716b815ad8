//! The thread that starts children. A child dies with the thread that started it. Threads of a runtime may end before
//! the process does; this one does not.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::child::Child;

/// How many requests may wait for the thread. Further senders wait to send.
const WAITING_MAX: usize = 64;

struct Request {
    command: Command,
    payload: Bytes,
    runtime: Handle,
    child: oneshot::Sender<io::Result<Child>>,
}

/// Starts `command` on the thread, with `payload` as its input. If the caller is gone by then, the child is killed at
/// once.
pub(super) async fn start(command: Command, payload: Bytes) -> io::Result<Child> {
    let (sender, child) = oneshot::channel();
    let request = Request { command, payload, runtime: Handle::current(), child: sender };
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
    while let Some(Request { command, payload, runtime, child }) = requests.blocking_recv() {
        // The child's pipes belong to the runtime that asked for it.
        let _entered = runtime.enter();
        drop(child.send(Child::start(command, &payload)));
    }
}
