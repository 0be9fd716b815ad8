//! Parses an address. No text that this module returns contains a password: rejected parts are not quoted, and what is
//! shown is assembled from parts that are known to be harmless.

use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use secrecy::SecretString;

/// The schemes of an address and their meanings.
const SCHEMES: [(&str, Kind, bool); 13] = [
    ("redis", Kind::One, false),
    ("rediss", Kind::One, true),
    ("redis+unix", Kind::Socket, false),
    ("redis-sentinel", Kind::Sentinel, false),
    ("rediss-sentinel", Kind::Sentinel, true),
    ("redis-cluster", Kind::Cluster, false),
    ("rediss-cluster", Kind::Cluster, true),
    ("valkey", Kind::One, false),
    ("valkeys", Kind::One, true),
    ("valkey-sentinel", Kind::Sentinel, false),
    ("valkeys-sentinel", Kind::Sentinel, true),
    ("valkey-cluster", Kind::Cluster, false),
    ("valkeys-cluster", Kind::Cluster, true),
];

const ENCODE: &str = "the user name or password has a character that must be percent-encoded: write %2F for /, %3F for ?, \
    %23 for # and %40 for @, or put the password into redis.password_file";

const HOST: &str =
    "the host is invalid: write host, host:port or [IPv6 address]:port, with a port from 1 to 65535";

const BEGIN: &str = "must begin with redis:// or rediss:// (TLS), redis-sentinel:// or rediss-sentinel://, redis-cluster:// or \
    rediss-cluster://, or redis+unix://";

/// Parameters of other clients' addresses. Only these names are quoted: any other may be part of a password.
const FOREIGN: [&str; 26] = [
    "ca",
    "ca_cert",
    "ca_file",
    "cacert",
    "cafile",
    "cert",
    "cert_file",
    "certfile",
    "key",
    "key_file",
    "keyfile",
    "sni",
    "server_name",
    "servername",
    "ssl",
    "tls",
    "insecure",
    "skip_verify",
    "ssl_ca_certs",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_check_hostname",
    "db",
    "timeout",
    "protocol",
];

/// What kind of servers an address names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    Socket,
    Cluster,
    Sentinel,
}

/// A server's name or IP address, and its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// Without the brackets of an IPv6 address.
    pub name: String,
    pub port: u16,
}

/// The servers that an address names.
#[derive(Clone)]
pub(crate) enum Servers {
    One(Host),
    Socket(PathBuf),
    /// At least one node of a cluster.
    Cluster(Vec<Host>),
    /// At least one sentinel.
    Sentinel {
        hosts: Vec<Host>,
        service: String,
        login: Login,
    },
}

/// The user and password of a login.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub password: Option<SecretString>,
}

/// A usable address.
#[derive(Clone)]
pub(crate) struct Address {
    pub tls: bool,
    pub login: Login,
    pub servers: Servers,
    pub database: Option<u8>,
    shown: Shown,
}

/// The parts of an address that may be shown.
#[derive(Clone)]
struct Shown {
    scheme: &'static str,
    /// The login, with its password masked, if something before the `@` is certainly a user.
    login: String,
    /// The text before the `@` if it has no colon. Some clients take it for the password.
    word: Option<String>,
    rest: String,
}

/// Returns the parts of the address that are known not to be secret. `known_password` is true if the password comes
/// from elsewhere, so that a single word before the `@` is a user.
pub(crate) fn shown(text: &str, known_password: bool) -> String {
    if let Ok(address) = parse(text) {
        return address.shown.text(known_password);
    }
    scheme(text).map_or_else(|| "***".to_owned(), |(scheme, ..)| format!("{scheme}://***"))
}

/// Returns what of the address is or may be a password, decoded: all of it, if it is not an address. For `known_password`, see
/// [`shown`].
pub(crate) fn passwords(text: &str, known_password: bool) -> Vec<SecretString> {
    let Ok(address) = parse(text) else { return vec![text.trim().into()] };
    let mut logins = vec![address.login];
    if let Servers::Sentinel { login, .. } = address.servers {
        logins.push(login);
    }
    let word = address.shown.word.filter(|_| !known_password).map(SecretString::from);
    logins.into_iter().filter_map(|login| login.password).chain(word).collect()
}

