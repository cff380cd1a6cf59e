//! Tests of passes without a network. The tests write listings as files, and put objects where a job would store them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::apply::{Application, ApplyPaths};
use super::compare::{BaseObject, Comparison, compare};
use super::conclude::conclude;
use super::database;
use super::listing::{ListedNames, ListedObject};
use super::placed_files::PlacedFiles;
use super::plan::{self, PlanCounts, PlanOptions, PlanPlace, PlannedAction};
use super::synced_shards::no_numbers;
use super::{SyncDestination, SyncLedger, SyncStore};
use crate::sink::Format;

/// Time when the objects of a base were checked. The other constants are earlier times.
const CHECKED: i64 = 1_000_000;
const OLD: Option<i64> = Some(CHECKED - 100);
const YOUNG: Option<i64> = Some(CHECKED - 1);

fn listed(size: Option<i64>, etag: Option<&str>, modified: Option<i64>) -> ListedObject {
    let url = Some("http://a/n".to_owned());
    ListedObject { name: b"n".to_vec(), url, size, etag: etag.map(str::to_owned), modified }
}

fn base(before: &ListedObject, etag: Option<&str>, modified: Option<i64>) -> BaseObject {
    BaseObject {
        name: before.name.clone(),
        url: before.url.clone(),
        listed_size: before.size,
        listed_etag: before.etag.clone(),
        listed_modified: before.modified,
        etag: etag.map(|etag| etag.as_bytes().to_vec()),
        modified,
        length: 7,
        mtime_ns: Some(1),
        checked_at: CHECKED,
    }
}

#[test]
fn what_is_listed_decides_unless_it_proves_nothing() {
    use Comparison::{Ask, Fetch, Unchanged};
    let seven = Some(7);
    for (now, before, etag, modified, expected) in [
        // ETags of listings.
        (listed(seven, Some("a"), OLD), listed(seven, Some("a"), OLD), None, None, Unchanged),
        (listed(seven, Some("b"), OLD), listed(seven, Some("a"), OLD), None, None, Fetch),
        (listed(Some(8), Some("a"), OLD), listed(seven, Some("a"), OLD), None, None, Fetch),
        // A listed ETag, and the ETag of the reply.
        (listed(None, Some("a"), None), listed(None, None, None), Some("\"a\""), None, Unchanged),
        (listed(None, Some("a"), None), listed(None, None, None), Some("W/\"a\""), None, Ask),
        // Sizes and times.
        (listed(seven, None, OLD), listed(seven, None, OLD), None, None, Unchanged),
        (listed(seven, None, OLD), listed(seven, None, Some(1)), None, None, Fetch),
        (listed(Some(8), None, OLD), listed(seven, None, OLD), None, None, Fetch),
        (listed(seven, None, YOUNG), listed(seven, None, YOUNG), Some("\"a\""), YOUNG, Fetch),
        (listed(seven, None, OLD), listed(None, None, None), None, OLD, Unchanged),
        // Only a time.
        (listed(None, None, OLD), listed(None, None, OLD), None, None, Fetch),
        (listed(None, None, OLD), listed(None, None, OLD), Some("\"a\""), None, Ask),
        (listed(None, None, OLD), listed(None, None, Some(1)), Some("\"a\""), None, Fetch),
        // No metadata, or only a size.
        (listed(None, None, None), listed(None, None, None), None, None, Fetch),
        (listed(None, None, None), listed(None, None, None), Some("\"a\""), None, Ask),
        (listed(None, None, None), listed(None, None, None), None, OLD, Ask),
        (listed(None, None, None), listed(None, None, None), Some("\"a\""), YOUNG, Fetch),
        (listed(seven, None, None), listed(None, None, None), None, OLD, Ask),
        (listed(Some(8), None, None), listed(None, None, None), None, OLD, Fetch),
    ] {
        let base = base(&before, etag, modified);
        assert_eq!(compare(&now, &base), expected, "{now:?} {base:?}");
    }
    let moved = ListedObject { url: Some("http://b/n".into()), ..listed(seven, Some("a"), OLD) };
    assert_eq!(compare(&moved, &base(&listed(seven, Some("a"), OLD), None, None)), Comparison::Fetch);
}

