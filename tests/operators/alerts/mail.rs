//! Mail, against a small SMTP server.

use std::io::{Read, Result as IoResult, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use streamfleet_service::alerts::{Alerts, SinkConfig, SinkKind, SmtpTls, TestError};

use super::{watched, with};
use harness::certificates::{Authority, Certified, Valid};
use harness::fleet;

const PASSWORD: &str = "canary-password-42";

const GREETING: &[u8] = b"220 mail.example.com ESMTP\r\n";

/// A mail server for one user.
struct Post {
    port: u16,
    tls: SmtpTls,
    heard: Arc<Mutex<Heard>>,
}

/// What a server got.
#[derive(Default)]
struct Heard {
    commands: Vec<String>,
    mails: Vec<String>,
}

/// What a server does with each connection.
struct Manner {
    tls: SmtpTls,
    certified: Option<Arc<ServerConfig>>,
    to_recipients: &'static str,
    heard: Arc<Mutex<Heard>>,
}

/// A connection, encrypted or not.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Post {
    /// Starts a server without encryption. It answers `RCPT` with this.
    fn start(to_recipients: &'static str) -> Self {
        Self::start_with(SmtpTls::Off, None, to_recipients)
    }

    /// Starts a server with this encryption and certificate.
    fn encrypted(tls: SmtpTls, certified: &Certified) -> Self {
        let chain = CertificateDer::pem_file_iter(&certified.cert).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(&certified.key).unwrap();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
        Self::start_with(tls, Some(Arc::new(config)), "250 2.1.5 ok")
    }

    fn start_with(tls: SmtpTls, certified: Option<Arc<ServerConfig>>, to_recipients: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, heard) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Heard>>::default());
        let manner = Manner { tls, certified, to_recipients, heard: Arc::clone(&heard) };
        // It serves until the test program ends.
        thread::spawn(move || {
            for connection in listener.incoming() {
                // A client that goes away in the middle is no error of the server.
                manner.serve(connection.unwrap()).ok();
            }
        });
        Self { port, tls, heard }
    }

    fn sink(&self) -> SinkConfig {
        SinkConfig::new(SinkKind::Mail)
            .server(format!("127.0.0.1:{}", self.port))
            .tls(self.tls)
            .user("ops")
            .secret(PASSWORD)
            .from("streamfleet@example.com")
            .to(["ann@example.com", "bob@example.com"])
    }

    fn mails(&self) -> Vec<String> {
        self.heard.lock().unwrap().mails.clone()
    }

    /// Whether somebody sent a password or a mail.
    fn heard_a_secret(&self) -> bool {
        let heard = self.heard.lock().unwrap();
        !heard.mails.is_empty() || heard.commands.iter().any(|command| command == "AUTH" || command == "DATA")
    }
}

impl Manner {
    fn serve(&self, mut connection: TcpStream) -> IoResult<()> {
        if self.tls != SmtpTls::Tls {
            connection.write_all(GREETING)?;
            let asks_for_tls = self.talk(&mut connection, false)?;
            return if asks_for_tls {
                self.talk(&mut self.encrypted(connection)?, true).map(drop)
            } else {
                Ok(())
            };
        }
        let mut stream = self.encrypted(connection)?;
        stream.write_all(GREETING)?;
        self.talk(&mut stream, true).map(drop)
    }

    fn encrypted(&self, connection: TcpStream) -> IoResult<StreamOwned<ServerConnection, TcpStream>> {
        let certified = self.certified.clone().expect("a certificate");
        let session = ServerConnection::new(certified).map_err(std::io::Error::other)?;
        Ok(StreamOwned::new(session, connection))
    }

    /// Answers commands until the client leaves, or asks for encryption. Returns whether it does.
    fn talk(&self, stream: &mut dyn Stream, is_encrypted: bool) -> IoResult<bool> {
        let must_encrypt = self.tls == SmtpTls::Starttls && !is_encrypted;
        while let Some(line) = line(stream)? {
            let command = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
            self.heard.lock().unwrap().commands.push(command.clone());
            let answer = match command.as_str() {
                "EHLO" if must_encrypt => "250-mail.example.com\r\n250 STARTTLS",
                "EHLO" => "250-mail.example.com\r\n250 AUTH PLAIN LOGIN",
                "STARTTLS" if must_encrypt => {
                    stream.write_all(b"220 2.0.0 go on\r\n")?;
                    return Ok(true);
                }
                "AUTH" | "MAIL" | "RCPT" | "DATA" if must_encrypt => "530 5.7.0 STARTTLS first",
                "AUTH" => "235 2.7.0 accepted",
                "MAIL" | "NOOP" | "RSET" => "250 2.1.0 ok",
                "RCPT" => self.to_recipients,
                "DATA" => self.take(stream)?,
                "QUIT" => {
                    stream.write_all(b"221 bye\r\n")?;
                    return Ok(false);
                }
                _ => "502 5.5.1 unknown",
            };
            stream.write_all(format!("{answer}\r\n").as_bytes())?;
        }
        Ok(false)
    }

