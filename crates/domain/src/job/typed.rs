//! A payload that belongs to one type of jobs, so that producers and handlers cannot disagree about it.

use super::{Encoding, JobType};

/// A payload that belongs to one type of jobs.
///
/// `Producer::enqueue` submits it, and `Builder::handler` registers the handler whose `Payload` it is.
///
/// ```
/// # use streamfleet_domain::job as streamfleet;
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Mail {
///     to: String,
/// }
///
/// impl streamfleet::Job for Mail {
///     const TYPE: &str = "mail.send";
/// }
/// ```
pub trait Job {
    /// The type, which matches `[a-z0-9][a-z0-9._-]{0,127}`. Code that uses another one does not compile.
    const TYPE: &str;

    /// How producers encode the payload. JSON by default, because every language reads it. A handler accepts JSON and
    /// MessagePack. With [`Encoding::Raw`], code that submits the job does not compile.
    const ENCODING: Encoding = Encoding::Json;
}

/// Returns the type of a job. An invalid one is an error of the compiler.
pub fn type_of<J: Job>() -> JobType {
    const { assert!(JobType::is_valid(J::TYPE), "a job's TYPE must match [a-z0-9][a-z0-9._-]{{0,127}}") };
    J::TYPE.parse().expect("the compiler has checked it")
}
