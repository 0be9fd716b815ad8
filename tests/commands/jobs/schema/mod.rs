//! The schemas of types: commands refuse what does not fit, and name the schemas that cannot be used.

mod commands;
mod configured;
