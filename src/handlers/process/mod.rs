//! Programs that handlers run. Each leads a session and a process group of its own, dies with the worker, inherits no open file, and
//! gets only the environment that the configuration names. It runs as the worker's user, or as another `identity`.
//!
//! A [`Template`] is what a configuration says about a program, an [`Invocation`] what is started of it: as a [`Leader`], on
//! a thread of the `spawner`.

mod before_exec;
mod identity;
mod invocation;
mod leader;
mod reaper;
mod search;
mod spawner;
mod template;

pub(crate) use invocation::Invocation;
pub(crate) use leader::Leader;
pub(crate) use search::find_program;
pub(crate) use spawner::on_the_thread;
pub(super) use template::{Setting, Template, runs_programs};
