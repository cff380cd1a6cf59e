//! Tests of the states of a connection. Each test controls everything that its server sends.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::{AfterReply, CertainConnection, HeldReplies, Judged, RestedConnection, RestingConnections};
use crate::{
    AddressPolicy, Deadlines, IdleState, NameResolverSetup, OriginConnections, Pool, PoolSettings, Resolver,
    Timeouts, TlsOptions, TlsSetup,
};
use fetchmill_model::origin::{OriginFields, OriginKey};
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::{MonotonicMicros, SILENCE_MIN};
use fetchmill_model::reply::patience::Patience;

const FAST: MonotonicMicros = 1_000;
/// Two replies that take this long need one second of silence if few replies are known so far.
const SLOW: MonotonicMicros = 100_000;
/// Two replies that take this long need more than one second of silence.
const SLOWER: MonotonicMicros = 800_000;
const ANYWHERE: AddressPolicy = AddressPolicy::Anywhere;

/// Numbers that identify the held replies.
#[derive(Debug, Default)]
struct Numbers(Vec<u32>);

impl HeldReplies for Numbers {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

type Task = CertainConnection<Numbers>;

/// A pool with one origin.
struct World {
    pool: Pool,
    clock: Rc<Cell<u64>>,
    origin: Rc<OriginConnections>,
    listener: TcpListener,
}

impl World {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = PoolSettings {
            timeouts: Timeouts::default(),
            max_body: 1000,
            connections: 8,
            fields: OriginFields::default(),
            authority: None,
            paces: None,
            tls: Arc::new(TlsSetup::new(TlsOptions::default())),
            names: NameResolverSetup::System(Resolver::new()),
            idle_max: 8,
            proxy: None,
            reach: ANYWHERE,
            times_phases: false,
            patience: Patience::default(),
            cookies: None,
        };
        let clock = Rc::new(Cell::new(0));
        let pool = Pool::new(settings, Rc::clone(&clock));
        let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        let origin = pool.origin(&OriginKey::of_url(&url).unwrap().0).unwrap();
        World { pool, clock, origin, listener }
    }

    /// Opens a connection for a task. Returns the task with the server's end of the connection.
    async fn open<H: HeldReplies>(&self) -> (CertainConnection<H>, TcpStream) {
        let mut task = CertainConnection::<H>::default();
        self.pool.switch_to_fresh(&mut task.connection, &self.origin);
        self.pool.open(&mut task.connection, &watch(), ANYWHERE).await.unwrap();
        let (server, _) = self.listener.accept().await.unwrap();
        (task, server)
    }

    /// Opens a connection that holds two replies, each of which took `took`.
    async fn holding(&self, took: MonotonicMicros) -> (Task, TcpStream) {
        let (mut task, server) = self.open::<Numbers>().await;
        reply(&mut task, 1, took);
        reply(&mut task, 2, took);
        (task, server)
    }
}

fn watch() -> Deadlines {
    Deadlines::new(Rc::new(Cell::new(0)), Timeouts::default())
}

/// Records a reply and holds it.
fn reply(task: &mut Task, number: u32, took: MonotonicMicros) {
    task.note_replies(1, 0, took);
    task.held.0.push(number);
}

/// Waits while the task's connection rests.
async fn rest(task: &mut Task) -> Judged {
    RestingConnections::default().rest(task, 0, &watch()).await
}

/// Sends unsolicited bytes from the server, and waits until they have arrived.
async fn send_stray(server: &mut TcpStream, task: &Task) {
    server.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
    while task.connection.look() == IdleState::Quiet {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async { tokio::time::timeout(Duration::from_secs(20), test).await })
        .unwrap();
}

#[test]
fn replies_are_certain_after_a_silence() {
    run(async {
        let world = World::new().await;
        let (mut task, _server) = world.holding(FAST).await;
        let started = Instant::now();

        let judged = rest(&mut task).await;

        assert!(matches!(judged, Judged::Certain { may_be_shifted: true }), "{judged:?}");
        assert!(started.elapsed() >= Duration::from_micros(SILENCE_MIN));
        assert!(task.connection.is_open());
        assert!(task.has_rested(), "the next one is the first since");
        task.note_replies(1, 0, FAST);
    });
}

