//! The fields of a job, which a replay needs, and in which state they are kept.

use streamfleet_domain::job::{Envelope, pack_texts, unpack_texts};

/// The most bytes that the fields of a job may have to be stored: 9 MiB, which every field that the producers accept fits
/// into, and which fits twice into a packet of MariaDB.
const MAX_BYTES: usize = 9 << 20;

/// What the history has of the fields of a job, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadState {
    /// Nothing: the rules of the queue say so.
    None,
    /// All fields.
    Stored,
    /// The fields, in which secrets were masked.
    Masked,
    /// Nothing: the fields were too large.
    TooLarge,
}

streamfleet_domain::variants! {
    /// Returns the text of the column `payload_state`.
    PayloadState: Display {
        None = "none",
        Stored = "stored",
        Masked = "masked",
        TooLarge = "too_large",
    }
}

/// What the history has of the fields of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Body {
    /// Nothing: the rules of the queue say so.
    #[default]
    None,
    /// All fields: the job can be replayed. If they have more than 9 MiB, they are kept as [`Body::TooLarge`].
    Stored(Envelope),
    /// The fields, in which secrets were masked. The job cannot be replayed. The bound is that of [`Body::Stored`].
    Masked(Envelope),
    /// Nothing: the fields were too large.
    TooLarge,
}

impl Body {
    /// Returns which of these it is, once it is written.
    pub fn state(&self) -> PayloadState {
        match self {
            Self::None => PayloadState::None,
            Self::Stored(fields) if fits(fields) => PayloadState::Stored,
            Self::Masked(fields) if fits(fields) => PayloadState::Masked,
            Self::Stored(_) | Self::Masked(_) | Self::TooLarge => PayloadState::TooLarge,
        }
    }

    /// Returns the fields that are written, if there are any.
    pub(super) fn fields(&self) -> Option<&Envelope> {
        match self {
            Self::Stored(fields) | Self::Masked(fields) => Some(fields).filter(|fields| fits(fields)),
            Self::None | Self::TooLarge => None,
        }
    }

    /// Puts together what the columns `payload_state` and `fields` say. Fields that cannot be read count as none.
    pub(super) fn read(state: PayloadState, packed: Option<&[u8]>) -> Self {
        match (state, packed.and_then(unpack)) {
            (PayloadState::Stored, Some(fields)) => Self::Stored(fields),
            (PayloadState::Masked, Some(fields)) => Self::Masked(fields),
            (PayloadState::TooLarge, _) => Self::TooLarge,
            (PayloadState::None | PayloadState::Stored | PayloadState::Masked, _) => Self::None,
        }
    }
}

fn fits(fields: &Envelope) -> bool {
    fields.size() <= MAX_BYTES && fields.len() <= Envelope::MAX_FIELDS + Envelope::FLEET_FIELDS
}

/// Packs fields as a MessagePack array of names and values.
pub(super) fn pack(fields: &Envelope) -> Vec<u8> {
    pack_texts(fields.fields().flat_map(|(name, value)| [name, value]))
}

fn unpack(packed: &[u8]) -> Option<Envelope> {
    let items = unpack_texts(packed).filter(|items| items.len() % 2 == 0)?;
    Some(Envelope::new(items.chunks_exact(2).map(|pair| (pair[0], pair[1]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(size: usize) -> Envelope {
        let value = vec![b'x'; size];
        Envelope::new([(b"payload".as_slice(), value.as_slice())].into_iter())
    }

    #[test]
    fn fields_come_back_as_they_were() {
        let body = Body::Stored(fields(3));
        let packed = body.fields().map(pack).unwrap();
        assert_eq!(Body::read(body.state(), Some(&packed)), body);
        let masked = Body::Masked(fields(3));
        assert_eq!(Body::read(masked.state(), Some(&packed)), masked);
    }

    #[test]
    fn fields_that_are_too_large_are_not_written() {
        let body = Body::Stored(fields(MAX_BYTES));
        assert_eq!((body.state(), body.fields()), (PayloadState::TooLarge, None));
    }

    #[test]
    fn bytes_that_are_not_fields_count_as_none() {
        assert_eq!(Body::read(PayloadState::Stored, Some(b"junk")), Body::None);
        assert_eq!(Body::read(PayloadState::Stored, None), Body::None);
    }
}
