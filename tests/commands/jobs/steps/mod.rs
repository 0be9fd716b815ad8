//! Jobs made of steps, from their configuration to the commands.

mod answers;
mod toml;
