//! A Redis Cluster of three masters and their replicas: what a queue's jobs go through where its server dies, is away or
//! changes, and what the queues of the other servers notice of it.

mod account;
mod commands;
mod names;
mod outage;
mod slots;
