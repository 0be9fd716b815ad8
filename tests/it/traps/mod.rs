//! The traps: what the network, the server and the client library do to a fleet, and that it resumes by itself. In each,
//! nothing is run that was settled, and nothing is lost.

pub(crate) mod scene;

pub(crate) mod aside;
mod claims;
mod cluster;
mod due;
mod half_open;
mod hostile_names;
mod lost_reply;
mod refused;
pub(crate) mod scripts;
mod settled;
mod start;
mod unserved;
mod vandal;
pub(crate) mod zombie;
