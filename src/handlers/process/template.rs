//! What a configuration says about a program: how it is started, and with which environment.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::before_exec::rehearse;
use super::identity::Identity;
use super::invocation::Invocation;
use super::search::find_program;

/// Variables of the worker that every program gets, if they are set.
const INHERITED: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// How the names of streamfleet's own variables begin, which programs rarely need …
const OWN: &str = "STREAMFLEET_";

/// … and other ones that are about streamfleet: a login for its server, and the span of the command that started it.
const ALSO_OWN: [&str; 3] = ["REDISCLI_AUTH", "TRACEPARENT", "TRACESTATE"];

/// The longest grace: a stopping worker waits that long for a program, and holds the job's lease meanwhile.
const LONGEST_GRACE: Duration = Duration::from_secs(3600);

/// Implements what the configurations of handlers that run programs share: `new`, setters, `missing_program` and `template`.
macro_rules! runs_programs {
    ($config:ident, $handler:literal, $reserved:path) => {
        impl $config {
            /// Returns how to run a program with these arguments, as they are, without a shell.
            pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
                Self { command: command.into_iter().map(Into::into).collect(), ..Self::default() }
            }

            setters! {
                directory: impl Into<PathBuf> => Some(directory.into());
                pass_env: impl IntoIterator<Item = impl Into<String>> => pass_env.into_iter().map(Into::into).collect();
                env: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)> =>
                    env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
                user: impl Into<String> => Some(user.into());
                group: impl Into<String> => Some(group.into());
                grace: Duration;
            }

            /// Returns why the program cannot be started on this machine: no executable file has its name. A worker only notices
            /// when it starts the program, and that is an ordinary failure of the job.
            pub fn missing_program(&self) -> Option<String> {
                self.template().missing_program()
            }

            pub(super) fn template(&self) -> $crate::handlers::process::Template<'_> {
                $crate::handlers::process::Template {
                    handler: $handler,
                    command: &self.command,
                    directory: self.directory.as_deref(),
                    pass_env: &self.pass_env,
                    env: &self.env,
                    user: self.user.as_deref(),
                    group: self.group.as_deref(),
                    grace: self.grace,
                    reserved: $reserved,
                }
            }
        }
    };
}

pub(in crate::handlers) use runs_programs;

/// What a configuration says about a program.
pub(in crate::handlers) struct Template<'a> {
    /// The name of the handler, with which the keys of problems begin.
    pub(in crate::handlers) handler: &'static str,
    pub(in crate::handlers) command: &'a [String],
    pub(in crate::handlers) directory: Option<&'a Path>,
    pub(in crate::handlers) pass_env: &'a [String],
    pub(in crate::handlers) env: &'a BTreeMap<String, String>,
    /// Who the program runs as, by name or number, if not as the worker; and the group, if it is not the user's.
    pub(in crate::handlers) user: Option<&'a str>,
    pub(in crate::handlers) group: Option<&'a str>,
    pub(in crate::handlers) grace: Duration,
    /// Returns why the configuration must not set a variable, if it must not.
    pub(in crate::handlers) reserved: fn(&str) -> Option<String>,
}

/// What all starts of a program have in common, and is read once.
// No `Debug`: the environment may contain secrets.
pub(in crate::handlers) struct Setting {
    environment: Vec<(OsString, OsString)>,
    identity: Option<Arc<Identity>>,
}

