//! Pools of programs, run by the real binary.

mod check;
mod ended;
mod frozen;
mod life;
mod page;
mod work;
