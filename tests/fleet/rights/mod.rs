//! The logins of `deploy/redis/users.acl`, on a real server that runs with that file and `deploy/redis/redis.conf`: each may do
//! what it needs, and nothing else.

mod life;
mod logins;
mod matrix;
mod memory;
mod operator;
mod restart;
mod runbooks;
mod submitter;
mod viewer;
