//! What a child does before it becomes the program. This is the only unsafe code of the crate.
//!
//! A child shares the memory of the worker until then, as those of `posix_spawn` do, and the thread that starts it is
//! suspended meanwhile. So a start costs the same however much memory the worker has, and the child can run as an
//! ordinary call on a stack of its own.
//!
//! A child that becomes another user can be stopped by the programs of that user, and a program or directory may be on a file system
//! that does not answer. So the kernel kills a child that is no program after a while. Only a system call that cannot be interrupted
//! suspends the thread for longer. Meanwhile, other starts of the same user wait, and all else goes on.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Signal, WaitOptions, chdir, getpid, getppid, set_parent_process_death_signal, setsid, waitpid,
};

use super::identity::{Identity, give_up_capabilities};
use super::invocation::{Image, SHELL};

/// How the stack of a child is aligned, on every machine.
#[repr(align(16))]
struct StackSlot(#[expect(dead_code, reason = "it is only room")] [u8; 16]);

/// The size of the stack: 64 KiB. No call of a child needs more for longer arguments, because all that depends on their
/// length is prepared for it.
const STACK_SLOTS: usize = 4096;

/// The last signal of the system.
const LAST_SIGNAL: c_int = 64;

/// How long a child may take to become the program, in seconds.
const LONGEST_START_S: u8 = 10;

/// The exit code of a child that did not become the program. Nobody sees it.
const NOT_STARTED: c_int = 127;

/// What a child needs, prepared by its parent: it must not allocate.
struct Start<'a> {
    image: &'a mut Image,
    standard: [RawFd; 3],
    parent: Pid,
    /// Why it did not become the program.
    error: Option<Errno>,
}

/// Starts a child that leads its own session and process group, has no terminal, dies by SIGKILL with the *thread* that starts it, and
/// inherits no file besides standard input, output and error. Its signals have their default meaning, except for those that this
/// process ignores, and none is blocked. It is the user that the image says; if that is not the worker's, only root can read the
/// memory of this process from then on. The child's own children are not tied; when the child dies, only their pipes close.
///
/// # Errors
///
/// That of the first step that failed, as the system reports it. No child is left then. A child that was killed before it became the
/// program is no error: nobody can tell it from a program that was killed at once.
pub(super) fn start(image: &mut Image, standard: &[OwnedFd; 3]) -> io::Result<Pid> {
    let standard = standard.each_ref().map(AsRawFd::as_raw_fd);
    let mut start = Start { image, standard, parent: getpid(), error: None };
    let began = Instant::now();
    let pid = with_child(child, ptr::from_mut(&mut start).cast())?;
    match start.error {
        None => {
            if began.elapsed() >= Duration::from_secs(LONGEST_START_S.into()) {
                tracing::warn!(
                    pid = pid.as_raw_nonzero().get(),
                    "the start of a program took {LONGEST_START_S} s, so it was killed unless it had just begun: a file system does \
                     not answer, programs of its user stop it, or this process was frozen"
                );
            }
            Ok(pid)
        }
        Some(error) => {
            // It has ended already. If somebody else reaped it, there is nothing left to do.
            retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty())).ok();
            Err(error.into())
        }
    }
}

/// Finds out whether a child may become this user, by one that does so and ends. This process may have the right, and a filter of system
/// calls may refuse it all the same.
///
/// # Errors
///
/// What the system says.
pub(super) fn rehearse(identity: &Identity) -> io::Result<()> {
    let mut rehearsal = Rehearsal { identity, error: None };
    let pid = with_child(rehearsing, ptr::from_mut(&mut rehearsal).cast())?;
    // If somebody else reaped it, nothing shows how it ended.
    let reaped = retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty())).ok().flatten();
    if let Some(error) = rehearsal.error {
        return Err(error.into());
    }
    // What a filter does unless it is told which error to return. Nobody else can end the child by this signal, which is blocked.
    if reaped.and_then(|(_, status)| status.terminating_signal()) == Some(libc::SIGSYS) {
        return Err(io::Error::other("the system killed the process that tried it (SIGSYS)"));
    }
    Ok(())
}

/// What a child needs that only becomes a user.
struct Rehearsal<'a> {
    identity: &'a Identity,
    error: Option<Errno>,
}

