//! Tests of servers that do not answer, refuse, or give unusual answers.

use super::fake::{FORMERR, Fake, SERVFAIL};
use super::*;

#[test]
fn a_query_that_was_lost_is_sent_again_from_another_socket() {
    run(async {
        let server =
            Fake::start(|query| if query.number == 0 { Vec::new() } else { query.found(1).once() }).await;
        let thread = Thread::asking(&[&server]);

        let (answer, waited) = thread.resolve_in_time("a.test").await;

        assert_eq!(texts(answer), ["192.0.2.1"]);
        assert!((1500..2000).contains(&waited), "{waited}");
        let queries = server.queries();
        assert_eq!(queries.len(), 2);
        assert_ne!(queries[0].source, queries[1].source);
    });
}

#[test]
fn without_any_answer_it_is_a_timeout_after_all_tries() {
    run(async {
        let server = Fake::silent().await;
        let thread = Thread::asking(&[&server]);

        let (answer, waited) = thread.resolve_in_time("a.test").await;

        assert_eq!(answer, Err(FailureKind::DnsTimeout));
        assert!((7100..7500).contains(&waited), "{waited}");
        assert_eq!((server.count(), thread.dns.counts().timeouts), (3, 1));
    });
}

#[test]
fn another_server_is_asked_when_one_is_silent_and_a_late_answer_counts() {
    run(async {
        let silent = Fake::silent().await;
        let server = Fake::start(|query| query.found(2).once()).await;
        let thread = Thread::asking(&[&silent, &server]);

        let (answer, waited) = thread.resolve_in_time("a.test").await;

        assert_eq!(texts(answer), ["192.0.2.2"]);
        assert!((1500..2000).contains(&waited), "{waited}");
        assert_eq!((silent.count(), server.count()), (1, 1));
    });
}

#[test]
fn another_server_is_asked_at_once_when_one_fails_or_is_not_there() {
    run(async {
        let broken = Fake::start(|query| query.reply().rcode(SERVFAIL).once()).await;
        let server = Fake::start(|query| query.found(2).once()).await;

        let thread = Thread::asking(&[&broken, &server]);
        assert_eq!(texts(thread.resolve("a.test").await), ["192.0.2.2"]);

        let mut setup = setup(&[&server]);
        setup.upstreams.insert(0, closed());
        let thread = Thread::new(setup, SLOTS);
        for name in ["a.test", "b.test", "c.test", "d.test", "e.test", "f.test"] {
            assert_eq!(texts(thread.resolve(name).await), ["192.0.2.2"]);
        }
    });
}

#[test]
fn refusals_reach_everybody_who_asked_over_that_socket() {
    run(async {
        let server = Fake::start(|query| query.found(2).once()).await;
        let mut setup = setup(&[&server]);
        setup.upstreams.insert(0, closed());
        let thread = Thread::new(setup, SLOTS);

        for token in 0..100 {
            assert_eq!(
                thread.dns.ask(&format!("h{token}.test"), token, LookUpKind::Usual),
                LookUpStart::Started
            );
        }

        assert_eq!(thread.take(100).await.len(), 100);
        assert_eq!(server.count(), 100);
    });
}

#[test]
fn a_server_that_is_not_there_yet_gets_all_its_tries() {
    run(async {
        let mut setup = setup(&[]);
        setup.upstreams.push(closed());
        let thread = Thread::new(setup, SLOTS);

        let (answer, waited) = thread.resolve_in_time("a.test").await;

        assert_eq!(answer, Err(FailureKind::DnsTimeout));
        assert!((7100..7500).contains(&waited), "{waited}");
    });
}

#[test]
fn the_failure_that_tells_most_is_told() {
    run(async {
        let silent = Fake::silent().await;
        let broken = Fake::start(|query| query.reply().rcode(SERVFAIL).once()).await;
        let thread = Thread::asking(&[&silent, &broken]);

        assert_eq!(thread.resolve_in_time("a.test").await.0, Err(FailureKind::DnsServfail));
    });
}

#[test]
fn a_server_that_changes_the_case_is_asked_without_capitals() {
    run(async {
        let server = Fake::start(|query| {
            let mut reply = query.found(1);
            let name_end = 13 + query.name.len();
            reply.bytes[12..name_end].make_ascii_lowercase();
            reply.once()
        })
        .await;
        let thread = Thread::asking(&[&server]);
        let long = "abcdefghijklmnopqrstuvwxyz.abcdefghijklmnopqrstuvwxyz.test";

        assert_eq!(texts(thread.resolve(long).await), ["192.0.2.1"]);
        let queries = server.queries();
        assert_eq!(queries.len(), 2);
        assert!(queries[0].name != long && queries[1].name == long);

        // The resolver remembers which form the server understands.
        assert_eq!(texts(thread.resolve("b.test").await), ["192.0.2.1"]);
        assert_eq!(server.queries()[2].name, "b.test");
        assert_eq!(server.count(), 3);
    });
}

#[test]
fn a_server_that_knows_no_edns_is_asked_without_it() {
    run(async {
        let server = Fake::start(|query| {
            if !query.has_edns() {
                return query.found(1).once();
            }
            let mut reply = query.reply().rcode(FORMERR);
            if query.lower() == "a.test" {
                // Omit the question.
                reply.bytes.truncate(12);
                reply.bytes[5] = 0;
            }
            reply.once()
        })
        .await;

        for name in ["a.test", "b.test"] {
            let thread = Thread::asking(&[&server]);
            let before = server.count();
            assert_eq!(texts(thread.resolve(name).await), ["192.0.2.1"]);
            assert_eq!(texts(thread.resolve("c.test").await), ["192.0.2.1"]);
            assert_eq!(server.count(), before + 3, "{name}");
        }
    });
}
