//! The pages of the console.

mod actions;
#[cfg(feature = "alerts")]
mod alerts;
mod edited;
mod every;
mod figures;
mod hostile;
mod incidents;
mod large;
mod live;
mod needs;
mod private;
mod rights;
mod scene;