/// The whole life of a child that only becomes a user.
extern "C" fn rehearsing(rehearsal: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "C passes a plain pointer")]
    // SAFETY: this is the `rehearsal` of the function `rehearse`, which waits.
    let rehearsal = unsafe { &mut *rehearsal.cast::<Rehearsal<'_>>() };
    kill_unless_in_time();
    rehearsal.error = rehearsal.identity.assume().err();
    NOT_STARTED
}

/// Starts a child that lives this life, and waits until it has ended or become a program.
fn with_child(life: extern "C" fn(*mut c_void) -> c_int, argument: *mut c_void) -> io::Result<Pid> {
    let mut stack = Vec::<StackSlot>::with_capacity(STACK_SLOTS);
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let blocked = AllBlocked::new();
    #[expect(unsafe_code, reason = "no safe call starts a child that shares memory and dies with its parent")]
    // SAFETY: the stack grows down from its end, is aligned and large enough, and nothing else uses it. CLONE_VFORK
    // suspends this thread until the child has ended or shares no memory any more, so the child has `argument` and all it
    // refers to for itself, as a callee would. No signal handler runs in the child: all signals are blocked, and it
    // unblocks them when it has no handlers left.
    let cloned = unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        libc::clone(life, top.cast(), flags, argument)
    };
    let failed = io::Error::last_os_error();
    drop(blocked);
    if cloned < 0 {
        return Err(failed);
    }
    Ok(Pid::from_raw(cloned).expect("no child has the number zero"))
}

/// The whole life of a child that does not become the program.
extern "C" fn child(start: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "C passes a plain pointer")]
    // SAFETY: this is the `start` of the function `start`, which waits.
    let start = unsafe { &mut *start.cast::<Start<'_>>() };
    let error = match start.prepare() {
        Ok(()) => start.become_the_program(),
        Err(error) => error,
    };
    start.error = Some(error);
    NOT_STARTED
}

/// What a child does. It shares memory with threads that go on, which may hold any lock, so it makes system calls and
/// nothing else: no allocation, no panic, no lock.
impl Start<'_> {
    fn prepare(&self) -> Result<(), Errno> {
        // First of all: from here on, the worker's terminal sends it no signals, and it cannot type into that terminal.
        setsid()?;
        kill_unless_in_time();
        // For SIGABRT, libraries take the lock of `abort`, which a child that is killed would keep locked for the worker. Only programs
        // of its user may send it to a child that is no program yet, and becoming the program ends its handler.
        for signal in (1..=LAST_SIGNAL).filter(|signal| *signal != libc::SIGABRT) {
            make_default(signal);
        }
        for (file, number) in self.standard.into_iter().zip(0..) {
            #[expect(unsafe_code, reason = "rustix wants to own both files")]
            // SAFETY: two numbers. The child has its own table of files, so the worker loses none.
            check(unsafe { libc::dup2(file, number) })?;
        }
        give_up_capabilities()?;
        if let Some(identity) = &self.image.identity {
            identity.assume()?;
        }
        // Not before: a process that becomes another user is tied to nobody any more.
        tie_to(self.parent)?;
        if let Some(directory) = &self.image.directory {
            chdir(directory.as_c_str())?;
        }
        close_on_exec();
        set_mask(&no_signals());
        Ok(())
    }

    /// Tries all paths as `execvp` does. Returns only if none is a program.
    fn become_the_program(&mut self) -> Errno {
        let Image { paths, arguments, script, environment, .. } = &mut *self.image;
        let (mut error, mut is_denied) = (Errno::NOENT, false);
        for path in &*paths {
            error = execute(path, &arguments.pointers, &environment.pointers);
            if error == Errno::NOEXEC
                && let Some(name) = script.get_mut(1)
            {
                *name = path.as_ptr();
                error = execute(SHELL, script, &environment.pointers);
            }
            match error {
                Errno::ACCESS => is_denied = true,
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
                _ => return error,
            }
        }
        if is_denied { Errno::ACCESS } else { error }
    }
}

/// Becomes the program at `path`, or returns why not. Both arrays must be those of an [`Image`].
fn execute(path: &CStr, arguments: &[*const c_char], environment: &[*const c_char]) -> Errno {
    #[expect(unsafe_code, reason = "neither the standard library nor rustix takes prepared arrays")]
    // SAFETY: an image's arrays end with a null pointer, and it owns the strings that they point to.
    unsafe {
        libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
    }
    last_error()
}

