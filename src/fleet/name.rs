//! The name of a process in the consumer groups.

use crate::job::ConsumerName;

/// Makes a consumer name for this start of this process: `<host>-<pid>-<random>`. It is never reused, so a successor is
/// never mistaken for the owner of its predecessor's jobs.
pub(super) fn consumer() -> ConsumerName {
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let host: String = host.chars().filter(|c| plain(*c)).take(64).collect();
    let host = host.trim_start_matches(['.', '_', '-']);
    let host = if host.is_empty() { "host" } else { host };
    let name = format!("{host}-{}-{:08x}", std::process::id(), rand::random::<u32>());
    name.parse().expect("the parts contain only characters that names allow")
}
