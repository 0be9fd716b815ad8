//! The pages of the console.

mod actions;
mod every;
mod hostile;
mod large;
mod needs;
mod scene;
