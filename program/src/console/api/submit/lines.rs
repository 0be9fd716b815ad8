//! Lines of a body that arrives piece by piece. No more than one line, and one piece, is kept.

use axum::body::{Body, BodyDataStream};
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::StreamExt as _;

use crate::console::api::json_body;

/// The most bytes of a body.
const MAX_BYTES: u64 = 64 << 20;

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Its text, without what ends it.
    Text(Bytes),
    /// It is longer than a job can be. Its bytes are skipped.
    TooLong,
}

/// Why there are no more lines.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The body is too large.
    #[error("the body has more than {MAX_BYTES} bytes: send the rest in another request")]
    TooLarge,
    /// The client is gone, or is too slow.
    #[error("the body broke off: {0}")]
    Read(axum::Error),
}

/// The lines of a body.
pub(super) struct Lines {
    body: BodyDataStream,
    /// What has arrived and is not taken yet.
    pending: BytesMut,
    /// How many bytes of it have no line break, as far as is known.
    looked: usize,
    read: u64,
    is_skipping: bool,
    has_ended: bool,
}

impl Lines {
    pub(super) fn of(body: Body) -> Self {
        Self {
            body: body.into_data_stream(),
            pending: BytesMut::new(),
            looked: 0,
            read: 0,
            is_skipping: false,
            has_ended: false,
        }
    }

    /// Returns the next line if it has arrived.
    pub(super) fn ready(&mut self) -> Option<Line> {
        loop {
            let end = self.pending[self.looked..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| end + self.looked) else {
                self.looked = self.pending.len();
                break;
            };
            let line = self.pending.split_to(end).freeze();
            self.pending.advance(1);
            self.looked = 0;
            if !std::mem::take(&mut self.is_skipping) {
                return Some(Line::Text(line));
            }
        }
        if self.is_skipping {
            self.pending.clear();
            self.looked = 0;
        } else if self.pending.len() > json_body::MAX_BYTES {
            self.is_skipping = true;
            self.pending.clear();
            self.looked = 0;
            return Some(Line::TooLong);
        }
        None
    }

    /// Waits until more has arrived. Returns the last line if nothing follows it, or nothing at the end.
    ///
    /// # Errors
    ///
    /// [`Broken`].
    pub(super) async fn more(&mut self) -> Result<More, Broken> {
        if self.has_ended {
            return Ok(More::End);
        }
        match self.body.next().await {
            Some(Ok(piece)) => {
                self.read = self.read.saturating_add(piece.len() as u64);
                if self.read > MAX_BYTES {
                    return Err(Broken::TooLarge);
                }
                self.pending.extend_from_slice(&piece);
                Ok(More::Some)
            }
            Some(Err(error)) => Err(Broken::Read(error)),
            None => {
                self.has_ended = true;
                self.looked = 0;
                let last = std::mem::take(&mut self.pending).freeze();
                Ok(if last.is_empty() || self.is_skipping { More::End } else { More::Last(last) })
            }
        }
    }
}

/// What has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum More {
    /// Something: there may be lines.
    Some,
    /// The last line, which nothing ends.
    Last(Bytes),
    /// Nothing follows.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(pieces: Vec<Vec<u8>>) -> Vec<Option<Vec<u8>>> {
        let pieces = pieces.into_iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
        let mut lines = Lines::of(Body::from_stream(futures_util::stream::iter(pieces)));
        let mut all = Vec::new();
        let text = |line| match line {
            Line::Text(text) => Some(text.to_vec()),
            Line::TooLong => None,
        };
        loop {
            while let Some(line) = lines.ready() {
                all.push(text(line));
            }
            match lines.more().await.unwrap() {
                More::Some => {}
                More::Last(last) => all.push(Some(last.to_vec())),
                More::End => return all,
            }
        }
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_how_they_arrive() {
        let text = b"one\ntwo\n\nthree";
        let want: Vec<_> = ["one", "two", "", "three"].map(|line| Some(line.as_bytes().to_vec())).into();
        for size in 1..=text.len() {
            assert_eq!(all(text.chunks(size).map(<[u8]>::to_vec).collect()).await, want, "{size}");
        }
        assert!(all(Vec::new()).await.is_empty());
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
        let long = vec![b'x'; json_body::MAX_BYTES / 2 + 1];
        let pieces = vec![b"one\n".to_vec(), long.clone(), long.clone(), long, b"x\ntwo\n".to_vec()];
        assert_eq!(all(pieces).await, [Some(b"one".to_vec()), None, Some(b"two".to_vec())]);
    }

    #[tokio::test]
    async fn a_body_has_a_bounded_size() {
        let piece = Bytes::from(vec![b'\n'; 1 << 20]);
        let pieces = (0..65).map(move |_| Ok::<_, std::io::Error>(piece.clone()));
        let mut lines = Lines::of(Body::from_stream(futures_util::stream::iter(pieces)));
        let ended = loop {
            while lines.ready().is_some() {}
            match lines.more().await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(ended, Broken::TooLarge), "{ended}");
    }
}
