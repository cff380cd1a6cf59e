//! Tests of the journal as a whole.

use std::path::Path;

use super::*;
use fetchmill_model::outcome::skips::{SkipReason, Skips};
use fetchmill_model::outcome::{FailureKind, Receipt, Runs, ShardEnd, Tally};
use fetchmill_model::source::{ListPosition, ListedPage, PageCursor};
use fetchmill_model::target::{Names, WaitingTarget};
use fetchmill_model::text::file_name::FileName;

fn identity(source: &str) -> Identity {
    Identity::new([("source", source.to_owned()), ("format", "files".to_owned())])
}

fn open(dest: &Path) -> Journal {
    let place = JobLocation::prepare(dest, None).unwrap();
    Journal::open(&place, &identity("http://a"), false).unwrap()
}

fn page(names: &[&str], from: Option<&str>, next: Option<&str>) -> ListedPage {
    let mut listed = Names::default();
    for name in names {
        listed.push(name.as_bytes());
    }
    let cursor = PageCursor::Marker { from: from.map(Into::into), next: next.map(Into::into) };
    ListedPage { names: listed, skipped: Skips::default(), total: None, cursor }
}

fn receipt(sequences: &[u64]) -> Receipt {
    let tally = Tally { fetched: sequences.len() as u64, ..Tally::default() };
    Receipt { settled: Runs::from_unsorted(&mut sequences.to_vec()), tally, ..Receipt::default() }
}

fn pending(journal: &Journal) -> Vec<String> {
    let mut from = 0;
    let mut names = Vec::new();
    while let Some((first, page, ranges)) = journal.next_live_page(from).unwrap() {
        for position in ranges.into_iter().flatten() {
            names.push(String::from_utf8_lossy(page.get(position)).into_owned());
        }
        from = first + 1;
    }
    names
}

#[test]
fn what_was_committed_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    assert_eq!(journal.add_page(&page(&["a", "b", "c"], None, Some("1"))).unwrap(), 0);
    assert_eq!(journal.add_page(&page(&["d"], Some("1"), None)).unwrap(), 3);
    journal.settle(&receipt(&[1, 3])).unwrap();
    journal.commit().unwrap();
    drop(journal);

    let journal = open(folder.path());

    assert_eq!(pending(&journal), ["a", "c"]);
    assert_eq!(journal.tally(), Tally { listed: 4, fetched: 2, ..Tally::default() });
    assert!(journal.is_listed().unwrap());
}

#[test]
fn what_was_not_committed_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a"], None, Some("1"))).unwrap();
    journal.commit().unwrap();
    journal.add_page(&page(&["b"], Some("1"), None)).unwrap();
    journal.settle(&receipt(&[0])).unwrap();
    drop(journal);

    let journal = open(folder.path());

    assert_eq!(pending(&journal), ["a"]);
    assert_eq!(journal.get("marker").unwrap().as_deref(), Some("1"));
}

#[test]
fn a_page_without_targets_left_leaves_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a", "b"], None, None)).unwrap();
    journal.settle(&receipt(&[0, 1])).unwrap();
    journal.commit().unwrap();

    let kept: i64 = journal.db.query_row("SELECT count(*) FROM pages", [], |row| row.get(0)).unwrap();

    assert_eq!(kept, 0);
    assert!(journal.next_live_page(0).unwrap().is_none());
}

#[test]
fn a_marker_that_came_before_ends_the_listing() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a"], None, Some("A"))).unwrap();
    journal.add_page(&page(&["b"], Some("A"), Some("B"))).unwrap();

    let error = journal.add_page(&page(&["c"], Some("B"), Some("A"))).unwrap_err();

    assert_eq!(error.exit_code(), 4);
    assert!(error.to_string().contains("marker A"), "{error}");
    journal.commit().unwrap();
    assert_eq!(pending(&journal), ["a", "b"]);
}

#[test]
fn a_waiting_target_leaves_its_page_and_is_settled_from_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a", "b"], None, None)).unwrap();
    let target = WaitingTarget {
        sequence: 1,
        name: b"b"[..].into(),
        attempts: 1,
        kind: FailureKind::Throttled,
        not_before: 77,
        throttled_since: 5,
    };
    journal.add_waiting(std::slice::from_ref(&target)).unwrap();
    journal.settle(&receipt(&[0])).unwrap();
    journal.commit().unwrap();
    assert!(pending(&journal).is_empty());
    assert_eq!(journal.load_waiting((0, 0), 10).unwrap(), (vec![target.clone()], true));

    journal.add_waiting(&[WaitingTarget { not_before: 99, attempts: 2, ..target }]).unwrap();
    assert_eq!(journal.load_waiting((78, 0), 10).unwrap().0[0].attempts, 2);
    journal.settle(&receipt(&[1])).unwrap();
    journal.commit().unwrap();

    assert!(!journal.has_waiting().unwrap());
    assert_eq!(journal.tally().settled(), 2);
}

