//! What the error codes of each database mean for the caller. Codes that nobody thought of are [`Meaning::Other`].

use super::Trouble;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Trouble(Trouble),
    Poison,
    Schema,
    Forbidden,
    Other,
}

/// The error numbers of MySQL, and those above 1900 of MariaDB.
pub(super) fn of_mysql(number: u16) -> Meaning {
    match number {
        // Shutdown, aborted or killed connections, and network errors.
        1053 | 1077 | 1152 | 1158..=1161 | 1184 | 1189 | 1190 | 1927 | 2006 | 2013 | 3169 | 4031 => {
            Meaning::Trouble(Trouble::ConnectionLost)
        }
        1213 | 1614 => Meaning::Trouble(Trouble::Deadlock),
        1205 => Meaning::Trouble(Trouble::LockTimeout),
        1290 | 1792 | 1836 | 3100 => Meaning::Trouble(Trouble::ReadOnly),
        1021 | 1037 | 1038 | 1041 | 1114 | 1206 => Meaning::Trouble(Trouble::Full),
        1040 | 1129 | 1135 | 1203 | 1226 => Meaning::Trouble(Trouble::TooManyConnections),
        1317 | 1969 | 3024 => Meaning::Trouble(Trouble::TimeLimit),
        // A packet, a value or a row that is too large, a text that is not one, and rules of the table.
        1048 | 1062 | 1118 | 1153 | 1264 | 1265 | 1292 | 1300 | 1301 | 1364 | 1366 | 1367 | 1406 | 1411
        | 1451 | 1452 | 1526 | 1644 | 1690 | 1977 | 3140 | 3819 | 3854 | 4025 => Meaning::Poison,
        1051 | 1054 | 1146 | 1305 => Meaning::Schema,
        1044 | 1045 | 1142 | 1143 | 1227 | 1251 | 1370 | 1698 | 1820 | 3118 | 3955 => Meaning::Forbidden,
        _ => Meaning::Other,
    }
}

/// The SQLSTATEs of PostgreSQL.
pub(super) fn of_postgres(code: &str) -> Meaning {
    match code {
        "40P01" | "40001" => Meaning::Trouble(Trouble::Deadlock),
        "55P03" | "55006" => Meaning::Trouble(Trouble::LockTimeout),
        "25006" => Meaning::Trouble(Trouble::ReadOnly),
        "53300" => Meaning::Trouble(Trouble::TooManyConnections),
        "57014" => Meaning::Trouble(Trouble::TimeLimit),
        "25P03" | "25P04" | "57P01" | "57P02" | "57P03" | "57P05" => {
            Meaning::Trouble(Trouble::ConnectionLost)
        }
        "P0001" => Meaning::Poison,
        "42P01" | "42703" | "42883" | "3F000" => Meaning::Schema,
        "42501" => Meaning::Forbidden,
        _ => match code.get(..2) {
            Some("08" | "58") => Meaning::Trouble(Trouble::ConnectionLost),
            Some("53") => Meaning::Trouble(Trouble::Full),
            // Data that does not fit, integrity, and limits such as the longest row of an index.
            Some("22" | "23" | "54") => Meaning::Poison,
            Some("28") => Meaning::Forbidden,
            _ => Meaning::Other,
        },
    }
}

/// The extended result codes of SQLite, whose last byte is the primary one.
pub(super) fn of_sqlite(code: u32, message: &str) -> Meaning {
    match code & 0xff {
        1 if message.contains("no such table") || message.contains("no such column") => Meaning::Schema,
        1 if message.contains("has no column named") => Meaning::Schema,
        3 | 23 => Meaning::Forbidden,
        5 | 6 => Meaning::Trouble(Trouble::LockTimeout),
        7 | 13 => Meaning::Trouble(Trouble::Full),
        8 => Meaning::Trouble(Trouble::ReadOnly),
        9 => Meaning::Trouble(Trouble::TimeLimit),
        10 => Meaning::Trouble(Trouble::ConnectionLost),
        18..=20 => Meaning::Poison,
        _ => Meaning::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_that_pass_are_told_from_rows_that_are_at_fault() {
        assert_eq!(of_mysql(1213), Meaning::Trouble(Trouble::Deadlock));
        assert_eq!(of_mysql(1406), Meaning::Poison);
        assert_eq!(of_mysql(1146), Meaning::Schema);
        assert_eq!(of_mysql(1142), Meaning::Forbidden);
        assert_eq!(of_postgres("40P01"), Meaning::Trouble(Trouble::Deadlock));
        assert_eq!(of_postgres("57P01"), Meaning::Trouble(Trouble::ConnectionLost));
        assert_eq!(of_postgres("53100"), Meaning::Trouble(Trouble::Full));
        assert_eq!(of_postgres("22021"), Meaning::Poison);
        assert_eq!(of_sqlite(2067, ""), Meaning::Poison);
        assert_eq!(of_sqlite(517, ""), Meaning::Trouble(Trouble::LockTimeout));
        assert_eq!(of_sqlite(1, "no such table: sf_jobs"), Meaning::Schema);
        assert_eq!(of_sqlite(1, "near \"SELEC\": syntax error"), Meaning::Other);
    }

    #[test]
    fn an_unknown_code_has_no_meaning() {
        assert_eq!(of_mysql(1064), Meaning::Other);
        assert_eq!(of_postgres("42601"), Meaning::Other);
        assert_eq!(of_postgres(""), Meaning::Other);
    }
}