/// A destination with the state folder of a sync.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for path in ["dest/.fetchmill/sync", "fetched"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        World { folder }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Writes a listing of names with ETags.
    fn list(&self, rows: &[(String, String)]) -> PathBuf {
        let path = self.path("listing.csv");
        let mut text = "name,url,size,etag,last_modified\n".to_owned();
        for (name, etag) in rows {
            writeln!(text, "{name},http://a/{name},1,{etag},").unwrap();
        }
        std::fs::write(&path, text).unwrap();
        path
    }

    fn destination(&self) -> SyncDestination {
        SyncDestination {
            path: self.path("dest"),
            format: Format::Files,
            shard_bytes: None,
            accepts_foreign: false,
        }
    }

    fn store(&self) -> SyncStore {
        SyncStore::open(&self.destination(), None).unwrap()
    }

    /// Stores fetched objects as a job does, and records their outcomes.
    fn fetch(&self, objects: &[(&str, &str)]) -> PathBuf {
        let outcomes = self.path("dest/.fetchmill/sync/outcomes.sqlite");
        super::outcomes::gather(None, &outcomes).unwrap();
        std::fs::remove_dir_all(self.path("fetched")).unwrap();
        std::fs::create_dir(self.path("fetched")).unwrap();
        let db = rusqlite::Connection::open(&outcomes).unwrap();
        for (name, body) in objects {
            let path = self.path("fetched").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, body).unwrap();
            let row = rusqlite::params![name.as_bytes(), body.len() as i64];
            db.execute("REPLACE INTO fetched VALUES (?, ?, 0, NULL, NULL, NULL)", row).unwrap();
        }
        outcomes
    }

    fn apply(&self, outcomes: &Path, overwrites_local: bool) -> Application {
        let files = PlacedFiles::open(&self.path("dest"), Some(&self.path("fetched")), overwrites_local);
        let paths = ApplyPaths {
            base: &self.path("dest/.fetchmill/sync/base.sqlite"),
            plan: &self.path("dest/.fetchmill/sync/pass.sqlite"),
            outcomes,
        };
        let application = Application::begin(&paths, Some(files.unwrap())).unwrap();
        no_numbers(&application.db).unwrap();
        application
    }

    /// Runs a pass whose job fetches these objects. If `killed`, applies the pass a second time.
    fn pass(&self, number: u64, rows: &[(&str, &str)], objects: &[(&str, &str)], killed: bool) -> SyncLedger {
        let rows: Vec<_> = rows.iter().map(|(name, etag)| ((*name).to_owned(), (*etag).to_owned())).collect();
        let mut store = self.store();
        let options = PlanOptions { number, delete: true, started_at: CHECKED, ..PlanOptions::default() };
        store.plan(&self.list(&rows), &options).unwrap();
        let outcomes = self.fetch(objects);
        let mut application = self.apply(&outcomes, false);
        assert!(application.work(std::time::Duration::MAX).unwrap());
        if killed {
            application = self.apply(&outcomes, false);
            assert!(application.work(std::time::Duration::MAX).unwrap());
        }
        let counts = store.planned().unwrap();
        let base = self.path("dest/.fetchmill/sync/base.sqlite");
        let ledger = conclude(&application.db, &base, &options, &counts).unwrap();
        store.discard().unwrap();
        ledger
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path("dest").join(name)).ok()
    }
}

#[test]
fn objects_come_change_and_go_also_when_it_is_done_twice() {
    for killed in [false, true] {
        let world = World::new();
        let first = world.pass(
            1,
            &[("a", "1"), ("b/c", "1"), ("d", "1")],
            &[("a", "A"), ("b/c", "C"), ("d", "D")],
            killed,
        );
        assert_eq!((first.listed, first.fetched, first.bytes), (3, 3, 3));

        // A folder becomes a file, and a file becomes a folder.
        let rows = [("a", "1"), ("b", "1"), ("d/e", "1")];
        let second = world.pass(2, &rows, &[("b", "B"), ("d/e", "E")], killed);

        assert_eq!((second.unchanged, second.fetched, second.removed, second.failed), (1, 2, 2, 0));
        assert_eq!(
            [world.read("a"), world.read("b"), world.read("d/e")].map(Option::unwrap),
            ["A", "B", "E"]
        );
        let summary = world.store().base().unwrap().unwrap();
        assert_eq!((summary.pass, summary.objects), (2, 3));
    }
}