#[test]
fn another_job_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a"], None, Some("1"))).unwrap();
    journal.commit().unwrap();
    drop(journal);
    let place = JobLocation::prepare(folder.path(), None).unwrap();

    let error = Journal::open(&place, &identity("http://b"), false).unwrap_err();

    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("its source is http://a, not http://b"), "{error}");
}

#[test]
fn a_second_run_is_refused_and_seen() {
    let folder = tempfile::tempdir().unwrap();
    let place = JobLocation::prepare(folder.path(), None).unwrap();
    let _journal = Journal::open(&place, &identity("http://a"), false).unwrap();

    assert_eq!(JobLocation::prepare(folder.path(), None).unwrap_err().exit_code(), 9);
    assert!(JobLocation::find(folder.path(), None).unwrap().is_running());
    drop(place);
    assert!(!JobLocation::find(folder.path(), None).unwrap().is_running());
}

#[test]
fn a_folder_with_other_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "").unwrap();

    assert_eq!(JobLocation::prepare(folder.path(), None).unwrap_err().exit_code(), 2);
    assert!(!folder.path().join(".fetchmill").exists());
}

#[test]
fn a_state_elsewhere_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let (dest, state) = (folder.path().join("dest"), folder.path().join("state"));
    let place = JobLocation::prepare(&dest, Some(&state)).unwrap();
    let _journal = Journal::open(&place, &identity("http://a"), false).unwrap();

    assert_eq!(JobLocation::find(&dest, None).unwrap().state, state);
}

#[test]
fn a_target_is_settled_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a", "b"], None, None)).unwrap();
    journal.settle(&receipt(&[0])).unwrap();

    let error = journal.settle(&receipt(&[0, 1])).unwrap_err();

    assert!(error.to_string().contains("got two outcomes"), "{error}");
}

#[test]
fn staged_targets_keep_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a", "b", "c"], None, None)).unwrap();
    let staged = Runs::from_unsorted(&mut [0, 2]);
    journal.settle(&Receipt { worker: 3, staged: staged.clone(), ..Receipt::default() }).unwrap();
    journal.commit().unwrap();

    assert_eq!(journal.staged().unwrap(), [(3, staged.clone())]);
    let mut names = Vec::new();
    journal
        .for_each_name(&staged, |sequence, name| {
            names.push((sequence, name.to_vec()));
            Ok(())
        })
        .unwrap();
    assert_eq!(names, [(0, b"a".to_vec()), (2, b"c".to_vec())]);
    journal.settle(&Receipt { worker: 3, settled: staged, ..Receipt::default() }).unwrap();
    assert!(journal.staged().unwrap().is_empty());
}

#[test]
fn the_deepest_folder_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.start_walk().unwrap();
    for (path, texts) in [("", &["x", "a"][..]), ("x", &["b"])] {
        let mut found = Names::default();
        for text in texts {
            found.push(text.as_bytes());
        }
        let cursor = PageCursor::Folder {
            path: path.into(),
            found,
            refused: Names::default(),
            read: 3,
            digest: 9,
            is_last: true,
            names_once: false,
        };
        let mut skipped = Skips::default();
        skipped.add(SkipReason::Filter, b"y");
        journal.add_page(&ListedPage { names: Names::default(), skipped, total: None, cursor }).unwrap();
    }

    // The path of a sitemap does not show how deep the sitemap is.
    let deepest = journal.next_folder().unwrap().unwrap();
    assert_eq!((deepest.path.as_slice(), deepest.depth), (&b"b"[..], 2));
    journal.fail_folder(b"b", Some(403), 1, "403").unwrap();
    let next = journal.next_folder().unwrap().unwrap();
    assert_eq!((next.path.as_slice(), next.depth), (&b"a"[..], 1));
    assert_eq!(journal.tally(), Tally { listed: 3, failed: 1, skipped: 2, ..Tally::default() });
}

