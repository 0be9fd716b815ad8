//! Why a payload cannot be encoded or decoded.

/// Why a payload cannot be encoded or decoded, or keys cannot be read. It never shows a key or a payload. A job is tried again then by
/// the policy of its type, because a key or an object may arrive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CodecError(pub(super) String);
