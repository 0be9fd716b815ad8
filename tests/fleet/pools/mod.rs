//! Pools of programs, run by the real binary.

mod check;
mod ended;
mod frozen;
mod late;
mod life;
mod page;
mod reload;
mod work;