#[test]
fn a_walk_over_links_takes_each_name_and_folder_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.start_walk().unwrap();
    let names = |texts: &[&str]| {
        let mut names = Names::default();
        for text in texts {
            names.push(text.as_bytes());
        }
        names
    };
    let mut walk = |path: &str, texts: &[&str], found: &[&str]| {
        let cursor = PageCursor::Folder {
            path: path.into(),
            found: names(found),
            refused: Names::default(),
            read: 3,
            digest: 9,
            is_last: true,
            names_once: true,
        };
        let names = journal.keep_unlisted(&names(texts)).unwrap();
        let taken = names.len();
        journal.add_page(&ListedPage { names, skipped: Skips::default(), total: None, cursor }).unwrap();
        (taken, journal.next_folder().unwrap().map(|folder| folder.path))
    };

    assert_eq!(walk("", &["\0\0a", "\0\0b/c"], &["b", "b/d"]), (2, Some(b"b".to_vec())));
    assert_eq!(walk("b", &["\0\0b/c", "\0\0b"], &["b", "b/d"]), (1, Some(b"b/d".to_vec())));
    assert_eq!(walk("b/d", &["\0\0a"], &["b", "b/d"]), (0, None));
}

#[test]
fn the_journal_does_not_grow_with_what_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    let names: Vec<String> = (0..1000).map(|number| format!("{:x}", number * 0x9e37_79b9_u64)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for number in 0..500_u64 {
        let (from, next) = (number.to_string(), (number + 1).to_string());
        let first = journal.add_page(&page(&names, Some(&from), Some(&next))).unwrap();
        journal.settle(&receipt(&(first..first + 1000).collect::<Vec<_>>())).unwrap();
        journal.commit().unwrap();
    }

    let pages: i64 = journal.db.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();

    // Markers take about 40 bytes per page. Names would take 4 KiB per page.
    assert!(pages * 4096 < 300_000, "{} bytes", pages * 4096);
}

#[test]
fn a_job_that_has_listed_nothing_may_become_another() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.start_walk().unwrap();
    drop(journal);

    let place = JobLocation::prepare(folder.path(), None).unwrap();
    let mut journal = Journal::open(&place, &identity("http://b"), false).unwrap();
    assert_eq!(journal.next_folder().unwrap(), None);
    assert_eq!(journal.get("walk").unwrap(), None);
    journal.add_page(&page(&[], None, Some("1"))).unwrap();
    journal.commit().unwrap();
    drop((journal, place));

    let place = JobLocation::prepare(folder.path(), None).unwrap();
    let refused = Journal::open(&place, &identity("http://a"), false).unwrap_err();
    assert_eq!(refused.exit_code(), 2);
    assert!(Journal::open(&place, &identity("http://b"), false).is_ok());
}

#[test]
fn the_total_is_what_the_last_page_that_has_one_says() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    for (total, marker) in [(Some(5), "1"), (Some(6), "2"), (None, "3")] {
        journal.add_page(&ListedPage { total, ..page(&["a"], None, Some(marker)) }).unwrap();
    }
    journal.commit().unwrap();
    drop(journal);

    assert_eq!(open(folder.path()).total(), Some(6));
}

#[test]
fn a_lost_object_waits_again_and_its_shard_is_forgotten_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a", "b"], None, None)).unwrap();
    let end = |path: &str| ShardEnd { path: FileName::of_own(path), end: 9, crc32c: 7 };
    let sealed = |name: &str, objects| fetchmill_model::outcome::SealedShard {
        data: end(name),
        manifest: end("m"),
        objects,
        bytes: 5,
        replaces: Vec::new(),
    };
    let tally = Tally { fetched: 2, bytes: 8, ..Tally::default() };
    let settled = Runs::from_unsorted(&mut [0, 1]);
    let receipt = Receipt { settled, tally, sealed: Some(sealed("old", 2)), ..Receipt::default() };
    assert_eq!(journal.settle(&receipt).unwrap(), Some(0));
    journal.finish().unwrap();
    journal.commit().unwrap();

    journal.plan_again(1, b"b", 3).unwrap();
    assert_eq!(journal.replace_shard(0, Some(&sealed("new", 1))).unwrap(), Some(1));
    journal.roll_back().unwrap();
    assert_eq!((journal.tally().fetched, journal.has_waiting().unwrap()), (2, false));

    journal.plan_again(1, b"b", 3).unwrap();
    let new = journal.replace_shard(0, Some(&sealed("new", 1))).unwrap();
    journal.commit().unwrap();
    drop(journal);
    let journal = open(folder.path());

    assert_eq!(journal.tally(), Tally { listed: 2, fetched: 1, bytes: 5, ..Tally::default() });
    assert_eq!(journal.load_waiting((0, 0), 9).unwrap().0[0].name, b"b"[..].into());
    assert_eq!(journal.get("finished_at").unwrap(), None);
    let shards = journal.shards().unwrap();
    let standing: Vec<_> = shards.iter().map(|shard| (Some(shard.number), shard.is_replaced)).collect();
    assert_eq!(standing, [(Some(0), true), (new, false)]);
}

