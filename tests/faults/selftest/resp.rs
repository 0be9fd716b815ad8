//! Tests of `harness::resp`.

use harness::resp::{Frames, arguments, contains, is_push};

const PIPELINE: &[u8] = b"*2\r\n$4\r\nXLEN\r\n$1\r\ns\r\n*1\r\n$4\r\nPING\r\nPING\r\n";

#[test]
fn a_pipeline_fed_byte_by_byte_yields_whole_requests() {
    let mut frames = Frames::default();
    let mut requests = Vec::new();
    for byte in PIPELINE {
        frames.feed(&[*byte]);
        while let Some(frame) = frames.next_frame() {
            requests.push(arguments(frame).concat());
        }
    }
    assert_eq!(requests, [b"XLENs".to_vec(), b"PING".to_vec(), b"PING".to_vec()]);
}

#[test]
fn nested_and_nil_replies_are_one_frame_each() {
    for reply in ["*-1\r\n", "$-1\r\n", "*2\r\n:1\r\n*1\r\n$2\r\nab\r\n", "%1\r\n+k\r\n*0\r\n", "-ERR no\r\n"]
    {
        let mut frames = Frames::default();
        frames.feed(reply.as_bytes());
        frames.feed(b"+OK\r\n");
        assert_eq!(frames.next_frame(), Some(reply.as_bytes()));
        assert_eq!(frames.next_frame(), Some(&b"+OK\r\n"[..]));
        assert_eq!(frames.next_frame(), None);
    }
    assert!(is_push(b">1\r\n+x\r\n") && !is_push(b"*0\r\n"));
    assert!(contains(b"abc", b"") && contains(b"abc", b"bc") && !contains(b"abc", b"bd"));
}
