//! Traps: what the network, the server and the client library can do to a fleet, and that it recovers on its own. In each,
//! no settled job runs again, and nothing is lost.

mod claims;
mod cluster;
mod due;
mod full_outbox;
mod half_open;
mod hostile_names;
mod lost_reply;
mod orphans;
mod quarantine;
mod refused;
mod resent;
mod scripts;
mod settled;
mod start;
mod stop;
mod together;
mod unserved;
mod vandal;
mod xackdel;
mod zombie;
