//! Campaigns that replay dead letters.

use std::time::Duration;

use streamfleet::Queue;
use streamfleet_engine::admin::{Action, Campaign, CampaignRules, CampaignState, Filter};

use crate::redis_server::RedisServer;
use crate::wait::until_async;

const DEAD: &str = "sf:{default}:dead";
const ENDED: Duration = Duration::from_secs(60);

/// What a person does to letters.
pub fn ann() -> Action {
    Action::new("dead replay", "ann").why("a test")
}

/// Begins a campaign about all letters.
pub async fn begin(queue: &Queue, rules: CampaignRules) -> String {
    let selection = queue.dead_letters().select(Filter::new()).await.unwrap();
    queue.campaigns().start(&selection, rules, &ann()).await.unwrap().value
}

/// Waits until the campaign is in this state.
pub async fn until_campaign(queue: &Queue, id: &str, state: CampaignState) -> Campaign {
    until_async(&format!("the campaign to be {}", state.as_str()), ENDED, async || {
        queue.campaigns().get(id).await.unwrap().filter(|campaign| campaign.state == state)
    })
    .await
}

/// Writes letters by hand, as an older version did.
pub fn write(server: &RedisServer, count: usize, job_type: &str) {
    let mut all = redis::pipe();
    for nth in 0..count {
        let id = format!("{job_type}-{nth}");
        let fields = [
            "type",
            job_type,
            "id",
            &id,
            "dead_reason",
            "fatal",
            "dead_error",
            "no",
            "dead_fingerprint",
            "00ff",
        ];
        all.cmd("XADD").arg(DEAD).arg("*").arg(&fields[..]).ignore();
    }
    all.exec(&mut server.client()).unwrap();
}
