//! Which rows of a page are read and sent together.

use streamfleet_sql::foreign::{Key, Look};

use super::mapping::{Mapping, Sort};

/// The most rows of a group, and about the most bytes.
const ROWS: usize = 500;
const BYTES: u64 = 16 << 20;

/// A larger row is not read: no payload may be that large.
const LARGEST: u64 = 32 << 20;

/// Rows that follow one another.
#[derive(Debug)]
pub(super) struct Group {
    /// How many rows were looked at.
    pub(super) looked: u64,
    /// The key of the last of them.
    pub(super) last: Key,
    /// Those that are jobs.
    pub(super) chosen: Vec<(Key, Sort)>,
    /// Those that would be jobs, but have too many bytes.
    pub(super) too_large: Vec<(Key, u64)>,
    bytes: u64,
}

impl Group {
    /// A group without rows, whose first one has this key.
    fn before(key: &Key) -> Self {
        Self { looked: 0, last: key.clone(), chosen: Vec::new(), too_large: Vec::new(), bytes: 0 }
    }
}

/// Divides a page into groups of at most `most` jobs.
pub(super) fn groups(mapping: &Mapping, page: Vec<Look>, most: usize) -> Vec<Group> {
    let most = most.clamp(1, ROWS);
    let mut groups: Vec<Group> = Vec::new();
    for Look { key, marks, bytes, .. } in page {
        let sort = mapping.sort(&marks);
        let is_full = |group: &Group| {
            let has_many = group.chosen.len() >= most || group.bytes.saturating_add(bytes) > BYTES;
            sort.is_some() && has_many && !group.chosen.is_empty()
        };
        if groups.last().is_none_or(is_full) {
            groups.push(Group::before(&key));
        }
        let Some(group) = groups.last_mut() else { continue };
        match sort {
            Some(_) if bytes > LARGEST => group.too_large.push((key.clone(), bytes)),
            Some(sort) => {
                group.bytes += bytes;
                group.chosen.push((key.clone(), sort));
            }
            None => {}
        }
        group.looked += 1;
        group.last = key;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKED: &str = r#"{"name": "t", "key": "id", "queue": "q", "type": "a", "payload": ["p"],
        "waiting": {"column": "s", "values": ["w"]}, "dead": {"column": "s", "values": ["d"]}}"#;

    /// Pages of which each row has a mark and a size.
    fn divided(rows: &[(&str, u64)], most: usize) -> Vec<Group> {
        let mapping: Mapping = serde_json::from_str(MARKED).unwrap();
        let looks = rows.iter().zip(1..).map(|((mark, bytes), key)| {
            let mark = Some(mark.as_bytes().to_vec());
            Look::new(Key::Int(key), vec![mark.clone(), mark], *bytes)
        });
        groups(&mapping, looks.collect(), most)
    }

    #[test]
    fn a_group_ends_before_it_has_too_many_rows_or_bytes() {
        let ends = |rows: &[(&str, u64)], most| {
            let groups = divided(rows, most);
            groups.iter().map(|group| (group.looked, group.chosen.len())).collect::<Vec<_>>()
        };
        assert_eq!(ends(&[("w", 1), ("x", 1), ("d", 1), ("w", 1)], 2), [(3, 2), (1, 1)]);
        assert_eq!(ends(&[("w", 10 << 20), ("w", 10 << 20), ("w", 1)], 500), [(1, 1), (2, 2)]);
        assert_eq!(ends(&[("x", 1); 5], 1), [(5, 0)]);
        assert!(ends(&[], 1).is_empty());
    }

    #[test]
    fn a_row_that_is_too_large_is_not_read() {
        let groups = divided(&[("w", 40 << 20), ("x", 40 << 20), ("d", 5)], 500);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].too_large, [(Key::Int(1), 40 << 20)]);
        assert_eq!(groups[0].chosen, [(Key::Int(3), Sort::Dead)]);
    }
}
