//! Properties of every address, and of every password in one.

use proptest::prelude::*;
use secrecy::ExposeSecret;

use super::super::address::Config;
use super::*;

fn at(url: &str) -> Config {
    Config { url: url.into(), ..Config::default() }
}

/// Places where somebody may put a password, rightly or wrongly, but not alone in place of a host.
const FORMS: [&str; 30] = [
    "redis://:{p}@host",
    "redis://worker:{p}@host:6379/0",
    "rediss://worker:{p}@host.example.com",
    "redis://worker:{p}@[::1]:6379/1",
    "valkey://:{p}@10.0.0.1",
    "  REDIS://:{p}@host ",
    "redis://{p}@host",
    "redis+unix://worker:{p}@localhost/run/redis.sock",
    "redis-cluster://worker:{p}@a:1?node=b:2&node=c:3",
    "rediss-sentinel://worker:{p}@a:1/0?sentinelServiceName=main&node=b:2",
    "redis-sentinel://a?sentinelServiceName=main&sentinelUsername=s&sentinelPassword={p}",
    "redis-sentinel://:{p}@a?sentinelPassword={p}&sentinelServiceName=main&node=b:2",
    "redis-sentinel://a?sentinelServiceName={p}@b",
    "redis://worker:{p}@",
    "redis://worker:{p}@host:port",
    "redis://worker:{p}@host:6379/queue",
    "redis://worker:{p}@host/0?cert={p}",
    "redis://worker:{p}@a@b@host",
    "redis://worker:one@{p}@host",
    "redis://host?password={p}",
    "redis://host?{p}",
    "redis://host/{p}",
    "redis-cluster://host?node={p}@b:1",
    "http://worker:{p}@host",
    "redis:/worker:{p}@host",
    "redis:worker:{p}@host",
    "worker:{p}@host",
    "{p}",
    "{p}://host",
    "redis://worker:{p}@host\nredis://worker:{p}@other",
];

/// Passwords of at least four characters, one of which occurs nowhere else. None ends with a colon and spaces: before the @ of an
/// address, that is a user name with a password of spaces.
fn passwords() -> impl Strategy<Value = String> {
    "[a-z0-9/?#@:%&=+ .é\\[\\]]{0,6}[QXZ][a-z0-9/?#@:%&=+ .é\\[\\]]{3,6}"
        .prop_filter("a user's name and an empty password", |text| !text.trim_end().ends_with(':'))
}

fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    text.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

proptest! {
    #[test]
    fn no_address_ever_shows_its_password(password in passwords(), known in any::<bool>()) {
        for form in FORMS {
            for written in [password.clone(), encoded(&password)] {
                // With a separate password, the word before the @ is the user's name.
                let known = known && !form.starts_with("redis://{p}@");
                let url = form.replace("{p}", &written);
                let config = at(&url);
                let error = config.client_config().err();
                let texts = [
                    shown(&url, known),
                    config.shown(),
                    config.validate().join("\n"),
                    format!("{config:?}"),
                    error.as_ref().map(ToString::to_string).unwrap_or_default(),
                    format!("{error:?}"),
                ];
                for text in texts {
                    prop_assert!(!text.contains(password.trim()) && !text.contains(&written), "{url}: {text}");
                }
            }
        }
    }

    #[test]
    fn a_password_works_as_written_or_the_error_shows_how_to_write_it(password in passwords()) {
        for form in ["redis://worker:{p}@host", "redis-cluster://:{p}@host:1?node=b:2", "redis+unix://u:{p}@h/run/x"] {
            let escaped = parse(&form.replace("{p}", &encoded(&password))).map(|address| address.login.password);
            let escaped = escaped.map(|password| password.map(|password| password.expose_secret().to_owned()));
            prop_assert_eq!(escaped, Ok(Some(password.clone())));
            // What follows a % may be read as a code, as everywhere.
            let raw = password.replace('%', "");
            match parse(&form.replace("{p}", &raw)).map(|address| address.login.password) {
                Ok(read) => prop_assert_eq!(read.map(|read| read.expose_secret().to_owned()), Some(raw)),
                Err(reason) => prop_assert!(reason.contains("must be percent-encoded"), "{}", reason),
            }
        }
    }
}

