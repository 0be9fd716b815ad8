//! The pages of the console.

mod actions;
mod alerts;
mod edited;
mod every;
mod figures;
mod hostile;
mod incidents;
mod large;
mod live;
mod needs;
mod numbers;
mod private;
mod rich;
mod rights;
mod scene;