/// Parses an address.
///
/// # Errors
///
/// Describes what is wrong, without quoting any of the address.
pub(crate) fn parse(text: &str) -> Result<Address, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    if text.chars().any(char::is_control) {
        return Err("has a line break or another control character".to_owned());
    }
    let Some((scheme, kind, tls, rest)) = scheme(text) else {
        return Err(BEGIN.to_owned());
    };
    if rest.contains('#') {
        return Err(ENCODE.to_owned());
    }
    let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
    // Only the login for sentinels, which is a parameter, may have an @ that does not end a login.
    let ambiguous = query.is_some_and(|query| query.contains('@'));
    if path.contains('@') || (ambiguous && kind != Kind::Sentinel) {
        return Err(ENCODE.to_owned());
    }
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        None => (None, authority),
    };
    let mut shown = Shown { scheme, login: String::new(), word: None, rest: String::new() };
    let login = login.map_or_else(|| Ok(Login::default()), |login| read_login(login, &mut shown))?;
    let (servers, database) = match kind {
        Kind::Socket => (socket(hosts, authority, path, query, &mut shown)?, None),
        Kind::One | Kind::Cluster | Kind::Sentinel => network(kind, hosts, path, query, &mut shown)?,
    };
    Ok(Address { tls, login, servers, database, shown })
}

fn scheme(text: &str) -> Option<(&'static str, Kind, bool, &str)> {
    let (begin, rest) = text.trim().split_once("://")?;
    let known = SCHEMES.iter().find(|(scheme, ..)| begin.eq_ignore_ascii_case(scheme));
    known.map(|(scheme, kind, tls)| (*scheme, *kind, *tls, rest))
}

fn read_login(text: &str, shown: &mut Shown) -> Result<Login, String> {
    let (user, password) = text.split_once(':').map_or((text, None), |(user, word)| (user, Some(word)));
    let masked = if password.is_some_and(|word| !word.is_empty()) { ":***" } else { "" };
    match password {
        Some(_) => shown.login = format!("{}{masked}", plain(user)),
        None => shown.word = Some(user.to_owned()).filter(|word| !word.is_empty()),
    }
    let user = Some(decoded(user)?).filter(|user| !user.is_empty());
    let password = decoded(password.unwrap_or_default())?;
    // A user without a password logs in with an empty one, which is right for a user that needs none. Without AUTH, the
    // commands would run as another user, `default`.
    let password = (user.is_some() || !password.is_empty()).then(|| password.into());
    Ok(Login { user, password })
}

fn socket(
    host: &str,
    authority: &str,
    path: &str,
    query: Option<&str>,
    shown: &mut Shown,
) -> Result<Servers, String> {
    if !host.is_empty() && host.len() == authority.len() {
        return Err(
            "the path of a socket must begin with three slashes: redis+unix:///run/redis.sock".to_owned()
        );
    }
    if query.is_some() {
        return Err("a socket takes no parameters; write %3F for a ? in its path".to_owned());
    }
    if path.len() < 2 {
        return Err("names no socket: write redis+unix:///run/redis.sock".to_owned());
    }
    shown.rest =
        if path.chars().all(|c| c == '/' || harmless(c)) { path.to_owned() } else { "/***".to_owned() };
    Ok(Servers::Socket(decoded(path)?.into()))
}

fn network(
    kind: Kind,
    host: &str,
    path: &str,
    query: Option<&str>,
    shown: &mut Shown,
) -> Result<(Servers, Option<u8>), String> {
    let port = if kind == Kind::Sentinel { 26379 } else { 6379 };
    // With an @ in the parameters, the login may extend into them, and the host be part of the password.
    let ambiguous = query.is_some_and(|query| query.contains('@'));
    let wrong = |reason| if ambiguous { ENCODE.to_owned() } else { reason };
    let mut hosts = vec![read_host(host, port).map_err(wrong)?];
    let database = read_database(path)?;
    shown.rest = host.to_owned() + &database.map(|number| format!("/{number}")).unwrap_or_default();
    if kind == Kind::Cluster && database.is_some_and(|number| number != 0) {
        return Err("a cluster has only database 0".to_owned());
    }
    let mut known = Parameters::default();
    let pairs: Vec<_> = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).collect();
    for (nth, pair) in pairs.iter().enumerate() {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let unknown = || if ambiguous { ENCODE.to_owned() } else { unknown(kind, nth + 1, name) };
        let value_shown = known.take(kind, name, value).ok_or_else(unknown)??;
        let before = if nth == 0 { '?' } else { '&' };
        shown.rest.push_str(&format!("{before}{name}={value_shown}"));
    }
    if ambiguous {
        shown.hide();
    }
    for node in known.nodes {
        hosts.push(read_host(&node, port)?);
    }
    let servers = match kind {
        Kind::Cluster => Servers::Cluster(hosts),
        Kind::Sentinel => {
            let missing =
                "names no master: add ?sentinelServiceName=NAME, the name by which the sentinels know it";
            let service = known.service.ok_or(missing)?;
            let password = (known.user.is_some() || known.password.is_some())
                .then(|| known.password.unwrap_or_default().into());
            Servers::Sentinel { hosts, service, login: Login { user: known.user, password } }
        }
        Kind::One | Kind::Socket => Servers::One(hosts.remove(0)),
    };
    Ok((servers, database))
}

