//! Random operations on a real queue beside a small model of it in memory: after each, every job must be where the model
//! says, and at the end each must have run as often as it says.

mod expected;
mod play;
mod world;
