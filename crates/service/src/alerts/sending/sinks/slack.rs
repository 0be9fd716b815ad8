//! Incoming webhooks of Slack. Messages are made of plain text; only the link to the console is markup, and it has nothing in it
//! that a job could have written.

use serde_json::json;

use super::{Answer, Message, Request, said};
use crate::job::incident::line::plain_line;

/// The most bytes of a heading. The service takes 150 characters.
const HEADING_BYTES: usize = 150;

/// The most bytes of the text. The service takes 3000 characters.
const TEXT_BYTES: usize = 2900;

pub(super) fn request(message: &Message) -> Request {
    let heading = plain_line(&message.title, HEADING_BYTES);
    let rest = Message { link: None, job_link: None, title: String::new(), ..message.clone() };
    let text = rest.text(TEXT_BYTES).trim_start().to_owned();
    let mut blocks = vec![
        json!({ "type": "header", "text": { "type": "plain_text", "text": heading, "emoji": false } }),
        json!({ "type": "section", "text": { "type": "plain_text", "text": text, "emoji": false } }),
    ];
    let links = [(&message.job_link, message.job_link_name()), (&message.link, message.language.console())];
    for (link, name) in links {
        let text = |link: &String| format!("<{}|{name}>", escaped(link));
        let section = |link| json!({ "type": "section", "text": { "type": "mrkdwn", "text": text(link) } });
        blocks.extend(link.iter().map(section));
    }
    // Shown in notifications, where it is markup.
    Request::json(&json!({ "text": escaped(&heading), "blocks": blocks, "unfurl_links": false }))
}

/// Escapes the three characters that the service documents.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

pub(super) fn judge(body: &[u8]) -> Answer {
    match said(body) {
        text if text == "ok" => Answer::Accepted { said: text },
        text => Answer::Refused { why: format!("answered: {text}") },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::alerts::sending::message::tests::{incident, now, sender};

    #[test]
    fn nothing_that_a_job_wrote_is_markup() {
        let message = sender().message(&[incident(1, "<!channel> <https://evil|x>")], now());
        let body: Value = serde_json::from_slice(&request(&message).body).unwrap();
        let blocks = body["blocks"].as_array().unwrap();
        assert_eq!((blocks.len(), &blocks[1]["text"]["type"]), (4, &json!("plain_text")));
        let links = [
            "<https://jobs.example.com/queues/mail/jobs/order-7|Open the job, to replay it>",
            "<https://jobs.example.com/incidents/00000001|Open the console>",
        ];
        assert_eq!([&blocks[2], &blocks[3]].map(|block| &block["text"]["text"]), links);
        assert!(!body["text"].as_str().unwrap().contains('<'));
    }

    #[test]
    fn only_ok_is_success() {
        assert!(matches!(judge(b"ok"), Answer::Accepted { .. }));
        assert!(matches!(judge(b"invalid_payload"), Answer::Refused { .. }));
    }
}
