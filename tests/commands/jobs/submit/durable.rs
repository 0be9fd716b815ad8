//! What `enqueue` says about jobs that are not confirmed to be durable.

use harness::process::{Launch, run};
use harness::redis_server::RedisServer;
use harness::scene::{SOON, STREAM};

#[test]
fn exit_codes_distinguish_refused_from_unconfirmed() {
    let server = RedisServer::start();
    let url = server.url();
    let enqueue = |durability: &str| {
        let args = ["--redis", &url, "enqueue", "a", "--durability", durability, "--confirm-within", "2s"];
        Launch::new(&args).output(SOON)
    };
    let output = enqueue("aof");
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("nothing was submitted"), "{output:?}");
    assert_eq!(enqueue("disk").code, Some(2));
    let length = || server.cmd(&["XLEN", STREAM]);
    assert_eq!(length(), redis::Value::Int(0));
    let output = enqueue("replicas:1");
    assert_eq!(output.code, Some(8), "{output:?}");
    assert!(
        output.stderr.contains("is accepted, but not confirmed to be durable: after 2s, 0 of 1 replicas"),
        "{output:?}"
    );
    assert_eq!(length(), redis::Value::Int(1));
    let durable = ["--redis", &url, "enqueue", "--durability", "replicas:1", "--confirm-within", "1s"];
    let output = Launch::new(&[&durable[..], &["a", "--wait"]].concat()).output(SOON);
    assert_eq!(output.code, Some(8), "{output:?}");
    let accepted = output.stderr.contains("is accepted") && !output.stderr.contains("not submitted");
    assert!(accepted, "{output:?}");
    let line = r#"{"type": "a", "durability": "replicas:1"}"#;
    let output = run(&["--redis", &url, "enqueue", "--bulk", "--confirm-within", "1s"], line.as_bytes());
    assert_eq!(output.code, Some(8), "{output:?}");
    let accepted = "1 job was accepted, all up to line 1: the job";
    assert!(output.stderr.contains(accepted), "{output:?}");
    let _replica = server.replica();
    let output = enqueue("replicas:1");
    assert_eq!(output.code, Some(0), "{output:?}");
}
