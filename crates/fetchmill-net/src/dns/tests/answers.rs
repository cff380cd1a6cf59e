//! Tests of the interpretation of DNS answers.

use super::fake::{A, AAAA, Fake, NXDOMAIN, Query, REFUSED, SERVFAIL};
use super::*;

#[test]
fn each_answer_has_its_failure_kind() {
    run(async {
        let server = Fake::start(|query| match &*query.lower() {
            "found.test" => query.found(7).once(),
            "none.test" => query.reply().rcode(NXDOMAIN).once(),
            "broken.test" => query.reply().rcode(SERVFAIL).once(),
            "refused.test" => query.reply().rcode(REFUSED).once(),
            "cut.test" => {
                let mut reply = query.found(7);
                reply.bytes.truncate(reply.bytes.len() - 1);
                reply.once()
            }
            // The server does not offer recursion and has no record of its own for this name.
            "lame.test" => {
                let mut reply = query.reply();
                reply.bytes[3] &= 0x7f;
                reply.once()
            }
            _ => query.reply().once(),
        })
        .await;
        let thread = Thread::asking(&[&server]);

        assert_eq!(texts(thread.resolve("Found.Test").await), ["192.0.2.7"]);
        for (name, kind) in [
            ("none.test", FailureKind::DnsNotFound),
            ("broken.test", FailureKind::DnsServfail),
            ("refused.test", FailureKind::Dns),
            ("cut.test", FailureKind::Dns),
            ("lame.test", FailureKind::Dns),
            ("empty.test", FailureKind::DnsEmpty),
        ] {
            assert_eq!(thread.resolve(name).await, Err(kind), "{name}");
        }
        let counts = thread.dns.counts();
        assert_eq!((counts.queries, counts.answered, counts.failed), (7, 3, 4));
    });
}

#[test]
fn what_cannot_be_a_name_is_not_asked_for() {
    run(async {
        let server = Fake::silent().await;
        let thread = Thread::new(setup(&[&server]), SlotLimits { fast: 1, slow: 1 });

        for name in ["", "a..test", &"a".repeat(64), &"a.".repeat(200), "b\u{fc}cher.test"] {
            assert_eq!(thread.resolve(name).await, Err(FailureKind::DnsNotFound), "{name}");
        }
        // The invalid names have not taken up a slot.
        assert_eq!(thread.dns.ask("a.test", 1, LookUpKind::Usual), LookUpStart::Started);
    });
}

#[test]
fn what_is_known_is_not_asked_for() {
    run(async {
        let server = Fake::silent().await;
        let mut setup = DnsSetup::of("", "192.0.2.5 Own.test", Families::V4);
        setup.upstreams = vec![server.address];
        let thread = Thread::new(setup, SLOTS);

        for (name, address) in [
            ("127.0.0.2", "127.0.0.2"),
            ("[::1]", "::1"),
            ("LocalHost", "127.0.0.1"),
            ("a.localhost", "127.0.0.1"),
            ("own.TEST", "192.0.2.5"),
        ] {
            assert_eq!(texts(thread.dns.known(name).unwrap()), [address]);
            assert_eq!(texts(thread.resolve(name).await), [address]);
            assert!(matches!(thread.dns.ask(name, 1, LookUpKind::Again), LookUpStart::Known(Ok(_))));
        }
        assert_eq!(thread.dns.known("other.test"), None);
        assert_eq!(server.count(), 0);
    });
}

#[test]
fn short_names_are_looked_for_in_domains_until_one_has_them() {
    run(async {
        let server = Fake::start(|query| match &*query.lower() {
            "db.b.test" => query.found(2).once(),
            "www.example" => query.found(3).once(),
            "half.a.test" => query.reply().once(),
            _ => query.reply().rcode(NXDOMAIN).once(),
        })
        .await;
        let mut setup = DnsSetup::of("search a.test b.test", "", Families::V4);
        setup.upstreams = vec![server.address];
        let thread = Thread::new(setup, SLOTS);

        assert_eq!(texts(thread.resolve("db").await), ["192.0.2.2"]);
        assert_eq!(texts(thread.resolve("www.example").await), ["192.0.2.3"]);
        assert_eq!(thread.resolve("half").await, Err(FailureKind::DnsEmpty));
        assert_eq!(thread.resolve("db.").await, Err(FailureKind::DnsNotFound));

        let asked: Vec<_> = server.queries().iter().map(Query::lower).collect();
        assert_eq!(
            asked,
            ["db.a.test", "db.b.test", "www.example", "half.a.test", "half.b.test", "half", "db"]
        );
    });
}

fn both(server: &Fake) -> Thread {
    let mut setup = setup(&[server]);
    setup.families = Families::Both;
    Thread::new(setup, SLOTS)
}