    /// Takes a mail.
    fn take(&self, stream: &mut dyn Stream) -> IoResult<&'static str> {
        stream.write_all(b"354 go on\r\n")?;
        let mut mail = String::new();
        while let Some(line) = line(stream)?.filter(|line| line != ".") {
            mail.push_str(&line);
            mail.push('\n');
        }
        self.heard.lock().unwrap().mails.push(mail);
        Ok("250 2.0.0 queued as 42")
    }
}

/// Reads a line; `None` at the end.
fn line(stream: &mut dyn Stream) -> IoResult<Option<String>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.last() != Some(&b'\n') {
        if stream.read(&mut byte)? == 0 {
            return Ok(None);
        }
        line.push(byte[0]);
    }
    Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
}

async fn test(sink: SinkConfig) -> Result<String, TestError> {
    let redis = fleet::config("redis://127.0.0.1:1").redis;
    Alerts::new(with([("mail", sink)]), redis, watched()).unwrap().test(&"mail".parse().unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_arrives_with_its_recipients_and_its_id() {
    let post = Post::start("250 2.1.5 ok");
    let answer = test(post.sink()).await.unwrap();
    assert!(answer.contains("queued as 42"), "{answer}");
    let mails = post.mails();
    assert_eq!(mails.len(), 1);
    for part in
        ["Subject: [sf] TEST", "ann@example.com", "Message-ID: <streamfleet.sf.test-", "Nothing is wrong"]
    {
        assert!(mails[0].contains(part), "{part}: {}", mails[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_recipient_is_a_failure_without_the_password() {
    let post = Post::start("550 5.1.1 no such user canary-password-42");
    let error = test(post.sink()).await.unwrap_err().to_string();
    assert!(error.contains("5.1.1") && !error.contains(PASSWORD), "{error}");
    assert!(post.mails().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_starttls_gets_neither_mail_nor_password() {
    let post = Post::start("250 2.1.5 ok");
    let error = test(post.sink().tls(SmtpTls::Starttls)).await.unwrap_err().to_string();
    assert!(error.contains("has not taken") || error.contains("did not take"), "{error}");
    assert!(!post.heard_a_secret());
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_is_encrypted_from_the_start_or_by_starttls() {
    let authority = Authority::new("mail");
    for tls in [SmtpTls::Tls, SmtpTls::Starttls] {
        let post = Post::encrypted(tls, &authority.server());
        let answer = test(post.sink().ca_file(authority.file())).await;
        let answer = answer.unwrap_or_else(|error| panic!("{tls:?}: {error}"));
        assert!(answer.contains("queued as 42"), "{tls:?}: {answer}");
        assert!(post.heard_a_secret() && post.mails().len() == 1, "{tls:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_proves_nothing_gets_neither_mail_nor_password() {
    let (authority, other) = (Authority::new("mail"), Authority::new("other"));
    let elsewhere = authority.issue("elsewhere", &["mail.example.com"], Valid::Now);
    let over = authority.issue("over", &["127.0.0.1"], Valid::Over);
    for tls in [SmtpTls::Tls, SmtpTls::Starttls] {
        for (certified, known) in [
            (&authority.server(), Some(&other)),
            (&authority.server(), None),
            (&elsewhere, Some(&authority)),
            (&over, Some(&authority)),
        ] {
            let post = Post::encrypted(tls, certified);
            let sink = known.map_or(post.sink(), |known| post.sink().ca_file(known.file()));
            let error = test(sink).await.unwrap_err().to_string();
            assert!(error.contains("certificate") && !error.contains(PASSWORD), "{tls:?}: {error}");
            assert!(!post.heard_a_secret(), "{tls:?}: {error}");
        }
    }
}
