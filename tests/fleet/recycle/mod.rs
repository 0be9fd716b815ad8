//! Workers that exit on their own and are restarted: nothing is lost, no attempt is spent, and the jobs they leave are
//! consumed.

mod bounds;
mod load;
