//! Tests of lookup slots if some names get no answer.

use super::fake::Fake;
use super::*;

/// Starts a server that answers for every name except those that start with `dead`.
async fn half_dead() -> Fake {
    Fake::start(|query| if query.lower().starts_with("dead") { Vec::new() } else { query.found(1).once() })
        .await
}

fn is_found(looked: &LookUpEnd) -> bool {
    matches!(looked, LookUpEnd::Answer(Ok(_)))
}

#[test]
fn full_fast_slots_take_no_more_until_one_is_free() {
    run(async {
        let server = half_dead().await;
        let thread = Thread::new(setup(&[&server]), SlotLimits { fast: 2, slow: 10 });

        assert_eq!(thread.dns.ask("dead1.test", 1, LookUpKind::Usual), LookUpStart::Started);
        assert_eq!(thread.dns.ask("dead2.test", 2, LookUpKind::Usual), LookUpStart::Started);
        assert_eq!(thread.dns.ask("a.test", 3, LookUpKind::Usual), LookUpStart::Full);
        assert_eq!(thread.dns.ask("dead1.test", 4, LookUpKind::Usual), LookUpStart::Joined);

        // After some time, both lookups count as slow. A task that found no free slot is woken even though no answer
        // has arrived.
        let ((), ()) = tokio::join!(thread.pass(400), thread.dns.answered());
        assert_eq!(thread.dns.take_answered(), []);
        assert_eq!(thread.dns.ask("a.test", 3, LookUpKind::Usual), LookUpStart::Started);
        assert!(is_found(&thread.take(1).await[0].1));
    });
}

#[test]
fn a_slow_name_is_given_back_when_the_slow_slots_are_full() {
    run(async {
        let server = half_dead().await;
        let thread = Thread::new(setup(&[&server]), SlotLimits { fast: 4, slow: 1 });
        for token in 0..4 {
            thread.dns.ask(&format!("dead{token}.test"), token, LookUpKind::Usual);
        }
        assert_eq!(thread.dns.ask("dead3.test", 33, LookUpKind::Usual), LookUpStart::Joined);

        thread.pass(400).await;

        let taken = thread.dns.take_answered();
        assert_eq!(taken.len(), 4);
        assert!(taken.iter().all(|(_, looked)| *looked == LookUpEnd::Deferred));
        assert_eq!(thread.dns.counts().deferred, 3);
        // The fast slots are free, and the resolver knows nothing about the names.
        assert_eq!(thread.dns.ask("dead3.test", 3, LookUpKind::Usual), LookUpStart::Started);
        assert!(thread.resolve("a.test").await.is_ok());
    });
}

#[test]
fn names_that_wait_for_a_place_all_get_their_answer() {
    run(async {
        let server = half_dead().await;
        let thread = Thread::new(setup(&[&server]), SlotLimits { fast: 2, slow: 1 });

        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..200 {
            let thread = thread.clone();
            // One in twenty names is dead, and another one in twenty is also requested by other callers.
            let name = match number % 20 {
                0 => format!("dead{number}.test"),
                10 => "same.test".to_owned(),
                _ => format!("h{number}.test"),
            };
            waiting.spawn_local(async move { (number % 20 == 0, thread.dns.resolve(&name).await) });
        }
        let ticking = async {
            loop {
                thread.pass(50).await;
            }
        };
        let answers = tokio::select! {
            answers = waiting.join_all() => answers,
            () = ticking => unreachable!("it never ends"),
        };

        assert_eq!(answers.len(), 200);
        for (is_dead, answer) in answers {
            assert_eq!(answer.err(), is_dead.then_some(FailureKind::DnsTimeout));
        }
    });
}

#[test]
fn a_task_that_waits_for_a_place_comes_before_tokens() {
    run(async {
        let server = half_dead().await;
        let thread = Thread::new(setup(&[&server]), SlotLimits { fast: 1, slow: 100 });
        let is_done = Cell::new(false);

        let waiting = async {
            let answer = thread.dns.resolve("a.test").await;
            is_done.set(true);
            answer
        };
        // Without this, a task that requests a lookup right after each tick would always get the free slot.
        let asking = async {
            let mut is_started = Vec::new();
            for token in 0..30 {
                is_started.push(
                    thread.dns.ask(&format!("dead{token}.test"), token, LookUpKind::Usual)
                        == LookUpStart::Started,
                );
                tokio::time::sleep(Duration::from_millis(2)).await;
                thread.clock.set(thread.clock.get() + 50);
                thread.dns.tick();
                if token == 10 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    assert!(is_done.get(), "it waits for ever");
                }
            }
            is_started
        };
        thread.dns.ask("dead.test", 100, LookUpKind::Usual);
        let (answer, is_started) = tokio::join!(waiting, asking);

        assert!(answer.is_ok());
        assert!(is_started.iter().filter(|is_started| **is_started).count() >= 2, "tokens get nothing");
    });
}

/// Returns how many names are found in ten seconds if each tick requests four good names and `dead` dead ones.
async fn found_beside(dead: usize) -> usize {
    let server = half_dead().await;
    // Four dead names per tick need 4 x (300 + 50) / 50 = 28 slots. The remaining slots are for the names that are
    // found within a tick.
    let thread = Thread::new(setup(&[&server]), SlotLimits { fast: 32, slow: 8192 });
    let mut found = 0;
    for tick in 0..200 {
        for number in 0..dead {
            thread.dns.ask(&format!("dead{tick}-{number}.test"), 0, LookUpKind::Usual);
        }
        for number in 0..4 {
            thread.dns.ask(&format!("h{tick}-{number}.test"), 0, LookUpKind::Usual);
        }
        thread.pass(50).await;
        found += thread.dns.take_answered().iter().filter(|(_, looked)| is_found(looked)).count();
    }
    found
}

#[test]
fn names_that_nobody_answers_for_leave_the_others_their_rate() {
    run(async {
        let alone = found_beside(0).await;
        let beside_dead_ones = found_beside(4).await;

        assert!(alone >= 790, "{alone}");
        assert!(beside_dead_ones * 10 >= alone * 9, "{beside_dead_ones} of {alone}");
    });
}