impl Template<'_> {
    /// Returns everything that is wrong, as `<handler>.<key>: reason`.
    pub(in crate::handlers) fn validate(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.command.first().is_none_or(String::is_empty) {
            problems.push("command: names no program".to_owned());
        }
        if self.command.iter().any(|part| part.contains('\0')) {
            problems.push("command: a NUL byte cannot be passed to a program".to_owned());
        }
        if self.directory.is_some_and(|path| path.as_os_str().is_empty()) {
            problems.push("directory: is empty; leave it out to run where the worker runs".to_owned());
        }
        if self.group.is_some() && self.user.is_none() {
            problems.push("group: has no effect without user".to_owned());
        }
        if self.grace > LONGEST_GRACE {
            problems.push("grace: must be at most 1h".to_owned());
        }
        let passed = self.pass_env.iter().map(|name| ("pass_env", name));
        for (key, name) in passed.chain(self.env.keys().map(|name| ("env", name))) {
            problems.extend(self.bad_name(name).map(|reason| format!("{key}: the name {name:?} {reason}")));
        }
        let with_nul = self.env.iter().filter(|(_, value)| value.contains('\0'));
        problems.extend(with_nul.map(|(name, _)| format!("env: the value of {name} has a NUL byte")));
        problems.into_iter().map(|problem| format!("{}.{problem}", self.handler)).collect()
    }

    fn bad_name(&self, name: &str) -> Option<String> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Some("is not a valid variable name".to_owned());
        }
        (self.reserved)(name)
    }

    /// Returns why the program cannot be started on this machine: no executable file has its name.
    pub(in crate::handlers) fn missing_program(&self) -> Option<String> {
        let name = self.command.first().filter(|name| !name.is_empty())?;
        let path = self.env.get("PATH").map(OsString::from).or_else(|| env::var_os("PATH"));
        let path = path.unwrap_or_default();
        if name.contains('/') {
            let place = self.directory.unwrap_or(Path::new("")).join(name);
            let found = find_program(place.as_os_str(), &path);
            return found.is_none().then(|| format!("{} is not a program on this machine", place.display()));
        }
        // Without a PATH, the system has directories of its own to look into.
        let is_missing = !path.is_empty() && find_program(name.as_ref(), &path).is_none();
        is_missing.then(|| format!("the program {name:?} is not on the PATH"))
    }

    /// Reads the environment that every start of the program gets, and looks up its user.
    ///
    /// # Errors
    ///
    /// If the user or the group is not known, or this process must not become them, as `<handler>.<key>: reason`.
    pub(in crate::handlers) fn setting(&self) -> Result<Setting, String> {
        let found = self.user.map(|user| Identity::find(user, self.group)).transpose();
        let identity = found.map_err(|(key, why)| format!("{}.{key}: {why}", self.handler))?.flatten();
        if let Some(Err(error)) = identity.as_ref().map(rehearse) {
            return Err(format!(
                "{}.user: no program of this process can become this user, although it has the capabilities: {error}. A filter of system \
                 calls (`SystemCallFilter=` of systemd) or a user namespace (`PrivateUsers=`) may be why",
                self.handler
            ));
        }
        let names = INHERITED.into_iter().chain(self.pass_env.iter().map(String::as_str));
        // Another user has another home, or none.
        let names = names.filter(|name| identity.is_none() || *name != "HOME");
        let passed = names.filter_map(|name| Some((name.into(), env::var_os(name)?)));
        let fixed = self.env.iter().map(|(name, value)| (name.into(), value.into()));
        let home =
            identity.iter().filter_map(|identity| Some(("HOME".into(), identity.home.clone()?.into())));
        let environment = passed.chain(home).chain(fixed).collect();
        Ok(Setting { environment, identity: identity.map(Arc::new) })
    }

    /// Returns what to know about a program that misses a variable; `None` if it gets all that the worker has.
    pub(in crate::handlers) fn hint(&self) -> Option<String> {
        let is_given = |name: &str| {
            let is_passed = self.pass_env.iter().any(|given| given == name);
            is_passed || INHERITED.contains(&name) || ALSO_OWN.contains(&name)
        };
        let is_withheld =
            |name: &OsString| name.to_str().is_none_or(|name| !is_given(name) && !name.starts_with(OWN));
        let passed = INHERITED.join(", ");
        env::vars_os().any(|(name, _)| is_withheld(&name)).then(|| {
            format!("hint: of the worker's environment, programs get only {passed} and the variables that pass_env names")
        })
    }

    /// Returns a start of the program with this setting.
    pub(in crate::handlers) fn invocation(&self, setting: &Setting) -> Invocation {
        let mut invocation = Invocation::new(self.command, self.directory).run_as(setting.identity.clone());
        for (name, value) in &setting.environment {
            invocation.set(name, value);
        }
        invocation
    }

    /// Returns the text of an error about a program that could not be started.
    pub(in crate::handlers) fn not_started(&self, error: &std::io::Error) -> String {
        let place = self.directory.map(|path| format!(" in {}", path.display())).unwrap_or_default();
        let program = self.command.first().map_or("", String::as_str);
        format!("the program {program:?} cannot be started{place}: {error}")
    }
}
