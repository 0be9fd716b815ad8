//! How queues are spread over a cluster, as documented in docs/scale.md.

use streamfleet::job::{Lane, Namespace, QueueName};
use streamfleet_engine::admin::stream_name;

use harness::alone::alone;
use harness::redis_server::RedisServer;

const SLOTS: usize = 16_384;

/// How queues are named: in words, and the name of each.
type Named = (&'static str, fn(usize) -> String);

const ONE: Named = ("`mail`", |_| "mail".to_owned());
const COUNTED: Named = ("`mail-0` to `mail-15`", |nth| format!("mail-{nth}"));
const DOUBLED: Named = ("`mail-00`, `mail-11` to `mail-ff`", |nth| format!("mail-{nth:x}{nth:x}"));
const MANY: Named = ("`mail-0` to `mail-255`", |nth| format!("mail-{nth}"));

fn slot(connection: &mut redis::Connection, queue: &str) -> usize {
    let (namespace, queue): (Namespace, QueueName) = ("sf".parse().unwrap(), queue.parse().unwrap());
    let slots = Lane::ALL.map(|lane| {
        let key = stream_name(&namespace, &queue, lane);
        redis::cmd("CLUSTER").arg(&["KEYSLOT", &key]).query::<usize>(connection).unwrap()
    });
    assert!(slots.iter().all(|slot| *slot == slots[0]), "{queue} is in several slots");
    slots[0]
}

/// Returns one row: how the queues are spread over this many servers that share the slots evenly.
fn row(connection: &mut redis::Connection, queues: usize, (names, name): Named, servers: usize) -> String {
    let mut on = vec![0_usize; servers];
    for nth in 0..queues {
        on[slot(connection, &name(nth)) * servers / SLOTS] += 1;
    }
    let (least, most) = (on.iter().min().unwrap(), on.iter().max().unwrap());
    let range = if least == most { most.to_string() } else { format!("{least} to {most}") };
    let without = on.iter().filter(|on| **on == 0).count();
    let times = queues as f64 / *most as f64;
    format!("| {queues} | {names} | {servers} | {range} | {without} | {times:.1} |")
}

#[test]
fn queues_are_spread_over_the_servers_of_a_cluster_as_documented() {
    let _alone = alone();
    let server = RedisServer::builder().args(&["--cluster-enabled", "yes"]).start();
    let document = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scale.md")).unwrap();
    let mut connection = server.client();
    let cases: [(usize, Named, &[usize]); 4] = [
        (1, ONE, &[1, 3, 16]),
        (16, COUNTED, &[1, 3, 16]),
        (16, DOUBLED, &[3, 16]),
        (256, MANY, &[1, 3, 16]),
    ];
    for (queues, named, sizes) in cases {
        for servers in sizes {
            let row = row(&mut connection, queues, named, *servers);
            println!("{row}");
            assert!(document.lines().any(|line| line == row), "docs/scale.md should say:\n{row}");
        }
    }
}
