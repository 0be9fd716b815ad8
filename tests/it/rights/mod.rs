//! The logins of `deploy/redis/users.acl`, on a real server that runs with that file and `deploy/redis/redis.conf`: what must
//! work works, what must not is refused.

mod life;
mod logins;
mod matrix;
mod operator;
mod submitter;
