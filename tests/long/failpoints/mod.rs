//! A fault strikes at each call of a script: the worker is killed, frozen beyond its lease, or its connection is lost, before
//! Redis gets the call or after it has executed it. Then other workers finish the work, and the account must be right.

mod callbacks;
mod cron;
mod drill;
mod gates;
mod steps;
mod unique;
