//! The closed list of rules by which content is reserved, and the number of objects that each rule has reserved.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::{OPT_OUT_HOST_BYTES_MAX, OPT_OUT_HOSTS_MAX};

macro_rules! opt_out_rules {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal;)*) => {
        /// Reason why an object has opted out.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum OptOutRule { $($(#[doc = $doc])* $variant,)* }

        impl OptOutRule {
            /// All rules.
            pub const ALL: &[OptOutRule] = &[$(OptOutRule::$variant),*];

            /// Returns the name used in reports and the journal.
            pub fn name(self) -> &'static str {
                match self { $(OptOutRule::$variant => $name,)* }
            }
        }
    };
}

opt_out_rules! {
    /// `X-Robots-Tag: noai`.
    FieldNoAi = "X-Robots-Tag noai";
    /// `X-Robots-Tag: noimageai`.
    FieldNoImageAi = "X-Robots-Tag noimageai";
    /// `X-Robots-Tag: noindex`.
    FieldNoIndex = "X-Robots-Tag noindex";
    /// `X-Robots-Tag: noimageindex`.
    FieldNoImageIndex = "X-Robots-Tag noimageindex";
    /// `X-Robots-Tag: none`.
    FieldNone = "X-Robots-Tag none";
    /// `TDM-Reservation: 1`.
    FieldTdm = "TDM-Reservation";
    /// `<meta name="robots" content="noai">`.
    MetaNoAi = "meta noai";
    /// `<meta name="robots" content="noimageai">`.
    MetaNoImageAi = "meta noimageai";
    /// `<meta name="robots" content="noindex">`.
    MetaNoIndex = "meta noindex";
    /// `<meta name="robots" content="noimageindex">`.
    MetaNoImageIndex = "meta noimageindex";
    /// `<meta name="robots" content="none">`.
    MetaNone = "meta none";
    /// `<meta name="tdm-reservation" content="1">`.
    MetaTdm = "meta tdm-reservation";
    /// A rule of the host's robots.txt.
    Robots = "robots.txt";
    /// The host failed to send its robots.txt.
    RobotsError = "robots.txt error";
}

impl OptOutRule {
    /// Returns whether the rule comes from a robots.txt and therefore applies to a whole host.
    pub fn is_of_host(self) -> bool {
        matches!(self, OptOutRule::Robots | OptOutRule::RobotsError)
    }
}

/// Number of objects that opted out, by rule. Objects that opted out because of a robots.txt are also counted by host,
/// for up to [`OPT_OUT_HOSTS_MAX`] hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptOutCounts {
    rules: BTreeMap<OptOutRule, u64>,
    hosts: BTreeMap<Box<str>, u64>,
    has_other_hosts: bool,
}

impl OptOutCounts {
    /// Counts one object.
    pub fn add(&mut self, rule: OptOutRule) {
        self.add_rule(rule, 1);
    }

    /// Counts `count` objects.
    pub fn add_rule(&mut self, rule: OptOutRule, count: u64) {
        *self.rules.entry(rule).or_default() += count;
    }

    /// Counts objects that opted out because of a host's robots.txt. Returns whether this host is counted separately.
    pub fn add_host(&mut self, host: &str, count: u64) -> bool {
        let host = &host[..host.floor_char_boundary(OPT_OUT_HOST_BYTES_MAX)];
        if let Some(known) = self.hosts.get_mut(host) {
            *known += count;
        } else if self.hosts.len() < OPT_OUT_HOSTS_MAX {
            self.hosts.insert(host.into(), count);
        } else {
            self.has_other_hosts = true;
            return false;
        }
        true
    }

    /// Records that some hosts are not counted.
    pub fn note_other_hosts(&mut self) {
        self.has_other_hosts = true;
    }

    /// Iterates over the rules that occurred.
    pub fn rules(&self) -> impl Iterator<Item = (OptOutRule, u64)> {
        self.rules.iter().map(|(rule, count)| (*rule, *count))
    }

    /// Iterates over the counted hosts.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = (&str, u64)> {
        self.hosts.iter().map(|(host, count)| (&**host, *count))
    }

    /// Returns up to `max` hosts with the most objects, in descending order.
    pub fn largest_hosts(&self, max: usize) -> Vec<(&str, u64)> {
        let mut hosts: Vec<_> = self.hosts().collect();
        hosts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        hosts.truncate(max);
        hosts
    }

    /// Returns whether some hosts are not counted.
    pub fn has_other_hosts(&self) -> bool {
        self.has_other_hosts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_distinct_names() {
        let names: std::collections::BTreeSet<_> = OptOutRule::ALL.iter().map(|rule| rule.name()).collect();
        assert_eq!(names.len(), OptOutRule::ALL.len());
    }

    #[test]
    fn hosts_are_bounded_and_the_largest_come_first() {
        let mut counts = OptOutCounts::default();
        for number in 0..OPT_OUT_HOSTS_MAX {
            assert!(counts.add_host(&format!("http://{number}.test"), 1));
        }
        assert!(!counts.has_other_hosts());
        assert!(!counts.add_host(&format!("http://{}.test", "\u{e4}".repeat(60_000)), 1));
        assert!(counts.add_host("http://7.test", 2));
        assert!(counts.has_other_hosts());
        assert_eq!(counts.hosts().len(), OPT_OUT_HOSTS_MAX);
        assert_eq!(counts.largest_hosts(1), [("http://7.test", 3)]);
    }
}
