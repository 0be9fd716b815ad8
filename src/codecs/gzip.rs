//! Compression: one member of gzip (RFC 1952).

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;

use super::CodecError;

/// Compresses bytes.
pub(super) fn deflated(plain: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    let written = out.write_all(plain).and_then(|()| out.finish());
    written.map_err(|error| CodecError(format!("the payload cannot be compressed: {error}")))
}

/// Decompresses one member, and never more than this many bytes.
pub(super) fn inflated(bytes: &[u8], most: usize) -> Result<Vec<u8>, CodecError> {
    let (mut rest, mut plain) = (bytes, Vec::new());
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    GzDecoder::new(&mut rest).take(limit).read_to_end(&mut plain).map_err(|error| {
        let is_cut = error.kind() == std::io::ErrorKind::UnexpectedEof;
        let other = || format!("the compressed payload is not gzip: {error}");
        CodecError(if is_cut { "the compressed payload is cut off".to_owned() } else { other() })
    })?;
    if plain.len() > most {
        return Err(CodecError(format!("the decompressed payload has more than {most} bytes")));
    }
    if !rest.is_empty() {
        return Err(CodecError("bytes follow the compressed payload".to_owned()));
    }
    Ok(plain)
}
