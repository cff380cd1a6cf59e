//! A bounded cache of answers that expire.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use fetchmill_model::outcome::FailureKind;

/// The addresses of a name, or the failure kind.
pub type Resolution = Result<Arc<[IpAddr]>, FailureKind>;

/// Keeps answers in two generations. When the young generation reaches half of the limit, it replaces the old one,
/// which is dropped. As a result, names in use stay cached, and no time is spent on choosing entries to evict. `Time`
/// is the time type of the owner's clock.
#[derive(Debug)]
pub(crate) struct Cache<Time> {
    names_max: usize,
    young: HashMap<Box<str>, (Resolution, Time)>,
    old: HashMap<Box<str>, (Resolution, Time)>,
}

impl<Time: Copy + PartialOrd> Cache<Time> {
    /// Creates a cache of up to `names_max` names.
    pub(crate) fn new(names_max: usize) -> Self {
        Cache { names_max, young: HashMap::new(), old: HashMap::new() }
    }

    /// Returns the cached answer for a name, unless it has expired.
    pub(crate) fn get(&mut self, name: &str, now: Time) -> Option<Resolution> {
        if let Some((answer, until)) = self.young.get(name) {
            return (now < *until).then(|| answer.clone());
        }
        let (name, (answer, until)) = self.old.remove_entry(name)?;
        if now >= until {
            return None;
        }
        self.insert(name, answer.clone(), until);
        Some(answer)
    }

    /// Caches an answer, replacing any earlier one for the name.
    pub(crate) fn insert(&mut self, name: Box<str>, answer: Resolution, until: Time) {
        if self.young.len() >= (self.names_max / 2).max(1) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(name, (answer, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_bounded_and_what_is_asked_for_stays() {
        const NAMES_MAX: usize = 1000;
        let mut cache = Cache::new(NAMES_MAX);
        let found: Resolution = Ok(Arc::new([IpAddr::from([127, 0, 0, 1])]));
        for number in 0..3 * NAMES_MAX {
            cache.insert(format!("h{number}").into(), found.clone(), 60);
            assert!(number < 100 || cache.get("h99", 0).is_some());
            assert!(cache.young.len() + cache.old.len() <= NAMES_MAX);
        }

        assert!(cache.get("h100", 0).is_none());
        assert!(cache.get("h99", 60).is_none());
    }
}