#[test]
fn what_was_changed_here_stays() {
    let world = World::new();
    world.pass(1, &[("a", "1"), ("b", "1"), ("c", "1")], &[("a", "A"), ("b", "B"), ("c", "C")], false);
    std::fs::write(world.path("dest/a"), "mine").unwrap();
    std::fs::write(world.path("dest/b"), "mine too").unwrap();
    std::fs::write(world.path("dest/new"), "not of a sync").unwrap();

    let ledger = world.pass(2, &[("a", "2"), ("c", "1"), ("new", "1")], &[("a", "AA"), ("new", "N")], false);

    assert_eq!((ledger.failed, ledger.not_removed, ledger.unchanged, ledger.fetched), (2, 1, 1, 0));
    let kinds: Vec<_> = ledger.kinds.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(kinds, [("local-change", 1), ("name-taken", 1)]);
    assert_eq!(world.read("a").unwrap(), "mine");
    let failed: Vec<_> = world.store().failures(None, 10).unwrap().into_iter().map(|row| row.name).collect();
    assert_eq!(failed, [b"a".to_vec(), b"b".to_vec(), b"new".to_vec()]);
}

#[test]
fn a_link_that_is_planted_is_not_followed() {
    let world = World::new();
    world.pass(1, &[("d/a", "1"), ("e", "1")], &[("d/a", "A"), ("e", "E")], false);
    std::fs::create_dir(world.path("outside")).unwrap();
    std::fs::write(world.path("outside/a"), "A").unwrap();
    std::fs::remove_dir_all(world.path("dest/d")).unwrap();
    std::os::unix::fs::symlink(world.path("outside"), world.path("dest/d")).unwrap();
    std::fs::remove_file(world.path("dest/e")).unwrap();
    std::os::unix::fs::symlink(world.path("outside/a"), world.path("dest/e")).unwrap();

    let ledger = world.pass(2, &[("d/b", "1"), ("e", "2")], &[("d/b", "B"), ("e", "EE")], false);

    assert_eq!((ledger.fetched, ledger.removed), (0, 0));
    assert_eq!(std::fs::read_to_string(world.path("outside/a")).unwrap(), "A");
    assert_eq!(std::fs::read_dir(world.path("outside")).unwrap().count(), 1);
}

#[test]
fn a_second_process_is_refused() {
    let world = World::new();
    let _store = world.store();

    assert_eq!(SyncStore::open(&world.destination(), None).unwrap_err().exit_code(), 9);
    assert!(SyncStore::open(&world.destination(), Some(&world.path("fetched"))).is_ok());
}

/// The base of a release that stored objects only as files.
#[test]
fn a_base_of_version_1_gets_a_column_for_shards() {
    let world = World::new();
    let path = world.path("base.sqlite");
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(
        "CREATE TABLE objects (
             name BLOB PRIMARY KEY, url TEXT, listed_size INTEGER, listed_etag TEXT, listed_modified INTEGER,
             etag BLOB, modified INTEGER, length INTEGER NOT NULL, crc32c INTEGER NOT NULL, mtime_ns INTEGER,
             checked_at INTEGER NOT NULL) WITHOUT ROWID;
         INSERT INTO objects VALUES ('n', NULL, NULL, NULL, NULL, NULL, NULL, 1, 0, 1, 0);
         PRAGMA user_version = 1",
    )
    .unwrap();
    drop(old);

    for _ in 0..2 {
        let db = database::open_base(&path).unwrap();
        let shard: Option<i64> = db.query_row("SELECT shard FROM objects", [], |row| row.get(0)).unwrap();
        assert_eq!(shard, None);
    }
}

/// The process was killed after creating the file, but before creating the tables.
#[test]
fn a_base_without_tables_is_an_empty_one() {
    let world = World::new();
    drop(world.store());
    std::fs::write(world.path("dest/.fetchmill/sync/base.sqlite"), "").unwrap();

    assert_eq!(world.store().base().unwrap(), None);
    assert_eq!(world.pass(1, &[("a", "1")], &[("a", "A")], false).fetched, 1);
}

