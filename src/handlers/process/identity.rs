//! Who a program runs as, if not as the worker: looked up before anything is started, because the child itself may only make
//! system calls.

use std::ffi::CString;
use std::fs;
use std::path::PathBuf;

use nix::unistd;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// The number that stands for "no change" where the system expects a user or a group.
const NOBODY_AT_ALL: u32 = u32::MAX;

/// The user and the groups of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) user: Uid,
    pub(super) group: Gid,
    groups: Vec<Gid>,
    /// The user's folder; `None` if the system does not know the user.
    pub(super) home: Option<PathBuf>,
}

/// A key and what is wrong with its value.
type Wrong = (&'static str, String);

impl Identity {
    /// Looks up a user and a group, each by name or number. The default of the group is the user's. `None` if this process already
    /// runs as these.
    pub(super) fn find(user: &str, group: Option<&str>) -> Result<Option<Self>, Wrong> {
        let known = known_user(user).map_err(|why| ("user", why))?;
        let group = group.map(known_group).transpose().map_err(|why| ("group", why))?;
        let (number, own_group) = match &known {
            Known::Entry(entry) => (entry.uid.as_raw(), Some(entry.gid.as_raw())),
            Known::Number(number) => (*number, None),
        };
        let Some(group) = group.or(own_group) else {
            return Err(("user", format!("this machine knows no user {number}; name its group in `group`")));
        };
        let (groups, home) = match known {
            Known::Entry(entry) => {
                (groups_of(&entry.name, group).map_err(|why| ("user", why))?, Some(entry.dir))
            }
            Known::Number(_) => (vec![group], None),
        };
        let groups = groups.into_iter().map(Gid::from_raw).collect();
        let found = Self { user: Uid::from_raw(number), group: Gid::from_raw(group), groups, home };
        if found.user == geteuid() && found.group == getegid() {
            return Ok(None);
        }
        refusal().map_or(Ok(Some(found)), |why| Err(("user", why)))
    }

    /// Becomes this user. Called by a child that shares memory with the worker, so it makes system calls and nothing else. They
    /// change only the calling thread; those of the C library would make all threads of the worker change.
    pub(super) fn assume(&self) -> Result<(), Errno> {
        // The user comes last: only a privileged one may do the rest.
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.group, self.group, self.group)?;
        set_thread_res_uid(self.user, self.user, self.user)?;
        // Nobody opens the memory again, which still is the worker's: other children may be becoming other users. Nor may a signal make
        // a core dump of it: kernels before 5.16 would end the worker, too.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
    }
}

/// Leaves a program no capability of the worker, such as the right to become somebody else, with and without a user of its own. A
/// program of root has those of root all the same. Called by a child, like [`Identity::assume`].
pub(super) fn give_up_capabilities() -> Result<(), Errno> {
    match clear_ambient_capability_set() {
        // Kernels before 4.3 have no such set.
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error),
    }
    if let Ok(own) = capabilities(None)
        && !own.inheritable.is_empty()
    {
        // A filter of system calls may refuse it. That is no reason not to start: by itself, this set gives rights only to files that
        // have been given the same ones.
        set_capabilities(None, CapabilitySets { inheritable: CapabilitySet::empty(), ..own }).ok();
    }
    Ok(())
}

/// A user, as the configuration names it.
enum Known {
    Entry(unistd::User),
    /// A number of which the machine knows no more.
    Number(u32),
}

fn known_user(text: &str) -> Result<Known, String> {
    let number = number(text)?;
    let entry = match number {
        Some(number) => unistd::User::from_uid(unistd::Uid::from_raw(number)),
        None => unistd::User::from_name(text),
    };
    let entry = entry.map_err(|error| format!("the users of this machine cannot be read: {error}"))?;
    match (entry, number) {
        (Some(entry), _) => Ok(Known::Entry(entry)),
        (None, Some(number)) => Ok(Known::Number(number)),
        (None, None) => Err(format!("this machine knows no user {text:?}")),
    }
}

fn known_group(text: &str) -> Result<u32, String> {
    if let Some(number) = number(text)? {
        return Ok(number);
    }
    let entry = unistd::Group::from_name(text)
        .map_err(|error| format!("the groups of this machine cannot be read: {error}"))?;
    entry.map(|entry| entry.gid.as_raw()).ok_or_else(|| format!("this machine knows no group {text:?}"))
}

/// Returns the number that the text is, if it is one.
fn number(text: &str) -> Result<Option<u32>, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|number| *number != NOBODY_AT_ALL);
    number.map(Some).ok_or_else(|| format!("{text} is too large for a number of a user or a group"))
}

