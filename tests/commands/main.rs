//! Integration tests of the command line, of jobs that the program submits and runs, and of the kit that users test their handlers with.

#[cfg(test)]
mod cli;
#[cfg(test)]
mod jobs;
#[cfg(test)]
mod kit;
