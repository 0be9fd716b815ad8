//! How a server is started, and what its folder keeps for the next start: the port and the password.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd;
use secrecy::SecretString;

use super::process::Process;
use super::{DevServer, StartError, program};

/// The ports to choose from by default.
const PORTS: Range<u16> = 6390..6890;

/// How many ports to try if other processes take them first.
const PORTS_TRIED: usize = 10;

/// What the server logs if another process has its port.
const PORT_TAKEN: &str = "Failed listening on port";

/// The settings of a [`DevServer`] before it starts.
#[derive(Debug, Clone)]
pub struct Builder {
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    ports: Range<u16>,
    port: Option<u16>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self { arguments: Vec::new(), environment: BTreeMap::new(), ports: PORTS, port: None }
    }

    /// Adds arguments for the server, such as `["--maxmemory", "20mb"]`. They override the server's own defaults and
    /// `appendonly yes`, but not its port, address, folder and log.
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the server, in addition to those of this process.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Sets the ports to choose from. They apply if the folder has no port from an earlier start, or if that port is in
    /// use. The default is 6390 to 6889. Ports from 32768 on are less suitable: most systems use them for outgoing
    /// connections, which may take the port while the server is down.
    pub fn ports(mut self, ports: Range<u16>) -> Self {
        self.ports = ports;
        self
    }

    /// Sets the port, which also applies to later starts with this folder. The server does not start if it is in use. By
    /// default, and with `None`, the port is chosen among [`Builder::ports`].
    pub fn port(mut self, port: impl Into<Option<u16>>) -> Self {
        self.port = port.into();
        self
    }

    /// Starts a server that keeps its data, port and password in `folder`, and waits until it answers, for at most a
    /// minute.
    ///
    /// # Errors
    ///
    /// [`StartError`] if no server is installed, the folder cannot be used, no port is free, or the server does not
    /// start.
    pub async fn start(self, folder: &Path) -> Result<DevServer, StartError> {
        // Before anything is written.
        program()?;
        let unusable = |source| StartError::Folder { folder: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(unusable)?;
        // Somebody else could know the password, and submit jobs to this user's programs.
        check_owner(folder, unistd::geteuid().as_raw()).map_err(unusable)?;
        // Nobody else may read the payloads of the jobs.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(unusable)?;
        // Nothing in this folder belongs in version control.
        fs::write(folder.join(".gitignore"), "*\n").map_err(unusable)?;
        let lock = File::create(folder.join("lock")).map_err(unusable)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StartError::InUse { folder: folder.to_owned() },
            TryLockError::Error(source) => unusable(source),
        })?;
        let folder = folder.canonicalize().map_err(unusable)?;
        let mut tries = 1;
        loop {
            let port = match self.port {
                Some(port) if !is_free(&port) => return Err(StartError::PortInUse { port }),
                Some(port) => note_port(&folder, port),
                None => choose_port(&folder, &self.ports),
            };
            let port = port.map_err(unusable)?;
            // Only now: a program that reads the password of a server that was not started would send it to another one.
            let password = password_of(&folder).map_err(unusable)?;
            match Process::launch(&self, &folder, port, &password).await {
                // Another process took the port after we checked it and before our server bound it, or it has another
                // port that goes with it, such as the cluster bus's.
                Err(StartError::Server { tail, .. }) if tail.contains(PORT_TAKEN) && tries < PORTS_TRIED => {
                    tries += 1;
                    fs::remove_file(port_file(&folder)).map_err(unusable)?;
                }
                launched => {
                    let process = launched?;
                    return Ok(DevServer { process, settings: self, folder, port, password, _lock: lock });
                }
            }
        }
    }
}

/// Returns the last port if it is free, so that commands in a shell's history keep working, otherwise another one.
fn choose_port(folder: &Path, ports: &Range<u16>) -> io::Result<u16> {
    let remembered = fs::read_to_string(port_file(folder)).ok().and_then(|text| text.trim().parse().ok());
    // Two servers that start at the same time rarely begin at the same port.
    let offset = rand::random_range(0..ports.len().max(1));
    let (rest, all) = (ports.clone().skip(offset), ports.clone());
    let port = remembered.into_iter().chain(rest).chain(all).find(is_free);
    let port = port.ok_or_else(|| io::Error::other("no port is free"))?;
    note_port(folder, port)
}

/// Notes the port for the next start.
fn note_port(folder: &Path, port: u16) -> io::Result<u16> {
    fs::write(port_file(folder), format!("{port}\n"))?;
    Ok(port)
}

fn port_file(folder: &Path) -> PathBuf {
    folder.join("port")
}

fn is_free(port: &u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()
}

/// Refuses a folder that somebody else made, also by a link to one of ours, or in which somebody else made the password.
fn check_owner(folder: &Path, user: u32) -> io::Result<()> {
    let of_folder = [fs::symlink_metadata(folder)?, fs::metadata(folder)?];
    let of_password = fs::symlink_metadata(password_file(folder)).ok();
    match of_folder.into_iter().chain(of_password).find(|found| found.uid() != user) {
        None => Ok(()),
        Some(found) => {
            let why = format!("it or its password belongs to the user {}: use another folder", found.uid());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
    }
}

pub(super) fn password_file(folder: &Path) -> PathBuf {
    folder.join("password")
}

/// Returns the last password, so that commands in a shell's history keep working, or a new one if there is none.
fn password_of(folder: &Path) -> io::Result<SecretString> {
    let path = password_file(folder);
    let remembered = fs::read_to_string(&path).unwrap_or_default();
    let remembered = remembered.trim_end();
    // Anything else would not be a single word in the server's configuration.
    if !remembered.is_empty() && remembered.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(remembered.into());
    }
    let password = format!("{:032x}", rand::random::<u128>());
    let mut file = File::options().create(true).write(true).truncate(true).mode(0o600).open(path)?;
    writeln!(file, "{password}")?;
    Ok(password.into())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn what_somebody_else_made_is_not_used() {
        let (user, folder) = (unistd::geteuid().as_raw(), tempfile::tempdir().unwrap());
        password_of(folder.path()).unwrap();
        check_owner(folder.path(), user).unwrap();
        let refused = check_owner(folder.path(), user + 1).unwrap_err();
        assert!(refused.to_string().contains(&format!("belongs to the user {user}")), "{refused}");
    }

    #[test]
    fn the_password_is_remembered_by_a_file_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let first = password_of(folder.path()).unwrap();
        assert_eq!(first.expose_secret().len(), 32);
        assert_eq!(password_of(folder.path()).unwrap().expose_secret(), first.expose_secret());
        let mode = fs::metadata(password_file(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for unusable in ["", "\n", "a b\n", "a\nport 1\n", "\"\n"] {
            fs::write(password_file(folder.path()), unusable).unwrap();
            let other = password_of(folder.path()).unwrap();
            assert_eq!(other.expose_secret().len(), 32, "{unusable:?}");
            assert_ne!(other.expose_secret(), first.expose_secret());
        }
    }
}
