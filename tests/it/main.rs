//! Integration tests: the library and the real binary against real servers.

#[cfg(test)]
mod cli;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod input;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod program;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod selftest;
#[cfg(test)]
mod traps;