#[test]
fn a_shard_with_nothing_left_is_replaced_by_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a"], None, None)).unwrap();
    let end = ShardEnd { path: FileName::of_own("p"), end: 1, crc32c: 1 };
    let sealed = fetchmill_model::outcome::SealedShard {
        data: end.clone(),
        manifest: end,
        objects: 1,
        bytes: 0,
        replaces: Vec::new(),
    };
    journal.settle(&Receipt { sealed: Some(sealed), ..receipt(&[0]) }).unwrap();
    assert_eq!(journal.replace_shard(0, None).unwrap(), None);
    journal.commit().unwrap();
    assert!(journal.shards().unwrap()[0].is_replaced);

    journal.forget_replaced().unwrap();
    journal.commit().unwrap();

    assert_eq!(journal.shards().unwrap(), []);
}

#[test]
fn a_job_is_not_finished_before_every_shard_is_uploaded() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    journal.add_page(&page(&["a", "b"], None, None)).unwrap();
    for sequence in [0, 1] {
        let end = ShardEnd { path: FileName::of_own(&format!("{sequence}")), end: 1, crc32c: 1 };
        let sealed = fetchmill_model::outcome::SealedShard {
            data: end.clone(),
            manifest: end,
            objects: 1,
            bytes: 0,
            replaces: Vec::new(),
        };
        journal.settle(&Receipt { sealed: Some(sealed), ..receipt(&[sequence]) }).unwrap();
    }
    journal.note_upload(0, UploadState::Begun).unwrap();
    journal.note_upload(0, UploadState::Done).unwrap();
    journal.note_upload(1, UploadState::Begun).unwrap();
    journal.commit().unwrap();
    assert!(!journal.is_destination_claimed().unwrap());
    journal.claim_destination().unwrap();
    drop(journal);
    let mut journal = open(folder.path());

    assert!(journal.is_destination_claimed().unwrap());
    let uploads: Vec<_> = journal.uploads().unwrap().into_iter().collect();
    assert_eq!(uploads, [(0, UploadState::Done), (1, UploadState::Begun)]);
    assert_eq!(journal.must_be_uploaded().unwrap_err().exit_code(), 1);
    journal.note_upload(1, UploadState::Done).unwrap();
    journal.must_be_uploaded().unwrap();
}

#[test]
fn traits_are_those_of_all_pages_of_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    for (entries, url) in [(1, "https://a/"), (2, "http://a/")] {
        let position = ListPosition { entries, offset: 20, line: 3, digest: u64::MAX, file: entries };
        let cursor = PageCursor::List { position, is_last: false };
        journal.add_page(&ListedPage { cursor, ..page(&[url], None, None) }).unwrap();
    }

    let traits = database::schema::read_traits(&journal.db).unwrap();

    assert!(traits.http && traits.https, "{traits:?}");
}

#[test]
fn a_list_has_its_position_and_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = open(folder.path());
    let of_list = |entries, is_last| {
        let position = ListPosition { entries, offset: 20, line: 3, digest: u64::MAX, file: entries };
        (position, ListedPage { cursor: PageCursor::List { position, is_last }, ..page(&["a"], None, None) })
    };
    let (first, page) = of_list(2, false);
    assert_eq!(journal.list_position().unwrap(), None);

    journal.begin().unwrap();
    journal.add_page(&page).unwrap();
    journal.commit().unwrap();
    drop(journal);
    let mut journal = open(folder.path());

    assert_eq!(journal.list_position().unwrap(), Some(first));
    assert!(!journal.is_listed().unwrap());
    let (last, page) = of_list(3, true);
    journal.add_page(&page).unwrap();
    assert_eq!(journal.list_position().unwrap(), Some(last));
    assert!(journal.is_listed().unwrap());
}
