//! A console that runs, and a client that sends exactly what a test wants.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use harness::process::{Launch, Worker};
use harness::redis_server::RedisServer;
use harness::wait::until;

/// Where sessions begin and end.
pub(super) const SESSION: &str = "/api/v1/session";

/// The header of a body that is JSON.
pub(super) const JSON: (&str, &str) = ("Content-Type", "application/json");

/// How long anything may take.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// A console that runs.
pub(super) struct Console {
    pub(super) process: Worker,
    /// The address that it listens on.
    pub(super) address: String,
    /// The address that it printed.
    pub(super) printed: String,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    pub(super) body: String,
}

impl Console {
    /// Starts a console with this configuration.
    pub(super) fn start(server: &RedisServer, toml: &str) -> Self {
        let url = server.url();
        let arguments = ["--config", "{config}", "--redis", &url, "console", "--listen", "127.0.0.1:0"];
        let process = Launch::new(&arguments).config(toml).start();
        let mut printed = String::new();
        until("the console to print its address", SOON, || {
            let line =
                process.stdout().lines().find_map(|line| line.strip_prefix("console: ").map(str::to_owned));
            line.is_some_and(|line| {
                printed = line;
                true
            })
        });
        let address = printed.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        Self { process, address, printed }
    }

    /// Sends a request with these headers, and reads the answer.
    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            write!(request, "Host: {}\r\n", self.address).unwrap();
        }
        for (name, value) in headers {
            write!(request, "{name}: {value}\r\n").unwrap();
        }
        write!(request, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut stream = self.connected();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        Answer::parse(&String::from_utf8(answer).unwrap())
    }

    pub(super) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers, "")
    }

    /// Asks with the token of this name.
    pub(super) fn get_as(&self, token: &str, path: &str) -> Answer {
        self.get(path, &[("Authorization", &format!("Bearer {token}"))])
    }

    /// Logs a browser in with this name and password, or this key.
    pub(super) fn log_in(&self, body: &Value) -> Answer {
        self.ask("POST", SESSION, &[JSON], &body.to_string())
    }

    /// Ends a session. `token` is that of its changes.
    pub(super) fn log_out(&self, cookie: &str, token: &str) -> Answer {
        self.ask("DELETE", SESSION, &[("Cookie", cookie), ("X-CSRF-Token", token)], "")
    }

    /// Who asks with these headers, and what they may do; null if nobody is logged in.
    pub(super) fn person(&self, headers: &[(&str, &str)]) -> Value {
        let answer = self.get(SESSION, headers);
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str::<Value>(&answer.body).unwrap()["person"].clone()
    }

    pub(super) fn connected(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self {
            status: status.unwrap_or_else(|| panic!("no answer: {text:?}")),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(sent, _)| sent.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The cookie that it sets, as a browser sends it back.
    pub(super) fn cookie(&self) -> Option<String> {
        self.header("set-cookie").map(|cookie| cookie.split(';').next().unwrap().to_owned())
    }
}

/// The tokens of [`tokens`], and what each may do.
const TOKENS: [(&str, &str); 3] =
    [("viewer", "role = \"viewer\""), ("operator", "role = \"operator\""), ("admin", "role = \"admin\"")];

/// Writes a file of accounts with these tokens, and returns the section of the configuration that names it.
pub(super) fn tokens(directory: &Path) -> String {
    let token = |(name, rights): (&str, &str)| {
        let digest = Sha256::digest(name.as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[tokens.{name}]\nsha256 = \"{digest}\"\n{rights}\n")
    };
    let file = directory.join("tokens.toml");
    std::fs::write(&file, TOKENS.map(token).concat()).unwrap();
    format!("[console]\naccounts_file = {file:?}\n")
}

/// Writes a file of accounts with one person, and returns the configuration that names it.
pub(super) fn accounts(directory: &Path, hash: &str) -> String {
    let file = directory.join("accounts.toml");
    std::fs::write(&file, format!("[people.ann]\npassword = \"{hash}\"\nrole = \"operator\"\n")).unwrap();
    format!("[console]\naccounts_file = {file:?}\n")
}
