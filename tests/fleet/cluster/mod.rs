//! A Redis Cluster of three masters and their replicas: what happens to a queue's jobs if its server dies, is away or
//! changes, and what the queues on other servers notice.

mod account;
mod chains;
mod commands;
mod names;
mod outage;
mod slots;
