//! How many letters one script of a task replays, and what it must know about each.

use crate::dead::letter::DeadLetter;
use crate::job::{DeadReason, Envelope, fingerprint, weight};

/// The most letters that one script replays.
pub(super) const LETTERS_PER_CALL: usize = 30;

/// About how much the letters of one script weigh. Large fields that have a key of their own are not among them.
const WEIGHT_PER_CALL: usize = 256 * 1024;

/// The first of these letters that one script can replay.
pub(super) fn portion(letters: &[DeadLetter]) -> &[DeadLetter] {
    let mut sum = 0;
    let fits = letters.iter().take(LETTERS_PER_CALL).take_while(|letter| {
        let is_first = sum == 0;
        sum += weight_of(&letter.fields).max(1);
        is_first || sum <= WEIGHT_PER_CALL
    });
    &letters[..fits.count()]
}

fn weight_of(fields: &Envelope) -> usize {
    let most = if fields.is_offloaded() { Envelope::LARGE_BYTES } else { usize::MAX };
    weight(fields.size().min(most), fields.len())
}

/// The fingerprint that a letter's job has if it dies again of the same error. The one that the letter names is missing in
/// letters of older versions, and differs from it after an edit of the type. For a reason that this version does not know,
/// it is all there is.
pub(super) fn fingerprint_of(letter: &DeadLetter) -> String {
    let reason = letter.text("dead_reason");
    if let Some(reason) = DeadReason::named(&reason) {
        let job_type = if reason == DeadReason::Malformed { String::new() } else { letter.text("type") };
        return fingerprint(&job_type, reason, &letter.text("dead_error"));
    }
    let named = letter.text("dead_fingerprint");
    let is_word = (1..=64).contains(&named.len()) && named.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_word { named } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::EntryId;

    #[test]
    fn a_script_replays_a_bounded_portion_but_at_least_one_letter() {
        let letter = |size: usize| {
            let payload = vec![b'x'; size];
            let fields: [(&[u8], &[u8]); 1] = [(b"payload", &payload)];
            DeadLetter { entry: EntryId::new(1, 0), fields: Envelope::new(fields.into_iter()) }
        };
        assert_eq!(portion(&[]).len(), 0);
        assert_eq!(portion(&[letter(8 * 1024 * 1024)]).len(), 1);
        // Not offloaded: the script reads and writes all their bytes.
        assert_eq!(portion(&vec![letter(100 * 1024); 20]).len(), 2);
        assert_eq!(portion(&vec![letter(100); 200]).len(), LETTERS_PER_CALL);
        let many: Vec<_> = (0..1000).map(|nth| nth.to_string().into_bytes()).collect();
        let fields = Envelope::new(many.iter().map(|name| (name.as_slice(), &b""[..])));
        let wide = DeadLetter { entry: EntryId::new(1, 0), fields };
        assert_eq!(portion(&vec![wide; 20]).len(), 3);
    }

    #[test]
    fn a_letter_has_the_fingerprint_of_the_same_death_whatever_it_names() {
        let of = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            fingerprint_of(&DeadLetter { entry: EntryId::new(1, 0), fields: Envelope::new(fields) })
        };
        let death = [("type", "mail.send"), ("dead_reason", "fatal"), ("dead_error", "no 1")];
        let again = fingerprint("mail.send", DeadReason::Fatal, "no 2");
        assert_eq!(of(&death), again);
        // It was edited: it died as another type.
        assert_eq!(of(&[&death[..], &[("dead_fingerprint", "00ff")]].concat()), again);
        assert_eq!(of(&[("dead_fingerprint", "00ff"), ("dead_reason", "new")]), "00ff");
        assert_eq!(of(&[("dead_fingerprint", "0 0"), ("dead_reason", "new")]), "-");
    }
}
