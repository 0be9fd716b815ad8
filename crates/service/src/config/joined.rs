//! Sections whose keys have two owners: most are those of a component, such as the policy of a type, and a few are this crate's.
//! Serde's `flatten` would lose the places of mistakes.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StringDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor,
};

/// A section that has the keys of a component beside its own.
pub(super) trait Joined: Default {
    /// The component.
    type Part: DeserializeOwned;

    /// The keys that are not the component's.
    const OWN: &'static [&'static str];

    /// Returns the component.
    fn part(&mut self) -> &mut Self::Part;

    /// Reads the value of a key of [`Joined::OWN`].
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, table: &mut A) -> Result<(), A::Error>;
}

/// Reads a section.
pub(super) fn deserialize<'de, D: Deserializer<'de>, S: Joined>(from: D) -> Result<S, D::Error> {
    from.deserialize_map(Section(PhantomData))
}

struct Section<S>(PhantomData<S>);

impl<'de, S: Joined> Visitor<'de> for Section<S> {
    type Value = S;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<S, A::Error> {
        let mut section = S::default();
        let others = Others { table, section: &mut section };
        let part: S::Part = Deserialize::deserialize(MapAccessDeserializer::new(others))?;
        *section.part() = part;
        Ok(section)
    }
}

/// The entries of a table without those that the section reads itself, which it does when they are met.
struct Others<'a, A, S> {
    table: A,
    section: &'a mut S,
}

impl<'de, A: MapAccess<'de>, S: Joined> MapAccess<'de> for Others<'_, A, S> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, mut seed: K) -> Result<Option<K::Value>, A::Error> {
        loop {
            match self.table.next_key_seed(Key { seed, own: S::OWN })? {
                None => return Ok(None),
                Some(Ok(key)) => return Ok(Some(key)),
                Some(Err((own, unused))) => {
                    self.section.read(own, &mut self.table)?;
                    seed = unused;
                }
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.table.next_value_seed(seed)
    }
}

/// Reads a key, unless it is the section's own: then it returns that, and the seed that was not needed.
struct Key<K> {
    seed: K,
    own: &'static [&'static str],
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<K> {
    type Value = Result<K::Value, (&'static str, K)>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        let Self { seed, own } = self;
        let key = String::deserialize(from)?;
        if let Some(own) = own.iter().find(|own| **own == key) {
            return Ok(Err((*own, seed)));
        }
        let key: StringDeserializer<D::Error> = key.into_deserializer();
        seed.deserialize(key).map(Ok).map_err(|error| {
            // It lists only the keys of the component.
            let all = own.iter().fold(error.to_string(), |text, own| format!("{text}, `{own}`"));
            D::Error::custom(all)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{QueueSection, TypeSection};

    #[test]
    fn keys_of_both_owners_are_read_in_any_order() {
        let toml = "max_payload = 7\nconcurrency = 3\nobjectives = { latency = \"1s\" }\ndead_max = 9\n";
        let queue: QueueSection = toml::from_str(toml).unwrap();
        assert_eq!((queue.max_payload, queue.served.concurrency, queue.served.dead_max), (7, 3, Some(9)));
        assert_eq!(queue.objectives.latency.as_secs(), 1);
    }

    #[test]
    fn an_unknown_key_is_reported_with_the_keys_of_both_owners() {
        let error = toml::from_str::<TypeSection>("handlr = \"noop\"").unwrap_err();
        for known in ["`handlr`", "`timeout`", "`handler`", "`payload_schema`"] {
            assert!(error.message().contains(known), "{error}");
        }
    }

    #[test]
    fn a_section_that_was_written_is_read_again() {
        let toml = "timeout = \"7s\"\nlimits = { rate = \"5/s\" }\nalert = \"each\"\nlimit_key = \"h.a\"\n";
        let section: TypeSection = toml::from_str(toml).unwrap();
        let written = serde_json::to_value(&section).unwrap();
        assert_eq!(serde_json::from_value::<TypeSection>(written).unwrap(), section);
    }
}
