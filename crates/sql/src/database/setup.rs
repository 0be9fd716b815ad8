//! What every new connection is set to, so that neither the server's defaults nor those of sqlx decide: READ COMMITTED, UTC,
//! strict values, and a limit for each statement and each wait for a lock.

use std::time::Duration;

use super::Options;

/// The longest wait for a lock.
const LOCK: Duration = Duration::from_secs(10);

/// How long a transaction may be idle. Only a process that hangs or is cut off leaves one that long.
const IDLE_TRANSACTION: Duration = Duration::from_secs(60);

/// Returns how long a statement may wait for a lock: half of its time, and at most 10 s.
pub(super) fn lock_limit(options: &Options) -> Duration {
    (options.statement_limit / 2).min(LOCK)
}

/// MySQL ignores what MariaDB alone executes (`/*M!`), and MariaDB ignores comments for MySQL 5.7 and later.
pub(super) fn mysql(options: &Options) -> String {
    let locks = lock_limit(options).as_secs().max(1);
    let limit = options.statement_limit;
    let access = if options.read_only { "SET SESSION TRANSACTION READ ONLY;" } else { "" };
    format!(
        "SET NAMES utf8mb4; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; {access} \
         SET SESSION time_zone = '+00:00', SESSION innodb_lock_wait_timeout = {locks}, SESSION lock_wait_timeout = {locks}, \
         SESSION wait_timeout = 300, SESSION sql_mode = \
         'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION' \
         /*!50708 , SESSION max_execution_time = {ms} */ /*M!100101 , SESSION max_statement_time = {seconds} */",
        ms = limit.as_millis(),
        seconds = limit.as_secs_f64(),
    )
}

pub(super) fn postgres(options: &Options) -> String {
    // Otherwise the administrator decides. To plan a search takes longer than to execute it, because each partition has a plan of its own.
    // So questions are planned once for all values.
    let access = if options.read_only {
        "SET default_transaction_read_only = on; SET plan_cache_mode = force_generic_plan;"
    } else {
        ""
    };
    format!(
        "SET statement_timeout = {limit}; SET lock_timeout = {locks}; SET idle_in_transaction_session_timeout = {idle}; \
         SET default_transaction_isolation = 'read committed'; {access} \
         SET TIME ZONE 'UTC'; SET DateStyle = 'ISO'",
        limit = options.statement_limit.as_millis(),
        locks = lock_limit(options).as_millis(),
        idle = IDLE_TRANSACTION.as_millis(),
    )
}
