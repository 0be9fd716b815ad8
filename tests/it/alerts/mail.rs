//! Mail, against a small SMTP server.

use std::sync::{Arc, Mutex};

use streamfleet::alerts::{Alerts, SinkConfig, SinkKind, SmtpTls, TestError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{watched, with};
use crate::harness::fleet;

const PASSWORD: &str = "canary-password-42";

/// A mail server for one user, without encryption.
struct Post {
    port: u16,
    mails: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Post {
    /// Starts it. It answers `RCPT` with this.
    async fn start(to_recipients: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, mails) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
        let own = Arc::clone(&mails);
        let task = tokio::task::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                // A client that goes away in the middle is no error of the server.
                serve(connection, to_recipients, &own).await.ok();
            }
        });
        Self { port, mails, task }
    }

    fn sink(&self) -> SinkConfig {
        SinkConfig::new(SinkKind::Mail)
            .server(format!("127.0.0.1:{}", self.port))
            .tls(SmtpTls::Off)
            .user("ops")
            .secret(PASSWORD)
            .from("streamfleet@example.com")
            .to(["ann@example.com", "bob@example.com"])
    }
}

async fn serve(
    connection: TcpStream,
    to_recipients: &str,
    mails: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let (reader, mut writer) = connection.into_split();
    let mut lines = BufReader::new(reader).lines();
    writer.write_all(b"220 mail.example.com ESMTP\r\n").await?;
    while let Some(line) = lines.next_line().await? {
        let command = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        let answer = match command.as_str() {
            "EHLO" => "250-mail.example.com\r\n250 AUTH PLAIN LOGIN\r\n".to_owned(),
            "AUTH" => "235 2.7.0 accepted\r\n".to_owned(),
            "MAIL" | "NOOP" | "RSET" => "250 2.1.0 ok\r\n".to_owned(),
            "RCPT" => format!("{to_recipients}\r\n"),
            "DATA" => {
                writer.write_all(b"354 go on\r\n").await?;
                let mut mail = String::new();
                while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                    mail.push_str(&line);
                    mail.push('\n');
                }
                mails.lock().unwrap().push(mail);
                "250 2.0.0 queued as 42\r\n".to_owned()
            }
            "QUIT" => {
                return writer.write_all(b"221 bye\r\n").await;
            }
            _ => "502 5.5.1 unknown\r\n".to_owned(),
        };
        writer.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

async fn test(sink: SinkConfig) -> Result<String, TestError> {
    let redis = fleet::config("redis://127.0.0.1:1").redis;
    Alerts::new(with([("mail", sink)]), redis, watched()).unwrap().test(&"mail".parse().unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_arrives_with_its_recipients_and_its_id() {
    let post = Post::start("250 2.1.5 ok").await;
    let answer = test(post.sink()).await.unwrap();
    assert!(answer.contains("queued as 42"), "{answer}");
    let mails = post.mails.lock().unwrap().clone();
    assert_eq!(mails.len(), 1);
    for part in
        ["Subject: [sf] TEST", "ann@example.com", "Message-ID: <streamfleet.sf.test-", "Nothing is wrong"]
    {
        assert!(mails[0].contains(part), "{part}: {}", mails[0]);
    }
    post.task.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_recipient_is_a_failure_without_the_password() {
    let post = Post::start("550 5.1.1 no such user canary-password-42").await;
    let error = test(post.sink()).await.unwrap_err().to_string();
    assert!(error.contains("5.1.1") && !error.contains(PASSWORD), "{error}");
    assert!(post.mails.lock().unwrap().is_empty());
    post.task.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_starttls_gets_neither_mail_nor_password() {
    let post = Post::start("250 2.1.5 ok").await;
    let error = test(post.sink().tls(SmtpTls::Starttls)).await.unwrap_err().to_string();
    assert!(error.contains("has not taken") || error.contains("did not take"), "{error}");
    assert!(post.mails.lock().unwrap().is_empty());
    post.task.abort();
}
