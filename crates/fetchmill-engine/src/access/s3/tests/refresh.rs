//! Tests of the renewal of credentials, both before they expire and after a server reports that they have expired.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::super::S3Options;
use super::super::access::Access;
use super::super::settings::S3Settings;
use super::World;
use super::server::{Server, document};
use crate::access::renewal::{CredentialSource as _, LoadedCredentials, Refresher, Renewal};
use fetchmill_model::s3::Credentials;
use fetchmill_model::text::dates::utc;

const FAR: u64 = 1_893_456_000;
/// Time limit for events that normally take a second.
const PATIENCE: Duration = Duration::from_secs(15);

fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Holder of a job's credentials. They come from a container that returns new ones each time: `KEY0`, `KEY1`, ...
struct Job {
    access: Arc<Access>,
    refresher: Refresher<Access>,
    server: Server,
    is_down: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

/// Creates a job. Its first credentials expire after `life` seconds, and all later ones never expire.
fn job(life: u64) -> Job {
    let (count, is_down, is_over) =
        (AtomicU64::new(0), Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let down = Arc::clone(&is_down);
    let server = Server::start(move |_| {
        if down.load(Ordering::Relaxed) {
            return (403, String::new());
        }
        std::thread::sleep(Duration::from_millis(100));
        let number = count.fetch_add(1, Ordering::Relaxed);
        (200, document(&format!("KEY{number}"), &utc(if number == 0 { now() + life } else { FAR })))
    });
    let chain = World::new().set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &server.url).chain();
    let loaded = chain.load(&|| false).unwrap();
    let access = Access::new(S3Settings::without_environment(&S3Options::default()));
    access.set_credentials(loaded.as_ref().map(|loaded| loaded.credentials.clone()));
    let over = Arc::clone(&is_over);
    let refresher = Refresher::start(&access, chain, loaded, move || over.load(Ordering::Relaxed)).unwrap();
    Job { access, refresher, server, is_down, is_over }
}

#[test]
fn credentials_are_replaced_before_they_expire() {
    let job = job(4);
    let (seen, start) = (job.access.generation(), now());

    await_that("the credentials were not replaced", || job.access.generation() > seen);

    assert_eq!(job.server.asked().len(), 2);
    assert!(now() >= start + 2, "the credentials were replaced too early");
    // The new credentials do not expire.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(job.server.asked().len(), 2);
}

#[test]
fn a_burst_of_expired_replies_makes_one_look() {
    let job = job(3600);
    let seen = job.access.generation();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                await_that("nothing newer comes", || {
                    let start = Instant::now();
                    let renewal = job.refresher.renew(seen);
                    assert!(start.elapsed() < Duration::from_secs(2), "the caller had to wait");
                    assert!(!matches!(renewal, Renewal::Failed(_)), "{renewal:?}");
                    renewal == Renewal::Newer
                });
            });
        }
    });

    assert_eq!(job.server.asked().len(), 2);
    assert_eq!(job.refresher.renew(seen), Renewal::Newer);
    assert_eq!(job.access.generation(), seen + 1);
}

#[test]
fn the_old_ones_stay_while_there_are_no_new_ones_and_it_is_tried_again() {
    let job = job(3600);
    let seen = job.access.generation();
    job.is_down.store(true, Ordering::Relaxed);
    let failed = || matches!(job.refresher.renew(seen), Renewal::Failed(why) if why.contains("status 403"));
    assert_eq!(job.refresher.renew(seen), Renewal::Pending);
    await_that("the failure was not reported", failed);
    assert!(job.access.is_signed() && job.access.generation() == seen);

    job.is_down.store(false, Ordering::Relaxed);
    await_that("the search was not repeated", || job.refresher.renew(seen) == Renewal::Newer);
}

#[test]
fn what_a_user_has_not_renewed_is_told() {
    let world = World::new().credentials("[default]\naws_access_key_id = A\naws_secret_access_key = s\n");
    let (access, chain) = (Access::new(S3Settings::without_environment(&world.options)), world.chain());
    let loaded = chain.load(&|| false).unwrap();
    let refresher = Refresher::start(&access, chain, loaded, || false).unwrap();
    let seen = access.generation();
    let expected = "the credentials have expired; renew them and run the same command again (profile \
                    default provides no newer credentials)";
    await_that("the failure was not reported", || refresher.renew(seen) == Renewal::Failed(expected.into()));

    let world = world.credentials("[default]\naws_access_key_id = B\naws_secret_access_key = s\n");
    await_that("the new file was not read", || refresher.renew(seen) == Renewal::Newer);
    drop(world);
}

#[test]
fn an_environment_has_nothing_newer() {
    let world = World::new().set("AWS_ACCESS_KEY_ID", "A").set("AWS_SECRET_ACCESS_KEY", "s");
    let (access, chain) = (Access::new(S3Settings::without_environment(&world.options)), world.chain());
    let loaded = chain.load(&|| false).unwrap();
    let refresher = Refresher::start(&access, chain, loaded, || false).unwrap();

    let expected = "the credentials have expired; renew them and run the same command again";
    assert_eq!(refresher.renew(access.generation()), Renewal::Failed(expected.into()));
}

#[test]
fn it_ends_with_the_job_whatever_it_waits_for() {
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let job = job(3600);
    let path = format!("http://{}", mute.local_addr().unwrap());
    let world = World::new().set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &path);
    let over = Arc::clone(&job.is_over);
    let loaded = job_loaded();
    let waiting =
        Refresher::start(&job.access, world.chain(), Some(loaded), move || over.load(Ordering::Relaxed))
            .unwrap();
    assert_eq!(waiting.renew(job.access.generation()), Renewal::Pending);
    let (stream, _) = mute.accept().unwrap();

    job.is_over.store(true, Ordering::Relaxed);
    let start = Instant::now();
    drop(waiting);
    drop(job.refresher);

    assert!(start.elapsed() < Duration::from_secs(3), "a thread is still running");
    drop(stream);
}

fn job_loaded() -> LoadedCredentials<Credentials> {
    let world = World::new().credentials("[default]\naws_access_key_id = A\naws_secret_access_key = s\n");
    world.chain().load(&|| false).unwrap().unwrap()
}

#[test]
fn it_does_not_keep_those_whose_credentials_it_keeps() {
    let job = job(3600);
    let access = Arc::downgrade(&job.access);

    drop(job.access);

    await_that("somebody keeps them", || access.strong_count() == 0);
    assert!(matches!(job.refresher.renew(1), Renewal::Pending | Renewal::Failed(_)));
    drop(job.refresher);
}
