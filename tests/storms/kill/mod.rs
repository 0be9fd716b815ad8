//! Workers that are killed and frozen while they work: nothing is lost, nothing ends twice, and the jobs that they held start
//! again within the bound.

mod cron;
mod mix;
mod storm;
