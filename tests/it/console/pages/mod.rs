//! The pages of the console.

mod actions;
mod every;
mod hostile;
mod incidents;
mod large;
mod scene;
