//! The HTTP API of the real program on a real server.

mod client;
mod doors;
mod ended;
mod events;
mod everywhere;
mod fleet;
mod groups;
mod http;
mod incidents;
mod jobs;
mod large;
mod letters;
mod load;
mod many;
mod page;
mod privacy;
mod queues;
mod session;
mod stats;
mod submit;
mod told;
mod wrong;
