//! Random operations on a real queue and on a small model of it in memory. After each operation, every job must be in the
//! state that the model predicts, and at the end each must have run as often as predicted.

mod expected;
mod play;
mod world;
