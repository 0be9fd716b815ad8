//! The payloads that tell handlers what to do.

use serde_json::Value;

/// Returns what a step must do, if the payload names each step that has orders, as in `charge fail 1; mail sleep 9`.
pub fn order_of_step<'a>(orders: &'a str, step: &str) -> &'a str {
    let mut orders = orders.split("; ").filter_map(|order| order.split_once(' '));
    orders.find(|(name, _)| *name == step).map_or("ok", |(_, order)| order)
}

/// Returns `<id>~<state>` if this is the payload of a follow-up: the id of the job that it follows, and how that job ended.
pub fn followed(payload: &str) -> Option<String> {
    let facts: Value = serde_json::from_str(payload).ok()?;
    Some(format!("{}~{}", facts["id"].as_str()?, facts["state"].as_str()?))
}
