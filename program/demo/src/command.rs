//! A Redis command, sent as a producer in any language could send it: with redis-cli if it is installed, otherwise over a
//! plain connection. No code of this library is between the demo's producer and Redis.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use secrecy::{ExposeSecret, SecretString};
use streamfleet::dev_server::{self, DevServer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A command and its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Command(Vec<Vec<u8>>);

impl Command {
    pub(super) fn new<T: AsRef<[u8]>>(words: impl IntoIterator<Item = T>) -> Self {
        Self(words.into_iter().map(|word| word.as_ref().to_vec()).collect())
    }

    /// Returns one line, as redis-cli reads it on standard input and as Redis accepts it inline.
    pub(super) fn line(&self) -> String {
        self.0.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command as a person types it into a shell.
    pub(super) fn shell(&self, port: u16) -> String {
        let words = self.0.iter().map(|word| shell_word(&String::from_utf8_lossy(word)));
        format!("{} -p {port} {}", dev_server::client(), words.collect::<Vec<_>>().join(" "))
    }
}

/// Quotes a word as Redis does, if it needs quotes.
fn quoted(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(word);
    if is_plain(&text) {
        return text.into_owned();
    }
    if word.iter().all(|byte| (b' '..=b'~').contains(byte) && !b"'\\".contains(byte)) {
        return format!("'{text}'");
    }
    let escaped = word.iter().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// Quotes a word for a shell, if it needs quotes.
fn shell_word(word: &str) -> String {
    if is_plain(word) && !word.contains(['{', '}', '*']) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-:{}*".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

/// What sends the commands.
pub(super) struct Sender {
    /// A client program; without one, a plain connection is used.
    program: Option<&'static str>,
    /// The port of the server on the loopback address.
    pub(super) port: u16,
    password: SecretString,
}

impl Sender {
    /// Returns a sender to this server that uses the client program if one is installed.
    pub(super) async fn to(server: &DevServer) -> Self {
        let client = dev_server::client();
        let program = runs(client).await.then_some(client);
        Self { program, port: server.port(), password: server.password().clone() }
    }

    /// Returns the name of what sends.
    pub(super) fn name(&self) -> &'static str {
        self.program.unwrap_or("a plain connection")
    }

    /// Sends all commands, and returns the reply to each.
    pub(super) async fn send(&self, commands: &[Command]) -> Result<Vec<String>> {
        let lines: String = commands.iter().map(|command| command.line() + "\n").collect();
        let replies = match self.program {
            Some(program) => self.by_program(program, lines).await?,
            None => self.by_connection(&lines, commands.len()).await?,
        };
        ensure!(
            replies.len() == commands.len(),
            "redis sent {} replies to {} commands",
            replies.len(),
            commands.len()
        );
        Ok(replies)
    }

    async fn by_program(&self, program: &str, lines: String) -> Result<Vec<String>> {
        let mut command = tokio::process::Command::new(program);
        command.args(["-p", &self.port.to_string()]).env("REDISCLI_AUTH", self.password.expose_secret());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("failed to start {program}"))?;
        let mut stdin = child.stdin.take().context("the child process has no stdin pipe")?;
        // Written while its output is read: either pipe may be full.
        let fed = async move { stdin.write_all(lines.as_bytes()).await };
        let (fed, output) = tokio::join!(fed, child.wait_with_output());
        fed?;
        Ok(String::from_utf8_lossy(&output?.stdout).lines().map(str::to_owned).collect())
    }

    async fn by_connection(&self, lines: &str, count: usize) -> Result<Vec<String>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let (input, mut output) = stream.split();
        let lines = format!("AUTH {}\n{lines}", self.password.expose_secret());
        let read = async {
            let (mut lines, mut replies) = (BufReader::new(input).lines(), Vec::new());
            let login = lines.next_line().await?.context("Redis closed the connection")?;
            ensure!(login == "+OK", "Redis refused the login: {login}");
            while replies.len() < count {
                let line = lines.next_line().await?.context("Redis closed the connection")?;
                // `$15` announces the line that follows; `:1` and `-ERR …` are complete.
                replies.push(match line.strip_prefix('$') {
                    Some(_) => lines.next_line().await?.unwrap_or_default(),
                    None => line.trim_start_matches([':', '-', '+']).to_owned(),
                });
            }
            anyhow::Ok(replies)
        };
        let (written, replies) = tokio::join!(output.write_all(lines.as_bytes()), read);
        written?;
        replies
    }
}

/// Returns true if the program can be started.
pub(super) async fn runs(program: &str) -> bool {
    let mut command = tokio::process::Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_redis_and_for_a_shell() {
        let command = Command::new(["XADD", "sf:{q}:jobs", "*", "payload", r#"{"a":1}"#, "it's", "5 °C", ""]);
        assert_eq!(command.line(), r#"XADD sf:{q}:jobs * payload '{"a":1}' "it's" "5 \xc2\xb0C" ''"#);
        let shell = r#"-p 1 XADD 'sf:{q}:jobs' '*' payload '{"a":1}' 'it'\''s' '5 °C' ''"#;
        assert_eq!(command.shell(1), format!("{} {shell}", dev_server::client()));
    }
}
