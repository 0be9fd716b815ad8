//! The arguments that say which jobs of the history are meant.

use streamfleet::job::JobId;
use streamfleet_operations::history::Wanted;
use streamfleet_sql::history::Ending;

use super::stats::instant;
use crate::Context;
use crate::times::{self, Bound};

/// Which jobs. All conditions must hold.
#[derive(clap::Args)]
pub(super) struct WantedArgs {
    /// Only jobs that ended so: done, dead or cancelled; may be repeated.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = state)]
    state: Vec<Ending>,
    /// Only jobs of this type; may be repeated.
    #[arg(long = "type", short = 't', value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Only jobs with this id.
    #[arg(long)]
    id: Option<JobId>,
    /// Only jobs with this value in a field that `history.keys` names.
    #[arg(long, value_name = "FIELD=VALUE", value_parser = key)]
    key: Option<(String, String)>,
    /// Only dead letters of this group.
    #[arg(long, value_name = "FINGERPRINT")]
    group: Option<String>,
    /// Only jobs whose last attempt ran on this version.
    #[arg(long, value_name = "VERSION")]
    worker_version: Option<String>,
    /// Only jobs that ended since this time, or so long ago, such as 7d.
    #[arg(long, value_name = "TIME", value_parser = times::bound)]
    since: Option<Bound>,
    /// Only jobs that ended before this time, or more than so long ago.
    #[arg(long, value_name = "TIME", value_parser = times::bound)]
    until: Option<Bound>,
}

impl WantedArgs {
    /// Converts the arguments.
    pub(super) fn wanted(&self, context: &Context) -> Wanted {
        Wanted {
            states: self.state.clone(),
            types: self.types.clone(),
            id: self.id.clone(),
            fingerprint: self.group.clone(),
            version: self.worker_version.clone(),
            since: self.since.map(|bound| instant(bound, context)),
            until: self.until.map(|bound| instant(bound, context)),
            key: self.key.clone(),
        }
    }
}

fn state(text: &str) -> Result<Ending, String> {
    Ending::named(text).ok_or_else(|| "must be done, dead or cancelled".to_owned())
}

fn key(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be a field and its value, such as customer=9")?;
    Ok((name.to_owned(), value.to_owned()))
}
