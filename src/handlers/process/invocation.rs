//! One start of a program: its arguments, environment and directory, and the same as the kernel takes it.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

use super::identity::Identity;
use super::search::places;

/// What runs a script that names no interpreter.
pub(super) const SHELL: &CStr = c"/bin/sh";

/// Where programs are if the environment has no `PATH`: the value of the C library.
const DEFAULT_PATH: &str =
    if cfg!(target_env = "musl") { "/usr/local/bin:/bin:/usr/bin" } else { "/bin:/usr/bin" };

/// One start of a program.
pub(crate) struct Invocation {
    /// The program's name, and its arguments.
    command: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    directory: Option<PathBuf>,
    identity: Option<Arc<Identity>>,
}

impl Invocation {
    pub(crate) fn new(command: &[impl AsRef<OsStr>], directory: Option<&Path>) -> Self {
        Self {
            command: command.iter().map(|word| word.as_ref().to_owned()).collect(),
            environment: BTreeMap::new(),
            directory: directory.map(Path::to_owned),
            identity: None,
        }
    }

    /// Makes the program run as another user, if there is one.
    pub(super) fn run_as(mut self, identity: Option<Arc<Identity>>) -> Self {
        self.identity = identity;
        self
    }

    /// Returns the user that it runs as, if not as the worker.
    pub(crate) fn user(&self) -> Option<u32> {
        self.identity.as_ref().map(|identity| identity.user.as_raw())
    }

    /// Sets a variable, the last of equal names. The program gets no other variables.
    pub(crate) fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.environment.insert(name.into(), value.into());
    }

    /// Returns it as the kernel takes it.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] if a part contains a NUL byte.
    pub(super) fn image(&self) -> io::Result<Image> {
        let name = self.command.first().map_or(OsStr::new(""), OsString::as_os_str);
        let path = self.environment.get(OsStr::new("PATH")).map_or(OsStr::new(DEFAULT_PATH), |path| path);
        let paths = places(name, path).map(|place| text(place.into_os_string().into_vec()));
        let arguments = self.command.iter().map(|word| text(word.as_bytes().to_vec()));
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| text([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let directory = self.directory.as_ref().map(|path| text(path.as_os_str().as_bytes().to_vec()));
        let arguments = Strings::new(arguments.collect::<io::Result<_>>()?);
        let script =
            [SHELL.as_ptr(), ptr::null()].into_iter().chain(arguments.pointers.iter().skip(1).copied());
        Ok(Image {
            paths: paths.collect::<io::Result<_>>()?,
            script: script.collect(),
            arguments,
            environment: Strings::new(variables.collect::<io::Result<_>>()?),
            directory: directory.transpose()?,
            identity: self.identity.clone(),
        })
    }
}

fn text(bytes: Vec<u8>) -> io::Result<CString> {
    let has_nul = |_| io::Error::new(io::ErrorKind::InvalidInput, "nul byte found in provided data");
    CString::new(bytes).map_err(has_nul)
}

/// A program as the kernel takes it: nothing more must be allocated to start it.
pub(super) struct Image {
    /// Where the program may be, in the order in which to look.
    pub(super) paths: Vec<CString>,
    /// The program's name, and its arguments.
    pub(super) arguments: Strings,
    /// The arguments of [`SHELL`] if the program is a script: the second is the script's path, still missing. Ends with
    /// a null pointer.
    pub(super) script: Vec<*const c_char>,
    pub(super) environment: Strings,
    pub(super) directory: Option<CString>,
    /// Who the program runs as, if not as the worker.
    pub(super) identity: Option<Arc<Identity>>,
}

/// An array of pointers to strings that ends with a null pointer. It owns the strings.
pub(super) struct Strings {
    /// The pointers, of which the last is null.
    pub(super) pointers: Vec<*const c_char>,
    _owned: Vec<CString>,
}

impl Strings {
    fn new(strings: Vec<CString>) -> Self {
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect();
        Self { pointers, _owned: strings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(name: &str, path: Option<&str>) -> Vec<String> {
        let mut invocation = Invocation::new(&[name.to_owned()], None);
        if let Some(path) = path {
            invocation.set("PATH", path);
        }
        let image = invocation.image().unwrap();
        image.paths.iter().map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_name_is_looked_for_in_each_directory_of_the_path() {
        assert_eq!(paths("x", Some("/a:/b/::c")), ["/a/x", "/b/x", "x", "c/x"]);
        assert_eq!(paths("./x", Some("/a")), ["./x"]);
        assert_eq!(
            paths("x", None),
            DEFAULT_PATH.split(':').map(|folder| format!("{folder}/x")).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_nul_byte_is_refused_wherever_it_is() {
        let plain = || Invocation::new(&["x".to_owned()], None);
        let mut variable = plain();
        variable.set("A", "a\0b");
        let argument = Invocation::new(&["x".to_owned(), "a\0b".to_owned()], None);
        let directory = Invocation::new(&["x".to_owned()], Some(Path::new("/a\0b")));
        assert!(plain().image().is_ok());
        for invocation in [variable, argument, directory] {
            assert_eq!(invocation.image().err().unwrap().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