#[test]
fn a_single_reply_since_the_last_rest_is_in_doubt_never_again() {
    run(async {
        let world = World::new().await;
        let (mut task, _server) = world.open::<Numbers>().await;
        assert!(task.has_rested());
        task.note_replies(1, 0, FAST);

        let judged = rest(&mut task).await;

        assert!(matches!(judged, Judged::Certain { may_be_shifted: false }), "{judged:?}");
    });
}

#[test]
fn bytes_that_nobody_asked_for_end_a_rest_and_the_connection() {
    run(async {
        let world = World::new().await;
        let (mut task, mut server) = world.holding(SLOWER).await;
        send_stray(&mut server, &task).await;
        let started = Instant::now();

        let judged = rest(&mut task).await;

        assert!(matches!(judged, Judged::Surplus { before: None }), "{judged:?}");
        assert!(started.elapsed() < Duration::from_secs(1));
        assert!(!task.connection.is_open() && task.held.0 == [1, 2]);
        assert!(world.origin.replies.borrow().has_surplus());
    });
}

#[test]
fn a_reply_slower_than_the_last_rest_puts_in_doubt_what_was_certain_then() {
    run(async {
        let world = World::new().await;
        for (took, in_doubt) in [(FAST, None), (SLOW, Some(1))] {
            let (mut task, _server) = world.holding(FAST).await;
            let _ = rest(&mut task).await;
            task.connection.last_certain().unwrap().borrow_mut().push(7, b"name", 1, 0);
            reply(&mut task, 3, took);

            let Judged::Surplus { before } = task.met_surplus() else { panic!("no surplus") };

            assert_eq!(before.map(|targets| targets.len()), in_doubt, "a reply of {took} us");
        }
    });
}

#[test]
fn a_rest_that_is_cut_short_proves_nothing() {
    run(async {
        let world = World::new().await;
        let (mut task, _server) = world.holding(SLOW).await;
        let (resting, watch) = (RestingConnections::default(), watch());

        let (judged, ()) = tokio::join!(resting.rest(&mut task, 0, &watch), async {
            watch.expire(FailureKind::TotalTimeout);
        });

        assert!(matches!(judged, Judged::Lost(FailureKind::TotalTimeout)), "{judged:?}");
        assert!(!task.connection.is_open());
    });
}

#[test]
fn the_servers_end_makes_replies_certain_without_a_silence() {
    run(async {
        let world = World::new().await;
        let resting = RestingConnections::default();
        let (mut task, server) = world.holding(SLOWER).await;
        drop(server);
        let started = Instant::now();

        let judged = resting.end(&mut task, 8, &watch()).await;

        assert!(matches!(judged, Judged::Certain { .. }), "{judged:?}");
        assert!(started.elapsed() < Duration::from_secs(1) && resting.count() == 0);
        assert!(!task.connection.is_open());
    });
}

#[test]
fn a_connection_that_does_not_end_as_asked_rests_aside() {
    run(async {
        let world = World::new().await;
        let resting = RestingConnections::default();
        let (mut task, _server) = world.holding(SLOWER).await;
        let started = Instant::now();

        let judged = resting.end(&mut task, 8, &watch()).await;

        assert!(matches!(judged, Judged::Pending) && !task.is_holding(), "{judged:?}");
        assert!(started.elapsed() < Duration::from_secs(1) && resting.count() == 1);
        let last = resting.take_last(|_| true).unwrap();
        assert!(last.connection.is_ending(), "nothing more may be asked for on it");
    });
}

#[test]
fn connections_rest_instead_of_ending_if_the_server_keeps_them_open() {
    run(async {
        let world = World::new().await;
        let (mut first, _server) = world.holding(FAST).await;
        let (mut next, _server) = world.holding(FAST).await;
        (0..3).for_each(|_| world.origin.replies.borrow_mut().note_break());
        assert!(!first.must_rest(false, 0) && first.connection.is_ending());
        // Together with the next one, the server has left four connections open.
        (0..3).for_each(|_| world.origin.replies.borrow_mut().note_end(false));

        let judged = RestingConnections::default().end(&mut first, 0, &watch()).await;

        assert!(matches!(judged, Judged::Certain { .. }), "{judged:?}");
        assert!(next.must_rest(false, 0) && !next.connection.is_ending());
    });
}

