//! The memory that a login can make the server use, although it may write nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use redis::Value;

use super::logins::Site;
use harness::scene::SOON;

#[test]
fn half_a_command_does_not_keep_the_memory_of_jobs() {
    let site = Site::new();
    site.server.cmd(&["CONFIG", "SET", "maxmemory", "64mb"]);
    let mut sender = TcpStream::connect(site.server.addr()).unwrap();
    sender.set_read_timeout(Some(SOON)).unwrap();
    write!(sender, "AUTH monitor {}\r\n", site.password("monitor")).unwrap();
    let mut answer = [0; 5];
    sender.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
    // Redis would make room for what is announced.
    sender.write_all(b"*2\r\n$4\r\nXLEN\r\n$60000000\r\n").unwrap();
    let mut refusal = Vec::new();
    if let Err(error) = sender.read_to_end(&mut refusal) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "Redis waits: {error}");
    }
    let refusal = String::from_utf8_lossy(&refusal);
    assert!(refusal.starts_with("-ERR Protocol error"), "{refusal}");
    let submitted: Value = redis::cmd("XADD")
        .arg(&["sf:{default}:jobs", "*", "type", "a"])
        .query(&mut site.connect("producer"))
        .unwrap();
    assert!(matches!(submitted, Value::BulkString(_)), "{submitted:?}");
}
