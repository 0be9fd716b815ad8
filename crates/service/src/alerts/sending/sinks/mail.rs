//! Mail over SMTP, as plain text. A mail that is sent again has the same id, so mailboxes recognize it.

use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use secrecy::{ExposeSecret, SecretString};

use super::{ANSWER_BYTES, Answer, Message, SinkConfig};
use crate::alerts::sink::SmtpTls;
use crate::job::incident::line::plain_line;

/// How long one command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// How long all of it may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The most bytes of a mail.
const TEXT_BYTES: usize = 32 * 1024;

/// The most bytes of a subject.
const SUBJECT_BYTES: usize = 200;

/// A mail server, and who gets mails.
pub(super) struct Mail {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    to: Vec<Mailbox>,
    /// What no text may contain.
    password: Option<SecretString>,
}

impl Mail {
    pub(super) fn open(config: &SinkConfig, password: Option<SecretString>) -> Result<Self, String> {
        let server = config.server.as_deref().unwrap_or_default().trim();
        let (host, port) = place(server, config.tls)?;
        let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&host);
        let mut builder = builder.port(port).timeout(Some(COMMAND_TIMEOUT)).tls(tls(config, &host)?);
        if let (Some(user), Some(password)) = (&config.user, &password) {
            let credentials = Credentials::new(user.clone(), password.expose_secret().to_owned());
            builder = builder.credentials(credentials);
        }
        let to = config.to.iter().map(|address| mailbox("to", address)).collect::<Result<_, _>>()?;
        let from = mailbox("from", config.from.as_deref().unwrap_or_default())?;
        Ok(Self { transport: builder.build(), from, to, password })
    }

    /// Sends a mail once.
    pub(super) async fn send(&self, message: &Message) -> Answer {
        let mail = match self.mail(message) {
            Ok(mail) => mail,
            Err(error) => return Answer::Refused { why: format!("the mail cannot be written: {error}") },
        };
        match tokio::time::timeout(TIMEOUT, self.transport.send(mail)).await {
            Ok(Ok(response)) => {
                let text: Vec<&str> = response.message().collect();
                Answer::Accepted { said: self.plain(&text.join(" ")) }
            }
            Ok(Err(error)) if error.is_permanent() => Answer::Refused { why: self.described(&error) },
            Ok(Err(error)) => Answer::Later { pause: None, why: self.described(&error) },
            Err(_) => {
                Answer::Later { pause: None, why: format!("did not answer within {} s", TIMEOUT.as_secs()) }
            }
        }
    }

    fn mail(&self, message: &Message) -> Result<lettre::Message, lettre::error::Error> {
        let host = self.from.email.domain();
        let mut mail = lettre::Message::builder()
            .from(self.from.clone())
            .subject(plain_line(&message.title, SUBJECT_BYTES))
            .message_id(Some(format!("<streamfleet.{}.{}@{host}>", message.namespace, message.name)));
        for to in &self.to {
            mail = mail.to(to.clone());
        }
        let text = SinglePart::builder().header(ContentType::TEXT_PLAIN).body(message.text(TEXT_BYTES));
        mail.multipart(MultiPart::mixed().singlepart(text))
    }

    fn described(&self, error: &lettre::transport::smtp::Error) -> String {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            text.push_str(&format!(": {source}"));
            cause = source.source();
        }
        self.plain(&text)
    }

    fn plain(&self, text: &str) -> String {
        let secret = self.password.as_ref().map_or("", |password| password.expose_secret());
        let text = if secret.is_empty() { text.to_owned() } else { text.replace(secret, "***") };
        plain_line(&text, ANSWER_BYTES)
    }
}

/// The host and the port of a mail server.
fn place(server: &str, tls: SmtpTls) -> Result<(String, u16), String> {
    let usual = match tls {
        SmtpTls::Starttls => 587,
        SmtpTls::Tls => 465,
        SmtpTls::Off => 25,
    };
    let wrong = || {
        format!(
            "server: is {server:?}, but must be a host, or a host and a port such as smtp.example.com:587"
        )
    };
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
        None => (server, usual),
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.is_empty() || port == 0 || !host.chars().all(is_host) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

fn tls(config: &SinkConfig, host: &str) -> Result<Tls, String> {
    if config.tls == SmtpTls::Off {
        return Ok(Tls::None);
    }
    let mut parameters = TlsParameters::builder(host.to_owned());
    if let Some(path) = &config.ca_file {
        let wrong = |reason: String| format!("ca_file: {} {reason}", path.display());
        let pem = std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let authorities = Certificate::from_pem(&pem);
        parameters = parameters.add_root_certificate(
            authorities.map_err(|error| wrong(format!("has no certificates in PEM format: {error}")))?,
        );
    }
    let parameters = parameters.build_rustls().map_err(|error| format!("tls: cannot be used: {error}"))?;
    Ok(match config.tls {
        SmtpTls::Tls => Tls::Wrapper(parameters),
        SmtpTls::Starttls | SmtpTls::Off => Tls::Required(parameters),
    })
}

fn mailbox(key: &str, address: &str) -> Result<Mailbox, String> {
    address.parse().map_err(|error| format!("{key}: {address:?} is not a mail address: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::sending::message::tests::{incident, now, sender};
    use crate::alerts::sink::SinkKind;

    fn config() -> SinkConfig {
        SinkConfig::new(SinkKind::Mail)
            .server("localhost:2525")
            .tls(SmtpTls::Off)
            .from("streamfleet <jobs@example.com>")
            .to(["ops@example.com", "Ann <ann@example.com>"])
    }

    #[tokio::test]
    async fn a_mail_has_one_id_however_often_it_is_sent_and_no_header_of_a_job() {
        let mail = Mail::open(&config(), None).unwrap();
        let message = sender().message(&[incident(1, "no\r\nBcc: eve@example.com")], now());
        let text = String::from_utf8(mail.mail(&message).unwrap().formatted()).unwrap();
        assert!(text.contains("Message-ID: <streamfleet.sf.00000001.1@example.com>"), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("Bcc:")), "{text}");
    }

    #[test]
    fn a_server_is_a_host_and_a_port() {
        assert_eq!(
            place("smtp.example.com", SmtpTls::Starttls).unwrap(),
            ("smtp.example.com".to_owned(), 587)
        );
        assert_eq!(place("smtp.example.com:25", SmtpTls::Tls).unwrap().1, 25);
        for wrong in ["", ":25", "a:b", "a:0", "a b", "user@host", "a:65536"] {
            assert!(place(wrong, SmtpTls::Tls).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_wrong_address_is_named_by_its_key() {
        let error = Mail::open(&config().to(["nobody"]), None).err().unwrap();
        assert!(error.starts_with("to: \"nobody\""), "{error}");
    }
}
