//! Explains TLS errors in one sentence that says what to do.
#![expect(clippy::wildcard_enum_match_arm, reason = "another crate's enums; only these variants matter")]

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};

/// Returns why there is no TLS connection.
pub(crate) fn tls_error(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => certificate(why),
        Error::AlertReceived(alert) => alert_received(*alert, ClientCert::NotAsked),
        Error::PeerIncompatible(_) => in_common(&error.to_string()),
        _ => format!("no TLS connection: {error}"),
    }
}

/// What the server has received from this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientCert {
    /// It asked for no certificate.
    NotAsked,
    /// It asked, and got none.
    NotSent,
    /// It asked, and got one.
    Sent,
}

/// Returns why the server ended the handshake.
pub(super) fn alert_received(alert: AlertDescription, sent: ClientCert) -> String {
    use AlertDescription as Alert;
    let of_the_client = "the server refuses the client certificate in cert_file";
    match alert {
        Alert::CertificateRequired | Alert::NoCertificate => WANTED.to_owned(),
        // TLS 1.2's alert if a certificate is required.
        Alert::HandshakeFailure if sent == ClientCert::NotSent => WANTED.to_owned(),
        Alert::UnrecognisedName => "the server does not know a host of this name: set server_name".to_owned(),
        Alert::CertificateExpired => format!("{of_the_client}: it has expired"),
        Alert::CertificateRevoked => format!("{of_the_client}: it is revoked"),
        Alert::UnknownCA => {
            format!("{of_the_client}: it comes from an authority that the server does not trust")
        }
        _ if sent == ClientCert::Sent => format!("{of_the_client} ({alert:?})"),
        _ => in_common(&format!("the server says {alert:?}")),
    }
}

/// Returns what it means if a server asks for a client certificate and then closes the connection without a reason.
pub(super) fn closed_connection(sent: ClientCert) -> Option<String> {
    const SEEN: &str = "the server closes the connection after it has received the client certificate in cert_file; its log may say why";
    match sent {
        ClientCert::NotAsked => None,
        ClientCert::NotSent => Some(WANTED.to_owned()),
        ClientCert::Sent => Some(SEEN.to_owned()),
    }
}

const WANTED: &str = "the server requires a client certificate: set cert_file and key_file";

fn in_common(detail: &str) -> String {
    format!(
        "the server has no TLS version or cipher in common with this client, which supports 1.2 and 1.3: {detail}"
    )
}

fn certificate(why: &CertificateError) -> String {
    use CertificateError as Why;
    match why {
        Why::UnknownIssuer | Why::BadSignature => {
            "the server's certificate comes from an authority that is not trusted here: add it to ca_file"
                .to_owned()
        }
        Why::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            let name = expected.to_str();
            format!("the server's certificate has no name (subjectAltName), so it cannot be that of {name:?}")
        }
        Why::NotValidForNameContext { expected, presented } => {
            let (name, of) = (expected.to_str(), names(presented));
            format!("the server's certificate is for {of}, not for {name:?}: correct the address, or set server_name")
        }
        Why::ExpiredContext { not_after, .. } => {
            format!("the server's certificate expired at {}", at(*not_after))
        }
        Why::NotValidYetContext { time, not_before } => {
            let (begins, now) = (at(*not_before), at(*time));
            format!("the server's certificate is not valid before {begins}, and the clock here says {now}")
        }
        Why::Other(error) if error.to_string().contains("CaUsedAsEndEntity") => {
            "the server's certificate is that of an authority (CA:TRUE): the server needs one of its own, signed by that authority"
                .to_owned()
        }
        _ => format!("the server's certificate is not acceptable: {why}"),
    }
}

/// Returns the names in a certificate: `DnsName("a.example")` becomes `"a.example"`. The names come from the server and
/// may be anything.
fn names(presented: &[String]) -> String {
    const SHOWN: usize = 4;
    let inner = |name: &String| {
        let name = name.split_once('(').map_or(name.as_str(), |(_, name)| name).trim_end_matches(')');
        format!("{:?}", name.trim_matches('"').chars().take(100).collect::<String>())
    };
    let mut names: Vec<_> = presented.iter().take(SHOWN).map(inner).collect();
    if presented.len() > SHOWN {
        names.push(format!("{} others", presented.len() - SHOWN));
    }
    names.join(", ")
}

fn at(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok();
    let time = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "a time that is not a date".to_owned(), |time| time.to_string())
}
