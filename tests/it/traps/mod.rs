//! Traps: what the network, the server and the client library can do to a fleet, and that it recovers on its own. In each,
//! no settled job runs again, and nothing is lost.

pub(crate) mod scene;

pub(crate) mod aside;
pub(crate) mod attempts;
mod claims;
mod cluster;
mod due;
mod full_outbox;
mod half_open;
mod hostile_names;
mod lost_reply;
mod orphans;
mod refused;
mod resent;
pub(crate) mod scripts;
pub(crate) mod settled;
mod start;
mod stop;
mod together;
mod unserved;
mod vandal;
pub(crate) mod xackdel;
pub(crate) mod zombie;
