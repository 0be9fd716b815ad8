//! A page of another site, whose name resolves to this machine.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{SOON, launch, ready};
use harness::redis_server::RedisServer;

/// Returns the first line of the answer to a request with these headers.
fn answer(address: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap().to_owned()
}

#[test]
fn a_name_of_another_site_is_not_served_on_a_loopback_address() {
    let server = RedisServer::start();
    let (_worker, address) = ready(&launch(&server.url()));
    for site in ["Host: evil.example\r\n", "Host: localhost\r\nHost: evil.example\r\n", "Host: \r\n"] {
        assert!(answer(&address, site).starts_with("HTTP/1.1 421"), "{site:?}");
    }
    for own in ["Host: localhost:9464\r\n", "Host: 127.0.0.1\r\n", "Host: [::1]:9464\r\n", ""] {
        assert!(answer(&address, own).starts_with("HTTP/1.1 200"), "{own:?}");
    }
}
