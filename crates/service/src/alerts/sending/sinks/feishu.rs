//! Bots of Feishu and Lark groups. The signature stands in the body; errors come with the status 200. Messages are made of text
//! elements, in which nothing is markup or mentions anybody.

use secrecy::SecretString;
use serde_json::{Value, json};

use super::{Answer, Message, Request, by_code, exposed, hmac_base64};

/// What the service answers if it gets more than 5 messages a second or 100 a minute.
const TOO_FAST: [i64; 2] = [11_232, 11_233];

pub(super) fn request(message: &Message, secret: Option<&SecretString>, now_s: i64) -> Request {
    let text = |line: &String| json!([{ "tag": "text", "text": line }]);
    let mut content: Vec<Value> = message.lines.iter().map(text).collect();
    let named = |name: &str, link: &String| json!([{ "tag": "a", "text": name, "href": link }]);
    content.extend(message.job_link.iter().map(|link| named(message.job_link_name(), link)));
    content.extend(message.link.iter().map(|link| named(link, link)));
    let post = json!({ "title": message.title, "content": content });
    let mut body = json!({ "msg_type": "post", "content": { "post": { "zh_cn": post } } });
    if let Some(secret) = secret {
        body["timestamp"] = now_s.to_string().into();
        body["sign"] = sign(exposed(secret), now_s).into();
    }
    Request::json(&body)
}

/// Here, what is signed is nothing, and the key is the time and the secret.
fn sign(secret: &str, now_s: i64) -> String {
    hmac_base64(format!("{now_s}\n{secret}").as_bytes(), b"")
}

pub(super) fn judge(body: &[u8]) -> Answer {
    by_code(body, &["code", "StatusCode"], &["msg", "StatusMessage"], &TOO_FAST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::sending::message::tests::{incident, now, sender};

    #[test]
    fn the_signature_is_the_documented_one() {
        assert_eq!(sign("demo", 1_599_360_473), "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=");
    }

    #[test]
    fn an_error_of_a_job_stays_text() {
        let message = sender().message(&[incident(1, "<at user_id=\"all\"></at>")], now());
        let body: Value = serde_json::from_slice(&request(&message, Some(&"s".into()), 7).body).unwrap();
        assert_eq!(body["timestamp"], "7");
        let content = body["content"]["post"]["zh_cn"]["content"].as_array().unwrap();
        let tags: Vec<_> = content.iter().map(|line| line[0]["tag"].as_str().unwrap()).collect();
        let (texts, links) = tags.split_at(tags.len() - 2);
        assert!(texts.iter().all(|tag| *tag == "text"), "{tags:?}");
        assert_eq!(links, ["a", "a"]);
    }

    #[test]
    fn both_forms_of_success_are_known() {
        for body in [&br#"{"code":0,"msg":"success"}"#[..], br#"{"StatusCode":0,"StatusMessage":"success"}"#]
        {
            assert_eq!(judge(body), Answer::Accepted { said: "success".to_owned() });
        }
        assert!(matches!(judge(br#"{"code":19021,"msg":"sign match fail"}"#), Answer::Refused { .. }));
        assert!(matches!(judge(br#"{"code":11232,"msg":"frequency limited"}"#), Answer::Later { .. }));
    }
}
