//! How many rows may be read at once, so that one answer fits into memory.

/// The size of a row that was not read yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sized {
    pub seq: i64,
    pub bytes: u64,
}

/// Returns the numbers of the first rows that have at most this many bytes together, and always the first one.
pub(super) fn fitting(rows: &[Sized], max_bytes: u64) -> Vec<i64> {
    let mut total = 0_u64;
    let mut seqs = Vec::new();
    for row in rows {
        total = total.saturating_add(row.bytes);
        if total > max_bytes && !seqs.is_empty() {
            break;
        }
        seqs.push(row.seq);
    }
    seqs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_bounded_in_bytes_but_the_first_one_always_fits() {
        let rows: Vec<Sized> =
            [7, 4, 4, 1].iter().zip(1..).map(|(bytes, seq)| Sized { seq, bytes: *bytes }).collect();
        assert_eq!(fitting(&rows, 11), [1, 2]);
        assert_eq!(fitting(&rows, 3), [1]);
        assert_eq!(fitting(&rows, 100), [1, 2, 3, 4]);
        assert!(fitting(&[], 100).is_empty());
    }
}
