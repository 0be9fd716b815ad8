//! Workers that stop by themselves, to be started anew: nothing is lost, no attempt is spent, and what they leave is
//! consumed.

mod bounds;
mod load;