/// The parameters after the `?`.
#[derive(Default)]
struct Parameters {
    nodes: Vec<String>,
    service: Option<String>,
    user: Option<String>,
    password: Option<String>,
}

impl Parameters {
    /// Takes one parameter, and returns the part of its value that may be shown; `None` if the parameter is unknown.
    fn take(&mut self, kind: Kind, name: &str, value: &str) -> Option<Result<String, String>> {
        let sentinel = kind == Kind::Sentinel;
        let once = match name {
            "node" if matches!(kind, Kind::Cluster | Kind::Sentinel) => {
                return Some(no_login(value).map(|()| {
                    self.nodes.push(value.to_owned());
                    value.to_owned()
                }));
            }
            "sentinelServiceName" if sentinel => &mut self.service,
            "sentinelUsername" if sentinel => &mut self.user,
            "sentinelPassword" if sentinel => &mut self.password,
            _ => return None,
        };
        if once.is_some() {
            return Some(Err(format!("has {name} twice")));
        }
        let shown = match name {
            "sentinelServiceName" => no_login(value).map(|()| plain(value)),
            "sentinelUsername" => Ok(plain(value)),
            _ => Ok("***".to_owned()),
        };
        Some(shown.and_then(|shown| {
            *once = Some(decoded(value)?).filter(|value| !value.is_empty());
            Ok(shown)
        }))
    }
}

/// Rejects an `@` in a value that is not a login: it means that the `?` was part of the password.
fn no_login(value: &str) -> Result<(), String> {
    if value.contains('@') { Err(ENCODE.to_owned()) } else { Ok(()) }
}

fn unknown(kind: Kind, nth: usize, name: &str) -> String {
    let known = match kind {
        Kind::One | Kind::Socket => "this kind of address takes no parameters",
        Kind::Cluster => "this kind of address takes node",
        Kind::Sentinel => {
            "this kind of address takes node, sentinelServiceName, sentinelUsername and sentinelPassword"
        }
    };
    let name = FOREIGN.iter().find(|foreign| name.eq_ignore_ascii_case(foreign));
    let instead = match name {
        Some(&"db") => "; write the database as the path: redis://host:6379/2",
        Some(&"timeout" | &"protocol") => "",
        Some(_) => "; certificates and the server's name are set in [redis.tls]",
        None => "; write %3F for a ? and %26 for a & in a password",
    };
    let name = name.map_or_else(|| format!("number {nth}"), |name| format!("{name:?}"));
    format!("the parameter {name} is unknown: {known}{instead}")
}

fn read_host(text: &str, default_port: u16) -> Result<Host, String> {
    let wrong = || HOST.to_owned();
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']').ok_or_else(wrong)?;
            name.parse::<Ipv6Addr>().map_err(|_| wrong())?;
            let port = if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(wrong)?) };
            (name, port)
        }
        None => {
            let (name, port) = text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port)));
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)) {
                return Err(wrong());
            }
            (name, port)
        }
    };
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = match port {
        None => default_port,
        Some(port) if digits(port) => port.parse().map_err(|_| wrong())?,
        Some(_) => return Err(wrong()),
    };
    if port == 0 { Err(wrong()) } else { Ok(Host { name: name.to_owned(), port }) }
}

fn read_database(path: &str) -> Result<Option<u8>, String> {
    let number = path.strip_prefix('/').unwrap_or(path);
    if number.is_empty() {
        return Ok(None);
    }
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|_| digits);
    number.map(Some).ok_or_else(|| {
        "the part after the host must be a database, a number from 0 to 255; write %2F for a / in the password"
            .to_owned()
    })
}

/// Decodes percent-encoding. A `%` that begins no code stays as it is.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = "the user name or password is not UTF-8 after percent-decoding; write %25 for a literal %";
    let text = percent_decode_str(text).decode_utf8();
    text.map(Cow::into_owned).map_err(|_| wrong.to_owned())
}

/// Returns words that people choose as names unchanged. Anything else may be part of a password, or unsafe for a
/// terminal.
fn plain(text: &str) -> String {
    if text.chars().all(harmless) { text.to_owned() } else { "***".to_owned() }
}

fn harmless(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._%+".contains(c)
}

impl Shown {
    fn hide(&mut self) {
        (self.login, self.word, self.rest) = (String::new(), None, "***".to_owned());
    }

    fn text(&self, known_password: bool) -> String {
        let login = match &self.word {
            Some(word) if known_password => plain(word),
            Some(_) => "***".to_owned(),
            None => self.login.clone(),
        };
        let at = if login.is_empty() { "" } else { "@" };
        format!("{}://{login}{at}{}", self.scheme, self.rest)
    }
}

#[cfg(test)]
mod tests;
