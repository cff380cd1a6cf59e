//! `/etc/hosts`, in which the administrator assigns addresses to host names.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use fetchmill_model::limits;

/// Contents of `/etc/hosts`, with names in lower case.
#[derive(Debug, Clone, Default)]
pub(super) struct HostsFile {
    names: HashMap<Box<str>, Arc<[IpAddr]>>,
}

impl HostsFile {
    /// Parses the file. Skips lines that cannot be parsed, as the C library does.
    pub(super) fn parse(text: &str) -> Self {
        let mut found: HashMap<Box<str>, Vec<IpAddr>> = HashMap::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace();
            let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else { continue };
            for name in words {
                let addresses = found.entry(name.to_ascii_lowercase().into()).or_default();
                if addresses.len() < limits::DNS_ADDRESSES_MAX && !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        HostsFile { names: found.into_iter().map(|(name, addresses)| (name, addresses.into())).collect() }
    }

    /// Returns the addresses of a lower-case name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<[IpAddr]>> {
        self.names.get(name).map(Arc::clone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(hosts: &HostsFile, name: &str) -> Vec<String> {
        hosts.get(name).map(|found| found.iter().map(ToString::to_string).collect()).unwrap_or_default()
    }

    #[test]
    fn a_name_has_all_its_addresses_once_and_no_more_than_are_tried() {
        let many: Vec<_> = (0..1000).map(|number| format!("192.0.2.{} many.test", number % 250)).collect();
        let many = many.join("\n");
        let hosts = HostsFile::parse(&format!(
            "192.0.2.1 One.Test alias # 192.0.2.9 no.test\n2001:db8::1\tone.test\n192.0.2.1 one.test\n\
             nonsense two.test\n\n192.0.2.3\n{many}"
        ));

        assert_eq!(addresses(&hosts, "one.test"), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(addresses(&hosts, "alias"), ["192.0.2.1"]);
        assert!(hosts.get("no.test").is_none() && hosts.get("two.test").is_none());
        assert_eq!(addresses(&hosts, "many.test").len(), limits::DNS_ADDRESSES_MAX);
    }
}
