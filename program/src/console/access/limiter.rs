//! How often something may happen for each of many keys, in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use streamfleet_engine::mutex::lock;

/// The most keys that are remembered. Beyond that, those whose buckets are full again are forgotten, or else those whose buckets
/// are the fullest: a new key must not wait because there are many others.
const MAX_KEYS: usize = 10_000;

/// A bucket for each key: it holds `burst`, and gets one back `every` so often.
#[derive(Debug)]
pub(super) struct Limiter<K> {
    burst: u32,
    every: Duration,
    /// When each key's bucket is full again. The time until then is what was taken from it.
    full_at: Mutex<HashMap<K, Instant>>,
}

impl<K: Hash + Eq> Limiter<K> {
    pub(super) fn new(burst: u32, every: Duration) -> Self {
        Self { burst, every, full_at: Mutex::new(HashMap::new()) }
    }

    /// Takes one from the key's bucket.
    ///
    /// # Errors
    ///
    /// The time until there is one, if the bucket is empty.
    pub(super) fn take(&self, key: K) -> Result<(), Duration> {
        self.take_at(key, Instant::now())
    }

    fn take_at(&self, key: K, now: Instant) -> Result<(), Duration> {
        let mut buckets = lock(&self.full_at);
        if buckets.len() >= MAX_KEYS && !buckets.contains_key(&key) {
            buckets.retain(|_, full_at| *full_at > now);
            if buckets.len() >= MAX_KEYS {
                let mut times: Vec<Instant> = buckets.values().copied().collect();
                let middle = *times.select_nth_unstable(MAX_KEYS / 2).1;
                buckets.retain(|_, full_at| *full_at > middle);
            }
        }
        let full_at = buckets.get(&key).map_or(now, |full_at| (*full_at).max(now));
        let taken = full_at + self.every;
        let most = now + self.every * self.burst;
        if taken > most {
            return Err(taken - most);
        }
        buckets.insert(key, taken);
        Ok(())
    }

    /// How many keys are remembered.
    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        lock(&self.full_at).len()
    }

    /// Puts one back.
    pub(super) fn give_back(&self, key: &K) {
        let mut buckets = lock(&self.full_at);
        if let Some(full_at) = buckets.get_mut(key) {
            *full_at = full_at.checked_sub(self.every).unwrap_or(*full_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let (limiter, now) = (Limiter::new(3, SECOND), Instant::now());
        for _ in 0..3 {
            assert_eq!(limiter.take_at("ann", now), Ok(()));
        }
        assert_eq!(limiter.take_at("ann", now), Err(SECOND));
        assert_eq!(limiter.take_at("bob", now), Ok(()), "another key");
        assert_eq!(limiter.take_at("ann", now + SECOND), Ok(()));
        assert_eq!(limiter.take_at("ann", now + SECOND), Err(SECOND));
        limiter.give_back(&"ann");
        assert_eq!(limiter.take_at("ann", now + SECOND), Ok(()));
    }

    #[test]
    fn many_keys_take_bounded_memory() {
        let (limiter, now) = (Limiter::new(2, SECOND), Instant::now());
        assert_eq!(limiter.take_at(0, now), Ok(()));
        for key in 0..3 * MAX_KEYS {
            assert_eq!(limiter.take_at(key, now), Ok(()), "{key}");
            assert!(limiter.keys() <= MAX_KEYS);
        }
        assert_eq!(limiter.take_at(0, now), Err(SECOND), "the emptiest bucket is not forgotten");
    }
}