#[test]
fn addresses_are_shown_without_their_secrets() {
    let addresses = [
        ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
        ("redis://:canary@host/2", "redis://:***@host/2"),
        ("redis://worker:canary@host", "redis://worker:***@host"),
        ("redis://worker:c/n@host", "redis://***"),
        ("redis://:c?n@host", "redis://***"),
        ("redis://:c#n@host", "redis://***"),
        ("redis://worker:c@n@ry@host", "redis://worker:***@host"),
        ("redis://worker:c%2Fn@host", "redis://worker:***@host"),
        ("redis://worker:@host", "redis://worker@host"),
        ("redis://@host", "redis://host"),
        ("REDISS://[::1]:1", "rediss://[::1]:1"),
        ("redis+unix:///run/redis.sock", "redis+unix:///run/redis.sock"),
        (
            "redis-sentinel://u:canary@h:1/0?sentinelServiceName=main&sentinelPassword=canary&node=b:2",
            "redis-sentinel://u:***@h:1/0?sentinelServiceName=main&sentinelPassword=***&node=b:2",
        ),
        ("redis-sentinel://h?sentinelServiceName=main&sentinelPassword=c@n", "redis-sentinel://***"),
        ("canary", "***"),
        ("mysql://u:canary@host", "***"),
    ];
    for (url, want) in addresses {
        assert_eq!(at(url).shown(), want, "{url}");
    }
}

/// Some clients take a single word before the `@` for the password, others for the user.
#[test]
fn a_lone_word_before_the_host_is_shown_only_if_it_is_no_password() {
    assert_eq!(shown("redis://worker@host", false), "redis://***@host");
    assert_eq!(shown("redis://worker@host", true), "redis://worker@host");
    let config = at("redis://worker@host").client_config().unwrap();
    assert_eq!((config.username.as_deref(), config.password.as_deref()), (Some("worker"), Some("")));
}

#[test]
fn unknown_parameters_are_refused_without_quoting_secrets() {
    let reason = |url: &str| parse(url).err().unwrap();
    assert_eq!(
        reason("rediss://host?cert=/a.pem"),
        "the parameter \"cert\" is unknown: this kind of address takes no parameters; certificates and the server's name \
         are set in [redis.tls]"
    );
    assert_eq!(
        reason("redis-cluster://host?node=b:1&canary=1"),
        "the parameter number 2 is unknown: this kind of address takes node; write %3F for a ? and %26 for a & in a password"
    );
    assert!(
        reason("redis://host?db=2").contains("\"db\" is unknown")
            && reason("redis://host?db=2").contains("path")
    );
    assert!(reason("redis-sentinel://host").starts_with("names no master"));
    let twice = "redis-sentinel://h?sentinelServiceName=a&sentinelServiceName=b";
    assert_eq!(reason(twice), "has sentinelServiceName twice");
}

#[test]
fn every_part_of_an_address_is_read() {
    let url = "rediss-sentinel://u%40x:p+%2B@a/3?node=[::1]:7&sentinelServiceName=m%20n&sentinelUsername=s&sentinelPassword=a+b%26";
    let address = parse(url).ok().unwrap();
    let secret = |login: &Login| login.password.as_ref().map(|password| password.expose_secret().to_owned());
    assert!(address.tls);
    assert_eq!(
        (address.login.user.as_deref(), secret(&address.login), address.database),
        (Some("u@x"), Some("p++".to_owned()), Some(3))
    );
    let Servers::Sentinel { hosts, service, login } = &address.servers else { panic!("sentinels") };
    let host = |name: &str, port| Host { name: name.to_owned(), port };
    assert_eq!((&**service, &hosts[..]), ("m n", &[host("a", 26379), host("::1", 7)][..]));
    assert_eq!((login.user.as_deref(), secret(login)), (Some("s"), Some("a+b&".to_owned())));
    let Servers::Socket(path) = parse("redis+unix://:p@h/run/a%20b.sock").ok().unwrap().servers else {
        panic!("a socket")
    };
    assert_eq!(path, PathBuf::from("/run/a b.sock"));
}

#[test]
fn an_address_without_a_server_is_refused() {
    for url in [
        "",
        "host:6379",
        "redis://",
        "redis://host:0",
        "redis://host:65536",
        "redis://host:+1",
        "redis://::1",
        "redis://[::1",
        "redis://[host]",
        "redis://h/256",
        "redis://h/0/",
        "redis+unix://run/redis.sock",
        "redis+unix:///",
        "redis+unix:///run/a?b",
        "redis-cluster://h/1",
        "redis-cluster://h?node=",
        "redis://:%ff@h",
        "redis://h\n",
        "redis://a\nb",
    ] {
        let usable = parse(url).is_ok();
        assert_eq!(usable, url == "redis://h\n", "{url:?}");
    }
}