#[test]
fn one_that_was_to_end_is_closed_after_its_rest() {
    run(async {
        let world = World::new().await;
        let (mut task, _server) = world.holding(FAST).await;
        let _ = task.begin_end();

        let judged = rest(&mut task).await;

        assert!(matches!(judged, Judged::Certain { .. }) && !task.connection.is_open());
    });
}

#[test]
fn a_break_loses_what_is_held_unless_the_connection_was_silent_before() {
    run(async {
        let world = World::new().await;
        let (mut task, _server) = world.open::<Numbers>().await;
        assert!(matches!(task.met_break(None, 0), Judged::Pending), "nothing came");
        reply(&mut task, 1, FAST);
        reply(&mut task, 2, FAST);

        let after = |silent| Some(10 * SILENCE_MIN - silent);
        let mut judge = |since| task.met_break(since, 10 * SILENCE_MIN);

        assert!(matches!(judge(None), Judged::Lost(FailureKind::Reset)));
        assert!(matches!(judge(after(SILENCE_MIN - 1)), Judged::Lost(FailureKind::Reset)));
        assert!(matches!(judge(after(SILENCE_MIN)), Judged::Certain { may_be_shifted: true }));
    });
}

#[test]
fn what_is_full_rests_or_gets_one_request_more() {
    run(async {
        let world = World::new().await;
        let (mut fast, _one) = world.open::<Numbers>().await;
        reply(&mut fast, 1, FAST);
        assert!(!fast.must_rest(false, FAST));
        assert!(fast.must_rest(true, FAST));

        let (mut slow, _other) = world.holding(SLOWER).await;
        assert!(!slow.connection.is_ending());
        assert!(!slow.must_rest(true, SLOWER), "it would rest for too long");
        assert!(slow.connection.is_ending());
    });
}

#[test]
fn what_follows_a_reply_depends_on_what_comes_after_it() {
    run(async {
        let world = World::new().await;
        let (task, mut server) = world.open::<Numbers>().await;

        assert_eq!(task.after_reply(IdleState::Quiet, true, true), AfterReply::Open);
        assert_eq!(task.after_reply(IdleState::Quiet, false, true), AfterReply::Ends);
        assert_eq!(task.after_reply(IdleState::Closed, true, true), AfterReply::Ends);
        assert_eq!(task.after_reply(IdleState::Unsolicited, false, true), AfterReply::Surplus);
        send_stray(&mut server, &task).await;
        assert_eq!(task.after_reply(IdleState::Quiet, true, false), AfterReply::Open);
        assert_eq!(task.after_reply(IdleState::Quiet, true, true), AfterReply::Surplus);
    });
}

#[test]
fn a_task_parts_from_its_connection_to_the_pool_unless_that_holds_something() {
    run(async {
        let world = World::new().await;
        let resting = RestingConnections::default();
        let (mut empty, _one) = world.open::<Numbers>().await;
        let (mut holding, _other) = world.holding(FAST).await;

        resting.part(&mut empty, &world.pool);
        assert_eq!((resting.count(), world.pool.open_connections()), (0, 2));
        resting.part(&mut holding, &world.pool);
        assert_eq!((resting.count(), world.pool.open_connections()), (1, 2));

        resting.bring(&mut empty, &world.pool, &world.origin, ANYWHERE);
        assert!(empty.connection.is_open(), "from the pool");
        resting.leave(&mut empty, &world.pool);
        assert!(!empty.connection.is_open() && resting.count() == 1);
        let (mut leaving, _third) = world.holding(FAST).await;
        resting.leave(&mut leaving, &world.pool);
        assert!(resting.count() == 2 && !leaving.connection.is_open());
        assert!(leaving.connection.is_at(&world.origin));
    });
}

