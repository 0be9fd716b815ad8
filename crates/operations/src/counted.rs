//! Counts with their nouns, as people read them.

/// Writes a count with a noun, and what else depends on the number: `1 job runs`, `4 jobs run`.
pub fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "job", "jobs")), ["0 jobs", "1 job", "2 jobs"]);
    }
}
