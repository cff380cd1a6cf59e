//! The names that a lookup queries: the name itself, and the name in each search domain.

use domain::base::Name;
use domain::base::name::NameBuilder;

use super::setup::DnsSetup;

/// A name in wire format.
pub(super) type WireName = Name<Vec<u8>>;

/// Returns the names to query, in order. The result is empty if `name` is not a valid name. If `name` ends with a dot,
/// the result contains only `name` itself.
pub(super) fn candidates(setup: &DnsSetup, name: &str) -> Vec<WireName> {
    let (relative, is_absolute) = match name.strip_suffix('.') {
        Some(name) => (name, true),
        None => (name, false),
    };
    let Some(own) = encode(relative, "") else { return Vec::new() };
    if is_absolute || setup.search.is_empty() {
        return vec![own];
    }
    let in_domains = setup.search.iter().filter_map(|domain| encode(relative, domain));
    let dots = relative.bytes().filter(|byte| *byte == b'.').count();
    if dots >= usize::from(setup.ndots) {
        std::iter::once(own).chain(in_domains).collect()
    } else {
        in_domains.chain(std::iter::once(own.clone())).collect()
    }
}

/// Encodes the labels, which must be printable ASCII of 1 to 63 bytes each, and up to 253 bytes in total.
fn encode(name: &str, domain: &str) -> Option<WireName> {
    let mut builder = NameBuilder::new_vec();
    let domain = (!domain.is_empty()).then_some(domain);
    for label in name.split('.').chain(domain.into_iter().flat_map(|domain| domain.split('.'))) {
        let is_printable = label.bytes().all(|byte| byte.is_ascii_graphic());
        if label.is_empty() || !is_printable || builder.append_label(label.as_bytes()).is_err() {
            return None;
        }
    }
    // The builder reserves space for the root label but does not count it.
    builder.into_name().ok().filter(|name| name.len() <= Name::MAX_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::Families;

    fn texts(resolv_conf: &str, name: &str) -> Vec<String> {
        let setup = DnsSetup::of(resolv_conf, "", Families::V4);
        candidates(&setup, name).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_with_enough_dots_is_asked_for_as_it_is_first() {
        let conf = "search a.test b.test";

        assert_eq!(texts(conf, "www.example"), ["www.example", "www.example.a.test", "www.example.b.test"]);
        assert_eq!(texts(conf, "www"), ["www.a.test", "www.b.test", "www"]);
        assert_eq!(texts(conf, "www."), ["www"]);
        assert_eq!(texts("", "www"), ["www"]);
        assert_eq!(
            texts("search a.test\noptions ndots:3", "www.example.org"),
            ["www.example.org.a.test", "www.example.org"]
        );
    }

    #[test]
    fn what_cannot_be_a_name_is_not_asked_for() {
        let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
        assert_eq!(texts("", &long).len(), 1);

        for name in ["", ".", "a..b", ".a", "a..", "a b", "b\u{fc}cher.test", "a\0b", &"a".repeat(64)] {
            assert_eq!(texts("search x.test", name), Vec::<String>::new(), "{name}");
        }
        assert_eq!(texts("", &format!("{long}d")), Vec::<String>::new());
        // The name is too long only once the search domain has been appended.
        assert_eq!(texts("search x.test", &long), [long]);
    }
}
