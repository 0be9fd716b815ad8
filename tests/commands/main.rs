//! Integration tests of the command line, and of the kit that users test their handlers with.

#[cfg(test)]
mod cli;
#[cfg(test)]
mod kit;