#[test]
fn those_that_rest_are_taken_when_they_are_due() {
    run(async {
        let world = World::new().await;
        let resting = RestingConnections::default();
        let (mut slow, _one) = world.holding(SLOWER).await;
        resting.part(&mut slow, &world.pool);
        let (mut fast, _other) = world.open::<Numbers>().await;
        reply(&mut fast, 3, FAST);
        assert!(matches!(resting.rest(&mut fast, 2, &watch()).await, Judged::Pending), "there is room");
        assert!(resting.take_rested(tokio::time::Instant::now()).is_none());

        resting.due().await;

        let (taken, judged) = resting.take_rested(tokio::time::Instant::now()).unwrap();
        assert_eq!((taken.held.0.as_slice(), resting.count()), (&[3][..], 1));
        assert!(matches!(judged, Judged::Certain { .. }), "{judged:?}");
    });
}

#[test]
fn room_is_waited_for_and_then_made() {
    run(async {
        let world = World::new().await;
        let resting = RestingConnections::default();
        assert!(resting.make_room(0, |_: &Numbers| true).await.is_none());
        for number in [1, 2] {
            let (mut task, _server) = world.holding(SLOWER).await;
            task.held.0.push(10 + number);
            resting.part(&mut task, &world.pool);
        }
        let started = Instant::now();

        let made = resting.make_room(1, |held| held.0.contains(&11)).await;

        let (lost, judged) = made.unwrap();
        assert!(started.elapsed() >= Duration::from_secs(1));
        assert!(matches!(judged, Judged::Lost(FailureKind::TotalTimeout)), "{judged:?}");
        assert_eq!((lost.held.0.as_slice(), resting.count()), (&[1, 2, 11][..], 1));
        assert!(resting.make_room(1, |_| true).await.is_none());
    });
}

#[test]
fn an_unused_connection_stays_open_only_if_nothing_has_come() {
    run(async {
        let world = World::new().await;
        let (mut quiet, _one) = world.holding(FAST).await;
        let (mut ended, server) = world.holding(FAST).await;
        drop(server);
        while ended.connection.look() == IdleState::Quiet {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (mut stray, mut other) = world.holding(FAST).await;
        send_stray(&mut other, &stray).await;

        assert!(matches!(quiet.check_unused(), Judged::Pending) && quiet.connection.is_open());
        // When the connection closes, the replies held on it become certain.
        assert!(matches!(ended.check_unused(), Judged::Certain { .. }) && !ended.connection.is_open());
        assert!(matches!(stray.check_unused(), Judged::Surplus { .. }) && !stray.connection.is_open());
    });
}

#[test]
fn who_holds_nothing_gets_a_connection_that_was_silent() {
    run(async {
        let world = World::new().await;
        let (mut task, _server) = world.open::<()>().await;
        let mut other = RestedConnection::default();
        task.renew(&world.pool, &world.origin);
        assert!(!task.connection.is_open(), "it has not rested");

        world.clock.set(SILENCE_MIN / 1000 + 1);
        other.renew(&world.pool, &world.origin);

        assert!(other.connection.is_open() && !other.is_holding());
    });
}

/// Replies held for several programs.
#[derive(Debug, Default)]
struct SharedReplies(Numbers);

impl HeldReplies for SharedReplies {
    const OUTLIVE_WATCH: bool = true;

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[test]
fn what_outlives_a_watch_goes_on_resting_when_it_expires() {
    run(async {
        let world = World::new().await;
        let (mut task, _server) = world.open::<SharedReplies>().await;
        for number in 1..3 {
            task.note_replies(1, 0, SLOW);
            task.held.0.0.push(number);
        }
        let (resting, watch) = (RestingConnections::default(), watch());

        let (judged, ()) = tokio::join!(resting.end(&mut task, 0, &watch), async {
            watch.expire(FailureKind::TotalTimeout);
        });

        assert!(matches!(judged, Judged::Pending), "{judged:?}");
        assert_eq!((resting.count(), task.is_holding()), (1, false));
    });
}
