//! The word that somebody most likely meant.

/// Returns the word among `known` that somebody most likely meant by `given`, if one is similar enough.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (far, near) = known.into_iter().map(|known| (distance(given, known), known)).min()?;
    // A word of which every letter is wrong is not similar, however short it is.
    (far <= (given.len() / 3).max(2) && far < given.len()).then_some(near)
}

/// Returns how many letters must be changed, added or removed to turn one word into the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_similar_word_is_the_nearest() {
        assert_eq!(nearest("male", ["later", "mail"]), Some("mail"));
        assert_eq!(nearest("reports", ["later", "mail"]), None);
        assert_eq!(nearest("mail", []), None);
        assert_eq!(nearest("zh", ["en", "zh_cn"]), None);
        assert_eq!(nearest("pi", ["js", "py"]), Some("py"));
    }

    #[test]
    fn the_distance_counts_changes() {
        let want =
            [("lease", "lease", 0), ("lese", "lease", 1), ("", "abc", 3), ("abc", "", 3), ("ab", "ba", 2)];
        for (one, other, want) in want {
            assert_eq!(distance(one, other), want, "{one} {other}");
        }
    }
}
