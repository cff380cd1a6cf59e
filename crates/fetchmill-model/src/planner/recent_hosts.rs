//! A bounded cache of facts about the most recently used hosts.
//!
//! The cache has two generations. When the younger generation is full, it replaces the older one, which is dropped. A
//! host in the older generation moves to the younger generation when it is used again.

use std::collections::HashMap;

use crate::planner::hosts::HostId;

/// The cache. See the module.
#[derive(Debug)]
pub struct RecentHosts<V> {
    young: Generation<V>,
    old: HashMap<HostId, RecentHost<V>>,
    hosts_max: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Generation<V> {
    hosts: HashMap<HostId, RecentHost<V>>,
    bytes: usize,
}

#[derive(Debug)]
struct RecentHost<V> {
    value: V,
    bytes: usize,
}

impl<V> Default for Generation<V> {
    fn default() -> Self {
        Generation { hosts: HashMap::new(), bytes: 0 }
    }
}

impl<V> RecentHosts<V> {
    /// Creates a cache for up to `hosts_max` hosts. The values take at most `bytes_max` bytes plus the size of the two
    /// largest values.
    pub fn new(hosts_max: usize, bytes_max: usize) -> Self {
        let (hosts_max, bytes_max) = ((hosts_max / 2).max(1), bytes_max / 2);
        RecentHosts { young: Generation::default(), old: HashMap::new(), hosts_max, bytes_max }
    }

    /// Returns the value that is stored for a host.
    pub fn get(&mut self, host: HostId) -> Option<&V> {
        if !self.young.hosts.contains_key(&host) {
            let RecentHost { value, bytes } = self.old.remove(&host)?;
            self.insert(host, value, bytes);
        }
        self.young.hosts.get(&host).map(|known| &known.value)
    }

    /// Stores a value for a host. `bytes` is the memory that the value takes in addition to its entry.
    pub fn insert(&mut self, host: HostId, value: V, bytes: usize) {
        self.remove(host);
        if self.young.hosts.len() >= self.hosts_max || self.young.bytes + bytes > self.bytes_max {
            self.old = std::mem::take(&mut self.young).hosts;
        }
        self.young.bytes += bytes;
        self.young.hosts.insert(host, RecentHost { value, bytes });
    }

    /// Forgets a host.
    pub fn remove(&mut self, host: HostId) {
        self.old.remove(&host);
        if let Some(known) = self.young.hosts.remove(&host) {
            self.young.bytes -= known.bytes;
        }
    }

    /// Returns the number of hosts in the cache.
    pub fn len(&self) -> usize {
        self.young.hosts.len() + self.old.len()
    }

    /// Returns whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_used_stay_and_memory_is_bounded() {
        let mut hosts = RecentHosts::new(100, 1_000);
        for number in 0..10_000 {
            hosts.insert(HostId::from_number(number), number, 1);
            assert_eq!(hosts.get(HostId::from_number(0)), Some(&0), "{number}");
            assert!(hosts.len() <= 100, "{number}");
        }
        assert_eq!(hosts.get(HostId::from_number(5_000)), None);

        for number in 0..100 {
            hosts.insert(HostId::from_number(number), number, 400);
        }
        assert!(hosts.len() <= 2, "{}", hosts.len());
        hosts.remove(HostId::from_number(99));
        assert_eq!(hosts.get(HostId::from_number(99)), None);
    }
}
