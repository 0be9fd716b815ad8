//! The part of a rehearsal in which a campaign replays a dead letter.

use super::super::{Action, Advance, CampaignError};
use super::{Error, Rehearsal, burial, expect_same};
use crate::job::Settlement;
use crate::job::campaign::{CampaignRules, CampaignState};
use crate::job::filter::Filter;

impl Rehearsal<'_> {
    /// Buries a job, and lets a campaign replay it. It succeeds, and so the campaign is done.
    pub(super) async fn campaign(&self) -> Result<(), Error> {
        self.enqueue().await?;
        let (envelope, job) = self.read().await?;
        self.apply(&envelope, &job, &burial()).await?;
        let selection = self.queue.dead_letters().select(Filter::new()).await?;
        let by = Action::new("rehearsal", "the rehearsal");
        let campaigns = self.queue.campaigns();
        let id = campaigns.start(&selection, CampaignRules::default(), &by).await.map_err(|error| {
            let CampaignError::Redis(error) = error else {
                return Error::contract("campaign_put", error.to_string());
            };
            error
        })?;
        let id = id.value;
        self.note_key(self.queue.keys.campaign(&id));
        expect_same("campaign_replay", campaigns.advance(&id).await?.0, Advance::Again)?;
        let (envelope, job) = self.read().await?;
        self.apply(&envelope, &job, &Settlement::Ack).await?;
        expect_same("campaign_set", campaigns.advance(&id).await?.0, Advance::Again)?;
        let found = campaigns.get(&id).await?.map(|campaign| (campaign.state, campaign.counts.succeeded));
        expect_same("campaign_read", found, Some((CampaignState::Done, 1)))?;
        campaigns.ids().await.map(drop)
    }
}