#[test]
fn addresses_of_both_families_come_in_turns_and_no_more_than_are_tried() {
    run(async {
        let server = Fake::start(|query| {
            let mut reply = query.reply();
            for last in 0..if query.lower() == "many.test" { 20 } else { 2 } {
                reply = if query.rtype == A { reply.a("", 60, last) } else { reply.aaaa("", 60, last) };
            }
            reply.once()
        })
        .await;
        let thread = both(&server);

        let found = texts(thread.resolve("few.test").await);
        assert_eq!(found, ["2001:db8::", "192.0.2.0", "2001:db8::1", "192.0.2.1"]);
        assert_eq!(texts(thread.resolve("many.test").await).len(), limits::DNS_ADDRESSES_MAX);
        assert_eq!(server.count(), 4);
    });
}

#[test]
fn one_family_is_enough_when_the_other_one_fails_or_is_slow() {
    run(async {
        let server = Fake::start(|query| match (&*query.lower(), query.rtype) {
            ("broken.test", AAAA) => query.reply().rcode(SERVFAIL).once(),
            ("slow.test", AAAA) | ("dead.test", A) => Vec::new(),
            ("v6.test", AAAA) => query.reply().aaaa("", 60, 6).once(),
            ("v6.test" | "empty.test", _) | ("dead.test", AAAA) => query.reply().once(),
            ("none.test", AAAA) => query.reply().rcode(NXDOMAIN).once(),
            _ => query.found(4).once(),
        })
        .await;
        let thread = both(&server);

        assert_eq!(texts(thread.resolve("broken.test").await), ["192.0.2.4"]);
        assert_eq!(texts(thread.resolve("v6.test").await), ["2001:db8::6"]);
        assert_eq!(thread.resolve("empty.test").await, Err(FailureKind::DnsEmpty));
        assert_eq!(thread.resolve("none.test").await, Err(FailureKind::DnsNotFound));
        let (answer, waited) = thread.resolve_in_time("slow.test").await;
        assert_eq!(texts(answer), ["192.0.2.4"]);
        assert!((50..=250).contains(&waited), "{waited}");
        // An empty answer for one family does not end the lookup early. Only an answer with addresses does.
        assert_eq!(thread.resolve_in_time("dead.test").await.0, Err(FailureKind::DnsTimeout));
    });
}

#[test]
fn names_that_lead_to_names_are_followed_in_any_order_and_not_for_ever() {
    run(async {
        let server = Fake::start(|query| {
            match &*query.lower() {
                "chain.test" => {
                    query.reply().cname("", 60, "b.test").cname("b.test", 60, "C.test").a("c.test", 60, 3)
                }
                "mixed.test" => {
                    query.reply().a("c.test", 60, 3).cname("b.test", 60, "c.test").cname("", 60, "b.test")
                }
                "loop.test" => query.reply().cname("", 60, "b.test").cname("b.test", 60, "loop.test"),
                "self.test" => query.reply().cname("", 60, "self.test"),
                "long.test" => (0..20)
                    .fold(query.reply().cname("", 60, "n0.test"), |reply, link| {
                        reply.cname(&format!("n{link}.test"), 60, &format!("n{}.test", link + 1))
                    })
                    .a("n20.test", 60, 1),
                // The address of another name must not be used for this name.
                "foreign.test" => query.reply().cname("", 60, "b.test").a("c.test", 60, 3).a("test", 60, 4),
                _ => query.reply().rcode(NXDOMAIN),
            }
            .once()
        })
        .await;
        let thread = Thread::asking(&[&server]);

        assert_eq!(texts(thread.resolve("chain.test").await), ["192.0.2.3"]);
        assert_eq!(texts(thread.resolve("mixed.test").await), ["192.0.2.3"]);
        for name in ["loop.test", "self.test", "long.test"] {
            assert_eq!(thread.resolve(name).await, Err(FailureKind::Dns), "{name}");
        }
        assert_eq!(thread.resolve("foreign.test").await, Err(FailureKind::DnsEmpty));
    });
}

#[test]
fn an_answer_that_is_too_long_comes_over_tcp() {
    run(async {
        let server = Fake::start(|query| match (&*query.lower(), query.is_tcp) {
            ("never.test", true) => Vec::new(),
            ("cut.test", true) | (_, false) => query.reply().truncated().once(),
            (_, true) => {
                (0..1000).fold(query.reply(), |reply, number| reply.a("", 60, (number % 250) as u8)).once()
            }
        })
        .await;
        let thread = Thread::asking(&[&server]);

        assert_eq!(texts(thread.resolve("long.test").await).len(), limits::DNS_ADDRESSES_MAX);
        assert_eq!(thread.resolve("never.test").await, Err(FailureKind::Dns));
        assert_eq!(thread.resolve("cut.test").await, Err(FailureKind::Dns));
        assert_eq!((server.count(), thread.dns.counts().over_tcp), (6, 3));
    });
}
