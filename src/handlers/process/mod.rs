//! Programs that handlers run. Each leads a process group of its own, dies with the worker, inherits no open file, and
//! gets only the environment that the configuration names.
//!
//! A [`Template`] is what a configuration says about a program; its command is started as a [`Leader`] on the
//! `spawner`'s thread.

mod leader;
mod pre_exec;
mod search;
mod spawner;
mod template;

pub(super) use leader::Leader;
#[cfg(feature = "dev-server")]
pub(crate) use search::find_program;
pub(super) use spawner::on_the_thread;
#[cfg(feature = "dev-server")]
pub(crate) use spawner::start_tied;
pub(super) use template::Template;