/// Makes the kernel kill the calling child unless it becomes the program in time: then the timer is gone.
fn kill_unless_in_time() {
    let (mut timer, flags): (c_int, c_int) = (0, 0);
    let no_answer = ptr::null_mut::<libc::itimerspec>();
    #[expect(unsafe_code, reason = "rustix has no timers")]
    // SAFETY: both structs consist of numbers and a pointer, and may be zero. The system reads and writes nothing but them and the
    // timer's number. It is called directly, because the functions of the C library may allocate.
    let _unsupported_by_some_sandboxes = unsafe {
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut due: libc::itimerspec = mem::zeroed();
        due.it_value.tv_sec = LONGEST_START_S.into();
        libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) == 0
            && libc::syscall(libc::SYS_timer_settime, timer, flags, &raw const due, no_answer) == 0
    };
}

/// Gives a signal its default meaning in the child, unless it is ignored. Rust ignores SIGPIPE, which no program
/// expects.
fn make_default(signal: c_int) {
    let mut action = default_action();
    #[expect(unsafe_code, reason = "rustix does not change what signals do")]
    // SAFETY: the child has its own table of actions, so none of the worker's changes. Both structs are whole.
    unsafe {
        // This fails for the signals that the C library keeps to itself; nobody sends them to a child.
        libc::sigaction(signal, ptr::null(), &raw mut action);
        if action.sa_sigaction == libc::SIG_IGN && signal != libc::SIGPIPE {
            return;
        }
        if signal == libc::SIGTSTP {
            // One from the terminal may be waiting. It would stop the child, and with it the thread that starts it.
            action.sa_sigaction = libc::SIG_IGN;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
        if action.sa_sigaction != libc::SIG_DFL {
            libc::sigaction(signal, &default_action(), ptr::null_mut());
        }
    }
}

fn default_action() -> libc::sigaction {
    #[expect(unsafe_code, reason = "the struct has fields that differ between systems")]
    // SAFETY: it consists of numbers, and a function that may be null. All zero means SIG_DFL without flags.
    unsafe {
        mem::zeroed()
    }
}

/// All signals are blocked in this thread until this is dropped.
struct AllBlocked {
    before: libc::sigset_t,
}

impl AllBlocked {
    fn new() -> Self {
        let mut all = no_signals();
        #[expect(unsafe_code, reason = "rustix has no sets of signals")]
        // SAFETY: the set is a whole one.
        unsafe {
            libc::sigfillset(&raw mut all);
        }
        Self { before: set_mask(&all) }
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {
        set_mask(&self.before);
    }
}

fn no_signals() -> libc::sigset_t {
    #[expect(unsafe_code, reason = "rustix has no sets of signals")]
    // SAFETY: a set consists of numbers, and is empty if all are zero.
    unsafe {
        mem::zeroed()
    }
}

/// Sets which signals this thread blocks, and returns those that it blocked before.
fn set_mask(blocked: &libc::sigset_t) -> libc::sigset_t {
    let mut before = no_signals();
    #[expect(unsafe_code, reason = "rustix has no sets of signals")]
    // SAFETY: both sets are whole ones. The call cannot fail, because it exists.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, blocked, &raw mut before);
    }
    before
}

/// Returns what the last call of the C library failed with.
fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Returns an error if a call of the C library failed.
fn check(returned: c_int) -> Result<(), Errno> {
    if returned < 0 { Err(last_error()) } else { Ok(()) }
}

/// Makes the calling child die by SIGKILL with the thread that started it.
fn tie_to(parent: Pid) -> Result<(), Errno> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // A parent that died before the line above sends no signal, and the child already has another parent.
    if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH) }
}

/// Marks every file after standard error to be closed on exec. Rust opens all files that way, but other code may not,
/// and the worker may have inherited some itself.
fn close_on_exec() {
    const FIRST: libc::c_uint = 3;
    #[expect(unsafe_code, reason = "rustix has no close_range")]
    // SAFETY: three numbers and no memory. Nothing is closed before exec, so no file that is in use disappears.
    let _unsupported_before_linux_5_11 =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}
