//! The program of the server, and the client that is installed with it.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use super::{CHOSEN, StartError};
use crate::handlers::find_program;

/// The server programs, in the order in which the `PATH` is searched for them.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// The clients that are installed with them.
const CLIENTS: [&str; 2] = ["redis-cli", "valkey-cli"];

/// Returns the server program: the one that the environment variable `STREAMFLEET_TEST_REDIS` names, otherwise
/// `redis-server` or `valkey-server` from the `PATH`.
///
/// # Errors
///
/// [`StartError::NotThere`] or [`StartError::NoProgram`] if there is none.
pub fn program() -> Result<PathBuf, StartError> {
    let path = env::var_os("PATH").unwrap_or_default();
    choose(env::var_os(CHOSEN).filter(|chosen| !chosen.is_empty()).as_deref(), &path)
}

/// Returns the client to type in a shell here: `redis-cli`, or `valkey-cli` if only that is on the `PATH`.
pub fn client() -> &'static str {
    client_on(&env::var_os("PATH").unwrap_or_default())
}

fn client_on(path: &OsStr) -> &'static str {
    CLIENTS.into_iter().find(|name| find_program(name.as_ref(), path).is_some()).unwrap_or(CLIENTS[0])
}

fn choose(chosen: Option<&OsStr>, path: &OsStr) -> Result<PathBuf, StartError> {
    match chosen {
        Some(chosen) => find_program(chosen, path)
            .ok_or_else(|| StartError::NotThere { program: chosen.to_string_lossy().into_owned() }),
        None => {
            PROGRAMS.iter().find_map(|name| find_program(name.as_ref(), path)).ok_or(StartError::NoProgram)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder with programs of these names, and a file that is not executable.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in names.iter().map(|name| (*name, 0o755)).chain([("plain-file", 0o644)]) {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        folder
    }

    #[test]
    fn the_server_is_redis_before_valkey_wherever_on_the_path() {
        let (valkey, redis) = (folder(&["valkey-server"]), folder(&["redis-server"]));
        let path = env::join_paths([valkey.path(), redis.path()]).unwrap();
        assert_eq!(choose(None, &path).unwrap(), redis.path().join("redis-server"));
        assert_eq!(choose(None, valkey.path().as_os_str()).unwrap(), valkey.path().join("valkey-server"));
        assert!(matches!(choose(None, OsStr::new("/nonexistent")), Err(StartError::NoProgram)));
    }

    #[test]
    fn the_suggested_client_exists() {
        let (valkey, both) = (folder(&["valkey-cli"]), folder(&["redis-cli", "valkey-cli"]));
        assert_eq!(client_on(valkey.path().as_os_str()), "valkey-cli");
        assert_eq!(client_on(both.path().as_os_str()), "redis-cli");
        assert_eq!(client_on(OsStr::new("/nonexistent")), "redis-cli");
    }

    #[test]
    fn the_named_server_is_used_or_nothing() {
        let folder = folder(&["redis-server", "another"]);
        let at = |name: &str| folder.path().join(name).into_os_string();
        let choose = |chosen: &OsStr| choose(Some(chosen), folder.path().as_os_str());
        assert_eq!(choose(&at("another")).unwrap(), at("another"));
        assert_eq!(choose(OsStr::new("another")).unwrap(), at("another"));
        for missing in [at("missing"), at("plain-file"), "missing".into(), folder.path().into()] {
            let error = choose(&missing).unwrap_err().to_string();
            assert!(error.starts_with("STREAMFLEET_TEST_REDIS names"), "{error}");
            assert!(error.contains(&*missing.to_string_lossy()), "{error}");
        }
    }
}
