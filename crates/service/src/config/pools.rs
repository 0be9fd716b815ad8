//! The pools of the configuration: those with a name, and those of single types and steps.

use std::collections::BTreeMap;

use futures_util::future::join_all;

use super::Effective;
use super::problem::{Problem, with_cause};
use super::sections::{Config, TypeSection};
use crate::job::{JobType, PoolName};
use streamfleet::handlers::{self, Pool, PoolChoice, PoolConfig};

/// A handler of the configuration, and where it is.
pub(super) struct PlacedHandler<'a> {
    pub(super) config: &'a handlers::Config,
    /// The keys down to `handler`.
    pub(super) path: Vec<String>,
    pub(super) job_type: &'a JobType,
    pub(super) section: &'a TypeSection,
    /// The name that a pool of its own has.
    own_name: String,
}

/// The pools of a configuration, each with the path of its settings.
#[derive(Default)]
pub(super) struct Pools {
    by_name: BTreeMap<PoolName, (Vec<String>, Pool)>,
}

impl Config {
    /// Returns the handlers of all types and steps.
    pub(super) fn placed_handlers(&self) -> impl Iterator<Item = PlacedHandler<'_>> {
        self.types.iter().flat_map(|(job_type, section)| {
            section.handlers().map(move |(step, config)| {
                let mut path = vec!["types".to_owned(), job_type.to_string()];
                path.extend(step.into_iter().flat_map(|step| ["steps".to_owned(), step.to_string()]));
                path.push("handler".to_owned());
                let of_step = step.map(|step| format!(".{step}")).unwrap_or_default();
                PlacedHandler { config, path, job_type, section, own_name: format!("{job_type}{of_step}") }
            })
        })
    }

    /// Returns the settings of the pools that a worker runs.
    pub fn pools_in_use(&self) -> Vec<&PoolConfig> {
        let in_use = self.pool_names();
        let named = self.pools.iter().filter(|(name, _)| in_use.contains(name)).map(|(_, pool)| pool);
        let own = self.placed_handlers().filter_map(|handler| handler.pool()?.1);
        named.chain(own).collect()
    }

    /// Returns the names of the pools that a worker runs.
    pub fn pool_names(&self) -> Vec<PoolName> {
        let names = self.placed_handlers().filter_map(|handler| Some(handler.pool()?.0));
        let mut names: Vec<PoolName> = names.collect();
        names.sort();
        names.dedup();
        names
    }
}

impl<'a> PlacedHandler<'a> {
    /// Returns the name of its pool, and the settings if it is a pool of its own.
    pub(super) fn pool(&self) -> Option<(PoolName, Option<&'a PoolConfig>)> {
        let handlers::Config::Pool(choice) = self.config else { return None };
        Some(match choice {
            PoolChoice::Named(name) => (name.clone(), None),
            PoolChoice::Own(config) => {
                let name = self.own_name.parse().expect("a type and a step form the name of a pool");
                (name, Some(&**config))
            }
        })
    }
}

impl Pools {
    /// Creates the pools that the types and steps of the configuration need, and reports those that cannot be created.
    pub(super) fn of(effective: &Effective) -> (Self, Vec<Problem>) {
        let (mut pools, mut problems) = (Self::default(), Vec::new());
        for handler in effective.config.placed_handlers() {
            let Some((name, own)) = handler.pool() else { continue };
            let path = match own {
                Some(_) => [handler.path.as_slice(), &["pool".to_owned()]].concat(),
                None => vec!["pools".to_owned(), name.to_string()],
            };
            // Checking the configuration reports names without a pool.
            let Some(config) = own.or_else(|| effective.config.pools.get(&name)) else { continue };
            let known = pools.by_name.get(&name).map(|(_, pool)| pool.clone());
            let pool = match known.map_or_else(|| Pool::new(name.clone(), config.clone()), Ok) {
                Ok(pool) => pool,
                Err(error) => {
                    problems.push(Problem::at(&path, with_cause(&error), &effective.tree));
                    continue;
                }
            };
            // The programs have to serve the type; the handler itself is made when the fleet is.
            drop(pool.serving(handler.job_type, &handler.section.policy));
            pools.by_name.insert(name, (path, pool));
        }
        (pools, problems)
    }

    /// Returns the pool that a type chose, or one of its steps.
    pub(super) fn get(
        &self,
        choice: &PoolChoice,
        job_type: &JobType,
        step: Option<&str>,
    ) -> Result<&Pool, String> {
        let own_name = match step {
            Some(step) => format!("{job_type}.{step}"),
            None => job_type.to_string(),
        };
        let name = match choice {
            PoolChoice::Named(name) => name.as_str(),
            PoolChoice::Own(_) => &own_name,
        };
        let found = self.by_name.get(name).map(|(_, pool)| pool);
        found.ok_or_else(|| format!("the pool {name} cannot be used"))
    }
}

impl Effective {
    /// Starts a program of each pool, exchanges greetings with it and ends it. Returns a problem for each that does not work,
    /// or does not serve a type of its pool, and then remarks about settings that the programs leave unused.
    pub async fn failing_pools(&self) -> (Vec<Problem>, Vec<Problem>) {
        let (pools, mut problems) = Pools::of(self);
        let started =
            pools.by_name.values().map(|(path, pool)| async move { (path, pool.try_start().await) });
        let mut remarks = Vec::new();
        for (path, tried) in join_all(started).await {
            let (list, texts) = match tried {
                Ok(unused) => (&mut remarks, unused),
                Err(why) => (&mut problems, vec![why]),
            };
            list.extend(texts.into_iter().map(|text| Problem::at(path, text, &self.tree)));
        }
        (problems, remarks)
    }

    /// Starts a program of each pool, also of those that no type has yet, and has it say what the types of its handlers need: one line of
    /// JSON. By the names of the pools, in their order.
    pub async fn described_pools(&self) -> (Vec<(String, Result<Vec<u8>, String>)>, Vec<Problem>) {
        let (Pools { mut by_name }, mut problems) = Pools::of(self);
        for (name, config) in &self.config.pools {
            if by_name.contains_key(name) {
                continue;
            }
            let path = vec!["pools".to_owned(), name.to_string()];
            match Pool::new(name.clone(), config.clone()) {
                Ok(pool) => drop(by_name.insert(name.clone(), (path, pool))),
                Err(error) => problems.push(Problem::at(&path, with_cause(&error), &self.tree)),
            }
        }
        let asked =
            by_name.iter().map(|(name, (_, pool))| async move { (name.to_string(), pool.describe().await) });
        (join_all(asked).await, problems)
    }
}
