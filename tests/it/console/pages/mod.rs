//! The pages of the console.

mod actions;
#[cfg(feature = "alerts")]
mod alerts;
mod edited;
mod every;
mod hostile;
mod incidents;
mod large;
mod needs;
mod numbers;
mod rich;
mod rights;
mod scene;
