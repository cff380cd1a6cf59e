//! Any bytes from a store: no panic. A page names its last key, and says whether its keys ascend; texts of an error can
//! be shown. A division of any part of the key space is inside it.
#![no_main]

use fetchmill_model::s3::{ErrorDocument, between, read_page};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let end = read_page(body, &mut |listed| keys.push(listed.listed.key.to_vec()));
    if let Ok(end) = end {
        assert_eq!(end.keys, keys.len() as u64);
        assert_eq!(end.last_key.as_ref(), keys.last());
        assert_eq!(end.disorder.is_none(), keys.is_sorted());
    }

    assert_eq!(ErrorDocument::read(body).is_some(), ErrorDocument::is_document(body));
    if let Some(fault) = ErrorDocument::read(body) {
        let advice = fault.advice(400, true, "bucket").unwrap_or_default();
        let texts = [fault.code, fault.message, advice];
        assert!(!texts.iter().any(|text| text.contains(char::is_control)));
    }

    let mut parts = body.splitn(3, |byte| *byte == b'\n');
    let (after, until) = (parts.next().unwrap_or_default(), parts.next());
    let prefix = parts.next().unwrap_or_default();
    if let Some(middle) = between(after, until, prefix) {
        assert!(middle.as_slice() > after && until.is_none_or(|until| middle.as_slice() < until));
        assert!(middle.starts_with(prefix) && std::str::from_utf8(&middle).is_ok());
    }
});
