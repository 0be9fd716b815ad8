//! The word that somebody most likely meant.

use strsim::levenshtein;

/// Returns the word among `known` that somebody most likely meant by `given`, if one is similar enough.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (far, near) = known.into_iter().map(|known| (levenshtein(given, known), known)).min()?;
    // A word of which every letter is wrong is not similar, however short it is.
    (far <= (given.len() / 3).max(2) && far < given.len()).then_some(near)
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
}
