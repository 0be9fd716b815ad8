//! Pools of programs that cannot start, as the workers report them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::inspect::server::WorkerInfo;
use crate::job::JobType;

/// The fact in which a worker reports its pools that cannot start.
const FACT: &str = "pools_down";

/// The most pools that a worker reports, …
const MAX_POOLS: usize = 10;

/// … the most types of each, …
const MAX_TYPES: usize = 100;

/// … and the most characters of what each says: of its beginning, …
const WHY_BEGINNING: usize = 200;

/// … and of its end, which says most.
const WHY_END: usize = 1300;

/// The longest report that is read.
const MAX_BYTES: usize = 256 * 1024;

/// A pool none of whose programs serves, because they cannot start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolDown {
    /// The worker; empty in what a worker reports about itself.
    #[serde(default)]
    pub worker: String,
    /// The name of the pool.
    pub pool: String,
    /// The types that its programs have to serve; of many, the first hundred.
    pub types: Vec<String>,
    /// Why the last program did not start, with the last lines that it wrote.
    pub why: String,
}

impl PoolDown {
    /// Returns the fact that reports these pools, which is empty if there are none.
    #[doc(hidden)]
    pub fn fact(pools: impl Iterator<Item = Self>) -> (&'static str, String) {
        let pools: Vec<_> = pools.take(MAX_POOLS).map(Self::bounded).collect();
        let json = if pools.is_empty() { None } else { serde_json::to_string(&pools).ok() };
        (FACT, json.unwrap_or_default())
    }

    fn bounded(mut self) -> Self {
        self.types.truncate(MAX_TYPES);
        let count = self.why.chars().count();
        if count > WHY_BEGINNING + WHY_END {
            let beginning: String = self.why.chars().take(WHY_BEGINNING).collect();
            self.why = self.why.chars().skip(count - WHY_END).collect();
            self.why.insert_str(0, &format!("{beginning} … "));
        }
        self
    }
}

impl WorkerInfo {
    /// Returns the pools of the worker that cannot start.
    pub fn pools_down(&self) -> Vec<PoolDown> {
        let mut pools = read(self.facts.get(FACT).map_or("", String::as_str));
        pools.iter_mut().for_each(|pool| pool.worker.clone_from(&self.consumer));
        pools
    }
}

/// Reads pools that were written as JSON; nothing if there are none, or if somebody else has written it.
pub(super) fn read(reply: &str) -> Vec<PoolDown> {
    let reply = Some(reply).filter(|reply| reply.len() <= MAX_BYTES);
    reply.and_then(|reply| serde_json::from_str(reply).ok()).unwrap_or_default()
}

/// Returns the pools that keep all jobs of their types from running: of the workers that know such a type, none can run it. Each
/// has only these types, and each type is named once, however many workers have the pool.
pub(super) fn blocking(workers: &[WorkerInfo]) -> Vec<PoolDown> {
    let down: Vec<_> = workers.iter().map(|worker| (worker, worker.pools_down())).collect();
    let is_down =
        |pools: &[PoolDown], name: &str| pools.iter().any(|pool| pool.types.iter().any(|own| own == name));
    let runs_nowhere = |name: &str| {
        let Ok(job_type) = name.parse::<JobType>() else { return false };
        down.iter().all(|(worker, pools)| is_down(pools, name) || !worker.knows(&job_type))
    };
    let mut pools: Vec<_> = down.iter().flat_map(|(_, pools)| pools.clone()).collect();
    let mut judged = BTreeSet::new();
    for pool in &mut pools {
        pool.types.retain(|name| judged.insert(name.clone()) && runs_nowhere(name));
    }
    pools.retain(|pool| !pool.types.is_empty());
    pools.truncate(MAX_POOLS);
    pools
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn down(pool: &str, types: usize, why: &str) -> PoolDown {
        let types = (0..types).map(|nth| format!("t{nth}")).collect();
        PoolDown { worker: String::new(), pool: pool.to_owned(), types, why: why.to_owned() }
    }

    fn worker(fact: String) -> WorkerInfo {
        WorkerInfo { consumer: "w".to_owned(), facts: BTreeMap::from([(FACT.to_owned(), fact)]) }
    }

    #[test]
    fn what_a_worker_reports_is_read_again_within_bounds() {
        let (_, fact) = PoolDown::fact([down("php", 1, "no DB_HOST")].into_iter());
        assert_eq!(
            worker(fact).pools_down(),
            [PoolDown { worker: "w".to_owned(), ..down("php", 1, "no DB_HOST") }]
        );
        let many = (0..20).map(|_| down("php", 200, &format!("{}!", "ü".repeat(2000))));
        let (_, fact) = PoolDown::fact(many);
        let read = worker(fact).pools_down();
        assert_eq!((read.len(), read[0].types.len(), read[0].why.chars().count()), (10, 100, 1503));
        assert!(read[0].why.starts_with("ü") && read[0].why.ends_with("ü!"));
    }

    #[test]
    fn without_such_pools_the_fact_is_empty_and_what_others_wrote_says_nothing() {
        assert_eq!(PoolDown::fact([].into_iter()).1, "");
        for fact in ["", "{}", "[1]", "[{\"pool\":1}]"]
            .map(str::to_owned)
            .into_iter()
            .chain([" ".repeat(MAX_BYTES + 1)])
        {
            assert_eq!(worker(fact).pools_down(), []);
        }
    }

    #[test]
    fn a_pool_blocks_the_types_that_no_other_worker_runs() {
        let own = |name: &str, types: &str, pools: Vec<PoolDown>| {
            let (fact, reply) = PoolDown::fact(pools.into_iter());
            let facts = [(fact.to_owned(), reply), ("types".to_owned(), types.to_owned())];
            WorkerInfo { consumer: name.to_owned(), facts: facts.into() }
        };
        let broken = own("a", "t0,t1,t2", vec![down("php", 2, "no DB_HOST")]);
        let names = |workers: &[WorkerInfo]| {
            blocking(workers).into_iter().map(|pool| (pool.worker, pool.types.join(","))).collect::<Vec<_>>()
        };
        let pair = |worker: &str, types: &str| (worker.to_owned(), types.to_owned());
        assert_eq!(names(std::slice::from_ref(&broken)), [pair("a", "t0,t1")]);
        let other = own("b", "t1", Vec::new());
        assert_eq!(names(&[broken.clone(), other]), [pair("a", "t0")]);
        let third = own("c", "t0", vec![down("php", 1, "no DB_HOST")]);
        assert_eq!(names(&[broken, third]), [pair("a", "t0,t1")], "each type once");
        assert_eq!(names(&[own("d", "t0", Vec::new())]), []);
    }
}
