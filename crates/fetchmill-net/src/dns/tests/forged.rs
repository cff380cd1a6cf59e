//! Tests of forged answers and invalid bytes.

use proptest::prelude::*;

use super::super::message::{DnsQuery, DnsReply, Family, NameAnswer, QueryForm};
use super::super::random::QueryRandom;
use super::super::{DnsSetup, Families, candidates};
use super::fake::Fake;
use super::*;

/// A name that is too long for a forger to guess which letters are capitals.
const NAME: &str = "abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz.test";

#[test]
fn what_does_not_repeat_the_query_is_ignored() {
    run(async {
        let server = Fake::start(|query| {
            let forged = |change: &dyn Fn(&mut Vec<u8>)| {
                let mut bytes = query.found(66).bytes;
                change(&mut bytes);
                bytes
            };
            let type_at = 12 + query.name.len() + 2;
            vec![
                forged(&|bytes| bytes[1] ^= 1),
                forged(&|bytes| bytes[2] &= 0x7f),
                forged(&|bytes| bytes[2] |= 0x10),
                forged(&|bytes| bytes[13] = b'x'),
                forged(&|bytes| bytes[type_at + 1] = 16),
                forged(&|bytes| bytes[type_at + 3] = 3),
                forged(&|bytes| bytes[5] = 2),
                forged(&|bytes| bytes.truncate(11)),
                Vec::new(),
                query.found(1).bytes,
            ]
        })
        .await;
        let thread = Thread::asking(&[&server]);

        assert_eq!(texts(thread.resolve(NAME).await), ["192.0.2.1"]);
        assert_eq!(thread.dns.counts().foreign, 9);
        assert_eq!(server.count(), 1);
    });
}

#[test]
fn an_answer_with_other_capitals_is_not_believed_when_the_right_one_comes() {
    run(async {
        let server = Fake::start(|query| {
            let mut forged = query.found(66).bytes;
            forged[13..19].make_ascii_uppercase();
            forged[20..26].make_ascii_lowercase();
            forged[30..36].make_ascii_lowercase();
            vec![forged, query.found(1).bytes]
        })
        .await;
        let thread = Thread::asking(&[&server]);

        for _ in 0..2 {
            assert_eq!(texts(thread.resolve(NAME).await), ["192.0.2.1"]);
            thread.pass(61_000).await;
        }
        // Each lookup ended with a query without random capitals, but its first query still had them.
        let is_plain: Vec<_> = server.queries().iter().map(|query| query.name == NAME).collect();
        assert_eq!(is_plain, [false, true, false, true]);
    });
}

#[test]
fn queries_cannot_be_guessed_from_those_before_them() {
    run(async {
        let server = Fake::start(|query| query.found(1).once()).await;
        let thread = Thread::asking(&[&server]);
        let names: Vec<_> = (0..50).map(|number| format!("h{number}.{NAME}")).collect();

        for name in &names {
            thread.resolve(name).await.unwrap();
        }

        let queries = server.queries();
        let distinct = |part: &dyn Fn(&super::fake::Query) -> Vec<u8>| {
            queries.iter().map(part).collect::<std::collections::HashSet<_>>().len()
        };
        assert!(distinct(&|query| query.bytes[..2].to_vec()) >= 48, "numbers repeat");
        assert_eq!(distinct(&|query| query.name.bytes().rev().take(50).collect()), 50, "capitals repeat");
        assert_eq!(distinct(&|query| query.source.port().to_be_bytes().into()), limits::DNS_SOCKETS);
    });
}

/// Returns a query and a genuine answer to it.
fn exchange() -> (DnsQuery, candidates::WireName, Vec<u8>) {
    let name = candidates::candidates(&DnsSetup::of("", "", Families::V4), "a.example.test").remove(0);
    let query = DnsQuery::new(4711, Family::V4, QueryForm::FULL, &name, &mut QueryRandom::default());
    let mut bytes = Vec::new();
    query.write(&name, &mut bytes).unwrap();
    let source = "127.0.0.1:1".parse().unwrap();
    let answer = super::fake::Query::parse(&bytes, source, false, 0).reply();
    let answer = answer.cname("", 9, "b.test").a("b.test", 9, 1).a("b.test", 9, 2).soa(5, 5);
    (query, name, answer.bytes)
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (query, name, answer) = exchange();

        query.read(&bytes, &name);

        // Put the same bytes after a correct question, so that the reader parses them.
        let start = 12 + name.len() + 4;
        let mut counted = answer[..start].to_vec();
        counted[6..12].copy_from_slice(&[0, 9, 0, 9, 0, 9]);
        counted.extend(bytes);
        prop_assert!(!matches!(query.read(&counted, &name), DnsReply::Foreign | DnsReply::Simpler(_)));
    }

    #[test]
    fn a_changed_answer_gives_no_more_addresses(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let (query, name, mut answer) = exchange();
        for (place, byte) in changes {
            let place = place.index(answer.len());
            answer[place] = byte;
        }
        answer.truncate(cut.index(answer.len()) + 1);

        if let DnsReply::Found(NameAnswer::Addresses { addresses, ttl }) = query.read(&answer, &name) {
            prop_assert!(addresses.len() <= 2);
            prop_assert!(ttl >= limits::DNS_TTL_MIN && ttl <= limits::DNS_TTL_MAX);
        }
    }
}
