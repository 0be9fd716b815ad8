//! The beginning of a text, so that a page stays small however long its texts are. Only a job's own page has all of them.

/// The most letters of a text in a table.
pub(super) const CELL: usize = 300;

/// What stands for the rest.
const REST: char = '…';

/// The first letters of a text, at most this many.
pub(super) fn of(mut text: String, most: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push(REST);
    }
    text
}

/// How many bytes a text takes in HTML, where each letter that has a meaning there takes five.
pub(super) fn html_bytes(text: &str) -> usize {
    text.chars().map(letter_bytes).sum()
}

/// Where the beginning of a text ends that takes at most this many bytes in HTML.
pub(super) fn end_within(text: &str, most: usize) -> usize {
    let mut used = 0;
    let fits = |letter: &char| {
        used += letter_bytes(*letter);
        used <= most
    };
    text.chars().take_while(fits).map(char::len_utf8).sum()
}

fn letter_bytes(letter: char) -> usize {
    if matches!(letter, '<' | '>' | '&' | '"' | '\'') { 5 } else { letter.len_utf8() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_letters() {
        assert_eq!(of("éé".to_owned(), 2), "éé");
        assert_eq!(of("ééé".to_owned(), 2), "éé…");
        assert_eq!(["a<é", ""].map(html_bytes), [8, 0]);
        assert_eq!([0, 1, 5, 6, 7, 8, 9].map(|most| end_within("a<é", most)), [0, 1, 1, 2, 2, 4, 4]);
    }
}