/// The files of a base during a transaction that is too large for memory.
#[test]
fn what_a_kill_has_left_of_a_transaction_is_undone() {
    let world = World::new();
    world.pass(1, &[("a", "1")], &[("a", "A")], false);
    let base = world.path("dest/.fetchmill/sync/base.sqlite");
    let db = database::open_base(&base).unwrap();
    db.execute_batch("PRAGMA cache_size = 1; BEGIN IMMEDIATE; DELETE FROM objects").unwrap();
    let mut insert = db.prepare("INSERT INTO failures VALUES (?, 'failed', ?, NULL)").unwrap();
    for number in 0..1000 {
        insert.execute(rusqlite::params![format!("n{number}").as_bytes(), "k".repeat(100)]).unwrap();
    }
    let journal = world.path("dest/.fetchmill/sync/base.sqlite-journal");
    let killed = [std::fs::read(&base).unwrap(), std::fs::read(&journal).unwrap()];
    drop(insert);
    drop(db);
    for (path, bytes) in [&base, &journal].into_iter().zip(killed) {
        std::fs::write(path, bytes).unwrap();
    }

    let store = world.store();

    assert_eq!(store.base().unwrap().unwrap().objects, 1);
    assert_eq!(store.failures(None, 10).unwrap(), []);
}

/// Compares random listings with set operations. The names are in random order, and some of them occur twice.
#[test]
fn random_listings_are_compared_as_sets_are() {
    let seed = std::env::var("FETCHMILL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7_u64);
    // xorshift64, whose state must not be 0.
    let mut state = seed | 1;
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    let world = World::new();
    let base_path = world.path("base.sqlite");
    let before: BTreeMap<String, u64> = (0..3000).map(|_| (format!("n{}", below(5000)), below(3))).collect();
    let db = database::open_base(&base_path).unwrap();
    for (name, etag) in &before {
        let row = rusqlite::params![name.as_bytes(), format!("http://a/{name}"), etag.to_string()];
        db.execute("INSERT INTO objects VALUES (?, ?, 1, ?, NULL, NULL, NULL, 1, 0, 1, 0, NULL)", row)
            .unwrap();
    }
    let rows: Vec<(String, String)> =
        (0..4000).map(|_| (format!("n{}", below(5000)), below(3).to_string())).collect();
    let mut now = BTreeMap::new();
    for (name, etag) in &rows {
        now.entry(name.clone()).or_insert_with(|| etag.clone());
    }

    let options = PlanOptions { delete: true, protected: vec!["n1".into()], ..PlanOptions::default() };
    let names = ListedNames { of_urls: false, are_decoded: true, of_bytes: true };
    let place = PlanPlace {
        path: &world.path("pass.sqlite"),
        dest: &world.path("dest"),
        names,
        is_dry_of_files: false,
    };
    let counts = plan::make(&place, &db, &world.list(&rows), &options).unwrap();

    let unchanged =
        |name: &String, etag: &String| before.get(name).is_some_and(|known| known.to_string() == *etag);
    let fetch: BTreeSet<_> =
        now.iter().filter(|(name, etag)| !unchanged(name, etag)).map(|(name, _)| name.clone()).collect();
    let gone = || before.keys().filter(|name| !now.contains_key(*name));
    let remove: BTreeSet<_> = gone().filter(|name| !name.starts_with("n1")).cloned().collect();
    let expected = PlanCounts {
        listed: rows.len() as u64,
        unchanged: (now.len() - fetch.len()) as u64,
        fetch: fetch.len() as u64,
        remove: remove.len() as u64,
        kept: (gone().count() - remove.len()) as u64,
        skipped: (rows.len() - now.len()) as u64,
        base: before.len() as u64,
        ..PlanCounts::default()
    };
    assert_eq!(counts, expected, "FETCHMILL_SEED={seed}");
    for (action, names) in [(PlannedAction::Fetch, fetch), (PlannedAction::Remove, remove)] {
        let found = plan::names(place.path, action, None, 10_000).unwrap();
        assert_eq!(found, names.into_iter().map(String::into_bytes).collect::<Vec<_>>());
    }
}
