//! Which pool runs the jobs of a type, as the configuration file writes it: a name, or a pool of the type's own.

use serde::Serialize;

use super::PoolConfig;
use crate::job::PoolName;

/// Which pool runs the jobs of a type: `"php"`, which `[pools.php]` describes, or a table with the settings of a pool of the
/// type's own.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PoolChoice {
    /// The pool of this name. Several types may share it.
    Named(PoolName),
    /// A pool of its own.
    Own(Box<PoolConfig>),
}

text_or_table!(
    PoolChoice,
    "the name of a pool or a table",
    |name: &str| name.parse().map(PoolChoice::Named),
    |config| PoolChoice::Own(Box::new(config))
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_named_or_described() {
        let parsed = |json: &str| serde_json::from_str::<PoolChoice>(json);
        assert_eq!(parsed("\"php\"").unwrap(), PoolChoice::Named("php".parse().unwrap()));
        let own = parsed(r#"{"command": ["php", "worker.php"]}"#).unwrap();
        assert_eq!(own, PoolChoice::Own(Box::new(PoolConfig::new(["php", "worker.php"]))));
        for choice in [own, parsed("\"php\"").unwrap()] {
            let written = serde_json::to_string(&choice).unwrap();
            assert_eq!(parsed(&written).unwrap(), choice, "{written}");
        }
        assert!(parsed("\"Not A Name\"").is_err());
        assert!(parsed(r#"{"comand": []}"#).unwrap_err().to_string().contains("comand"));
    }
}