fn groups_of(user: &str, group: u32) -> Result<Vec<u32>, String> {
    let name = CString::new(user).map_err(|_| "a NUL byte cannot be part of a name".to_owned())?;
    let groups = unistd::getgrouplist(&name, unistd::Gid::from_raw(group));
    let groups = groups.map_err(|error| format!("the groups of {user} cannot be read: {error}"))?;
    Ok(groups.into_iter().map(unistd::Gid::as_raw).collect())
}

/// Returns why this process cannot start programs as other users, and end them; `None` if it can.
fn refusal() -> Option<String> {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
    if !capabilities(None).is_ok_and(|own| own.effective.contains(needed)) {
        let user = geteuid().as_raw();
        return Some(format!(
            "this process, of the user {user}, must not run programs as another user: start it as root, or with the capabilities \
             CAP_SETUID, CAP_SETGID and CAP_KILL, or leave `user` out"
        ));
    }
    // Until it is the program, a child shares memory with the worker. With this setting, its new user could read it.
    let dumpable = fs::read_to_string("/proc/sys/fs/suid_dumpable").unwrap_or_default();
    (dumpable.trim() == "1").then(|| {
        "the sysctl fs.suid_dumpable is 1, so another user could read the worker's memory: set it to 0 or 2".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use rustix::process::getuid;

    use super::*;

    fn wrong(user: &str, group: Option<&str>) -> Wrong {
        Identity::find(user, group).unwrap_err()
    }

    #[test]
    fn users_and_groups_that_nobody_knows_are_refused_by_name() {
        assert_eq!(
            wrong("no-such-user", None),
            ("user", r#"this machine knows no user "no-such-user""#.to_owned())
        );
        assert_eq!(wrong("", None), ("user", r#"this machine knows no user """#.to_owned()));
        assert_eq!(
            wrong("root", Some("none")),
            ("group", r#"this machine knows no group "none""#.to_owned())
        );
        assert!(wrong("3999999999", None).1.ends_with("knows no user 3999999999; name its group in `group`"));
        // The system would take it as "no change": the program would run as the worker.
        for number in ["4294967295", "4294967296", "99999999999999999999"] {
            assert_eq!(wrong(number, Some("0")).0, "user", "{number}");
            assert_eq!(wrong("root", Some(number)).0, "group", "{number}");
        }
    }

    #[test]
    fn who_already_is_that_user_needs_no_right_to_become_it() {
        let (user, group) = (getuid().as_raw().to_string(), getegid().as_raw().to_string());
        assert_eq!(Identity::find(&user, Some(&group)), Ok(None));
    }

    #[test]
    fn who_may_not_switch_learns_what_is_missing() {
        if !getuid().is_root() {
            return println!("not root, so there is no right to give up");
        }
        // Only this thread gives up its rights.
        let asked = std::thread::spawn(|| {
            let none = CapabilitySet::empty();
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
                .unwrap();
            wrong("3999999998", Some("3999999998"))
        });
        let (key, why) = asked.join().unwrap();
        assert_eq!(key, "user");
        assert!(
            why.contains("of the user 0,") && why.contains("CAP_SETUID, CAP_SETGID and CAP_KILL"),
            "{why}"
        );
    }

    #[test]
    fn a_process_that_could_not_become_a_user_learns_it_before_there_is_a_job() {
        use super::super::before_exec::rehearse;

        if !getuid().is_root() {
            return println!("not root, so no other user can be chosen");
        }
        let nobody = Identity::find("nobody", None).unwrap().unwrap();
        rehearse(&nobody).unwrap();
        // Only this thread gives up its rights, as a filter of system calls would take them.
        let refused = std::thread::spawn(move || {
            let none = CapabilitySet::empty();
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
                .unwrap();
            rehearse(&nobody).unwrap_err()
        });
        assert_eq!(refused.join().unwrap().kind(), std::io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_number_and_a_name_are_the_same_user() {
        if !getuid().is_root() {
            return println!("not root, so no other user can be chosen");
        }
        let named = Identity::find("nobody", None).unwrap().unwrap();
        assert_eq!(Identity::find(&named.user.as_raw().to_string(), None).unwrap().unwrap(), named);
        let unknown = Identity::find("3999999998", Some("3999999997")).unwrap().unwrap();
        assert_eq!((unknown.groups, unknown.home), (vec![Gid::from_raw(3_999_999_997)], None));
    }
}
