//! A way to a server that can be held: it stays open, but nothing passes.

use std::path::PathBuf;

use streamfleet_sql::Dialect;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Place;

pub(crate) struct Wire {
    pub(crate) url: String,
    is_held: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Wire {
    /// Makes a way to the database; none to SQLite, which has no server.
    pub(crate) async fn to(place: &Place) -> Option<Self> {
        let (before, name, socket) = match place.dialect {
            Dialect::MySql => {
                let (name, socket) = parts(&place.url, "?socket=");
                ("mysql://root", name, PathBuf::from(socket))
            }
            Dialect::Postgres => {
                let (name, folder) = parts(&place.url, "?host=");
                ("postgres://postgres", name, PathBuf::from(folder).join(".s.PGSQL.5432"))
            }
            Dialect::Sqlite => return None,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{before}@{}/{name}", listener.local_addr().unwrap());
        let (is_held, held) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, socket, held));
        Some(Self { url, is_held, _tasks: tasks })
    }

    /// Lets nothing pass, or everything again.
    pub(crate) fn hold(&self, is_held: bool) {
        self.is_held.send(is_held).unwrap();
    }
}

/// Returns the name of the database and what follows the parameter.
fn parts<'a>(url: &'a str, parameter: &str) -> (&'a str, &'a str) {
    let (rest, value) = url.split_once(parameter).unwrap();
    (rest.rsplit('/').next().unwrap(), value)
}

async fn serve(listener: TcpListener, socket: PathBuf, held: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        connections.spawn(pass(client, socket.clone(), held.clone()));
    }
}

async fn pass(client: TcpStream, socket: PathBuf, held: watch::Receiver<bool>) {
    let Ok(server) = UnixStream::connect(socket).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = copy(from_client, to_server, held.clone()) => {}
        () = copy(from_server, to_client, held) => {}
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut held: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if held.wait_for(|is_held| !is_held).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
