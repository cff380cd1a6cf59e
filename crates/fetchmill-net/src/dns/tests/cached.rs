//! Tests of shared lookups, and of how long answers stay cached.

use super::fake::{Fake, NXDOMAIN, SERVFAIL};
use super::*;

#[test]
fn everybody_who_asks_for_a_name_gets_the_answer_of_one_query() {
    run(async {
        let server = Fake::start(|query| query.found(1).once()).await;
        let thread = Thread::asking(&[&server]);

        for token in 0..100 {
            let name = if token % 2 == 0 { "a.test" } else { "A.Test" };
            let expected = if token == 0 { LookUpStart::Started } else { LookUpStart::Joined };
            assert_eq!(thread.dns.ask(name, token, LookUpKind::Usual), expected);
        }
        let (answer, taken) = tokio::join!(thread.resolve("a.test"), thread.take(100));

        assert_eq!(server.count(), 1);
        let mut tokens: Vec<_> = taken.iter().map(|(token, _)| *token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..100).collect::<Vec<_>>());
        assert!(taken.iter().all(|(_, looked)| *looked == LookUpEnd::Answer(answer.clone())));
        assert_eq!(thread.dns.ask("a.test", 100, LookUpKind::Usual), LookUpStart::Known(answer));
    });
}

#[test]
fn answers_are_believed_as_long_as_their_owner_says_within_bounds() {
    run(async {
        let server = Fake::start(|query| {
            let reply = query.reply();
            match &*query.lower() {
                "zero.test" => reply.a("", 0, 1),
                "wrong.test" => reply.a("", u32::MAX, 1),
                "ten.test" => reply.a("", 10, 1),
                "link.test" => reply.cname("", 10, "b.test").a("b.test", 60, 1),
                "week.test" => reply.a("", 604_800, 1),
                "none.test" => reply.rcode(NXDOMAIN).soa(900, 20),
                "empty.test" => reply.soa(20, 900),
                "none-long.test" => reply.rcode(NXDOMAIN).soa(9000, 9000),
                "none-zero.test" => reply.rcode(NXDOMAIN).soa(0, 0),
                "unsaid.test" => reply.rcode(NXDOMAIN),
                _ => reply.rcode(SERVFAIL),
            }
            .once()
        })
        .await;
        let thread = Thread::asking(&[&server]);

        for (name, seconds) in [
            ("zero.test", 1),
            ("wrong.test", 1),
            ("ten.test", 10),
            ("link.test", 10),
            ("week.test", 300),
            ("none.test", 20),
            ("empty.test", 20),
            ("none-long.test", 60),
            ("none-zero.test", 1),
            ("unsaid.test", 5),
            ("broken.test", 5),
        ] {
            let answer = thread.resolve(name).await;
            thread.clock.set(thread.clock.get() + seconds * 1000 - 1);
            assert_eq!(thread.dns.known(name), Some(answer), "{name}");
            thread.clock.set(thread.clock.get() + 1);
            assert_eq!(thread.dns.known(name), None, "{name}");
        }
    });
}

#[test]
fn a_second_look_believes_nothing_and_asks_another_server_first() {
    run(async {
        let one = Fake::start(|query| query.reply().rcode(NXDOMAIN).soa(60, 60).once()).await;
        let two = Fake::start(|query| query.found(2).once()).await;
        let thread = Thread::asking(&[&one, &two]);
        assert_eq!(thread.resolve("a.test").await, Err(FailureKind::DnsNotFound));

        assert_eq!(thread.dns.ask("a.test", 7, LookUpKind::Again), LookUpStart::Started);

        let (token, looked) = thread.take(1).await.remove(0);
        let LookUpEnd::Answer(answer) = looked else { panic!("deferred") };
        assert_eq!((token, texts(answer)), (7, vec!["192.0.2.2".to_owned()]));
        assert_eq!((one.count(), two.count()), (1, 1));
        // The result of the second lookup replaces that of the first.
        assert!(thread.dns.known("a.test").unwrap().is_ok());
    });
}

#[test]
fn a_second_look_at_the_only_server_comes_from_another_socket() {
    run(async {
        let server = Fake::start(|query| query.found(1).once()).await;
        let thread = Thread::asking(&[&server]);

        for number in 0..20 {
            let name = format!("h{number}.test");
            thread.resolve(&name).await.unwrap();
            assert_eq!(thread.dns.ask(&name, number, LookUpKind::Again), LookUpStart::Started);
            thread.take(1).await;
            let [.., first, second] = &server.queries()[..] else { panic!("two queries") };
            assert_ne!(first.source, second.source);
        }
    });
}

#[test]
fn servers_that_were_named_share_the_names() {
    run(async {
        let one = Fake::start(|query| query.found(1).once()).await;
        let two = Fake::start(|query| query.found(2).once()).await;
        let setup = DnsSetup::of("", "", Families::V4).with_upstreams(vec![one.address, two.address]);
        let thread = Thread::new(setup, SLOTS);

        for number in 0..200 {
            thread.resolve(&format!("h{number}.test")).await.unwrap();
        }

        assert_eq!(one.count() + two.count(), 200);
        // The probability of a count below 60 out of 200 by chance is one in a hundred million.
        assert!(one.count() > 60 && two.count() > 60, "{} {}", one.count(), two.count());
    });
}
