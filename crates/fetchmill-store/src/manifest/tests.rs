//! Tests of manifests through their public interface.

use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::index::ManifestIndex;
use super::*;
use crate::durable;
use fetchmill_model::outcome::ShardEnd;
use fetchmill_model::text::file_name::FileName;

/// A manifest row that owns its name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owned {
    sequence: u64,
    name: Vec<u8>,
    length: u64,
    crc32c: u32,
    place: u64,
}

impl Owned {
    fn numbered(number: u64, name: impl Into<Vec<u8>>) -> Self {
        Owned { sequence: number, name: name.into(), length: 10, crc32c: number as u32, place: 512 * number }
    }

    fn of(row: &ManifestRow<'_>) -> Self {
        Owned {
            sequence: row.sequence,
            name: row.name.to_vec(),
            length: row.length,
            crc32c: row.crc32c,
            place: row.place,
        }
    }

    fn row(&self) -> ManifestRow<'_> {
        ManifestRow {
            sequence: self.sequence,
            name: &self.name,
            length: self.length,
            crc32c: self.crc32c,
            place: self.place,
            ..ManifestRow::default()
        }
    }

    fn found(&self, row: u64) -> FoundRow {
        FoundRow::of(row, &self.row())
    }
}

/// Generates rows with few different names, so that some names occur twice.
fn rows_strategy() -> impl Strategy<Value = Vec<Owned>> {
    let name = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::sample::select(vec![b"".to_vec(), b"a".to_vec(), b"\xff\xfe".to_vec()]),
    ];
    let number = prop_oneof![any::<u64>(), 0..1000_u64, Just(u64::MAX)];
    let row = (number.clone(), name, number.clone(), any::<u32>(), number)
        .prop_map(|(sequence, name, length, crc32c, place)| Owned { sequence, name, length, crc32c, place });
    prop::collection::vec(row, 0..60)
}

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Fixture { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn writer(&self, name: &str) -> ManifestWriter {
        ManifestWriter::new(self.folder.path(), FileName::of_own(name), false)
    }

    fn hashed_writer(&self, hash: fn(&[u8]) -> u64) -> ManifestWriter {
        let index = Some(ManifestIndex::new(hash));
        ManifestWriter::with_index(self.folder.path(), FileName::of_own("m"), false, index)
    }

    /// Seals a manifest whose frames have `frame_rows` rows each.
    fn sealed(&self, rows: &[Owned], frame_rows: usize) -> Manifest {
        let mut writer = self.writer("m");
        add_in_frames(&mut writer, rows, frame_rows);
        writer.seal().unwrap();
        self.open()
    }

    fn open(&self) -> Manifest {
        Manifest::open(&self.path("m")).unwrap()
    }
}

fn add_all(writer: &mut ManifestWriter, rows: &[Owned]) {
    for row in rows {
        writer.add(&row.row()).unwrap();
    }
}

fn add_in_frames(writer: &mut ManifestWriter, rows: &[Owned], frame_rows: usize) {
    for frame in rows.chunks(frame_rows) {
        add_all(writer, frame);
        writer.checkpoint().unwrap();
    }
}

/// Returns the rows that can be read. If there are more rows, also returns the error.
fn read(path: &Path, end: Option<u64>) -> (Vec<Owned>, Result<()>) {
    let mut found = Vec::new();
    let mut read = || -> Result<()> {
        let mut rows = ManifestRows::open(path, end)?;
        while let Some(frame) = rows.next_frame()? {
            assert_eq!(frame.first_row(), found.len() as u64);
            found.extend(frame.iter().map(|row| Owned::of(&row)));
        }
        Ok(())
    };
    let result = read();
    (found, result)
}

fn read_all(path: &Path, end: Option<u64>) -> Vec<Owned> {
    let (rows, result) = read(path, end);
    result.unwrap();
    rows
}

fn expected(rows: &[Owned], name: &[u8]) -> Vec<FoundRow> {
    let numbered = rows.iter().zip(0_u64..);
    numbered.filter(|(row, _)| row.name == name).map(|(row, number)| row.found(number)).collect()
}

fn numbered(count: u64) -> Vec<Owned> {
    (0..count).map(|number| Owned::numbered(number, format!("name-{number}"))).collect()
}

proptest! {
    #[test]
    fn rows_come_back_whatever_they_are(rows in rows_strategy(), frame_rows in 1..30_usize) {
        let fixture = Fixture::new();
        let manifest = fixture.sealed(&rows, frame_rows);

        prop_assert_eq!(&read_all(&fixture.path("m"), None), &rows);
        prop_assert_eq!(manifest.rows(), rows.len() as u64);
        prop_assert_eq!(manifest.bytes(), rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.length)));
        for (number, row) in (0_u64..).zip(&rows) {
            prop_assert_eq!(manifest.find(&row.name).unwrap(), expected(&rows, &row.name));
            let frame = manifest.frame(manifest.frame_of_row(number).unwrap()).unwrap();
            prop_assert_eq!(frame.row((number - frame.first_row()) as usize), row.row());
        }
        prop_assert_eq!(manifest.frame_of_row(manifest.rows()), None);
    }

    #[test]
    fn a_manifest_that_was_left_open_is_sealed_as_if_it_had_not_been(
        rows in rows_strategy(), lost in rows_strategy(), frame_rows in 1..30_usize,
    ) {
        let fixture = Fixture::new();
        let mut whole = fixture.writer("whole");
        add_in_frames(&mut whole, &rows, frame_rows);
        let mut left = fixture.writer("left");
        add_in_frames(&mut left, &rows, frame_rows);
        let receipt = left.checkpoint().unwrap();
        add_in_frames(&mut left, &lost, frame_rows);
        drop(left);

        let end = whole.seal().unwrap();
        let Some(receipt) = receipt else { return Ok(()) };
        let sealed = seal_open(fixture.folder.path(), &receipt, false).unwrap();

        prop_assert_eq!(&ShardEnd { path: FileName::of_own("left"), ..end }, &sealed);
        let bytes = std::fs::read(fixture.path("left")).unwrap();
        prop_assert_eq!(&bytes, &std::fs::read(fixture.path("whole")).unwrap());
        prop_assert_eq!((bytes.len() as u64, crc32c::crc32c(&bytes)), (sealed.end, sealed.crc32c));
    }

    #[test]
    fn names_whose_hashes_collide_are_told_apart(rows in rows_strategy(), frame_rows in 1..30_usize) {
        let hash = |name: &[u8]| u64::from(name.first().copied().unwrap_or(0) & 1) * ((1 << 44) - 1);
        let fixture = Fixture::new();
        let mut writer = fixture.hashed_writer(hash);
        add_in_frames(&mut writer, &rows, frame_rows);
        writer.seal().unwrap();
        let manifest = fixture.open();

        for row in &rows {
            prop_assert_eq!(
                manifest.find_hashed(&row.name, hash(&row.name)).unwrap(),
                expected(&rows, &row.name)
            );
        }
        prop_assert_eq!(manifest.find_hashed(b"not one of these, it is too long for that.", 0).unwrap(), []);
    }

    #[test]
    fn damage_anywhere_is_told_or_harmless(
        rows in rows_strategy(), frame_rows in 1..30_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..4),
    ) {
        let fixture = Fixture::new();
        fixture.sealed(&rows, frame_rows);
        let mut bytes = std::fs::read(fixture.path("m")).unwrap();
        for (place, change) in edits {
            let place = place.index(bytes.len());
            bytes[place] ^= change;
        }
        std::fs::write(fixture.path("m"), bytes).unwrap();

        assert_nothing_wrong_is_read(&fixture.path("m"), &rows);
    }

    #[test]
    fn a_directory_with_any_numbers_and_right_checksums_is_refused_or_read(
        edits in prop::collection::vec((0..13_usize, 0..10_usize), 1..4),
    ) {
        let fixture = Fixture::new();
        let rows = numbered(12);
        fixture.sealed(&rows, 3);
        let mut bytes = std::fs::read(fixture.path("m")).unwrap();
        let footer = bytes.len() - 48;
        // The edited words are two numbers for each of the four frames, one for the page, and four in the footer.
        let directory = footer - 9 * 8;
        for (word, value) in edits {
            let at = directory + word * 8;
            let old = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            let numbers = [0, 1, old ^ 1, old.wrapping_add(1), old / 2, old.wrapping_mul(2), 1 << 20, 1 << 32, u64::MAX, u64::MAX - 7];
            bytes[at..at + 8].copy_from_slice(&numbers[value].to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[directory..footer]);
        bytes[footer + 32..footer + 36].copy_from_slice(&checksum.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[footer..footer + 36]);
        bytes[footer + 36..footer + 40].copy_from_slice(&checksum.to_le_bytes());
        std::fs::write(fixture.path("m"), bytes).unwrap();

        match Manifest::open(&fixture.path("m")) {
            Err(error) => prop_assert_eq!(error.exit_code(), 10),
            Ok(manifest) => for row in &rows {
                match manifest.find(&row.name) {
                    Err(error) => prop_assert_eq!(error.exit_code(), 10),
                    Ok(found) => prop_assert!(found.iter().all(|found| found.sequence == row.sequence)),
                }
            }
        }
    }

    #[test]
    fn a_file_of_anything_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), behind in 0..6_u8) {
        let fixture = Fixture::new();
        let magic: &[u8] = [&b""[..], b"fmF1", b"fmT1", b"fmSEAL1\n", b"fmF1\x01\0\0\0", b"\x28\xb5\x2f\xfd"]
            [usize::from(behind)];
        std::fs::write(fixture.path("m"), [magic, &bytes, magic].concat()).unwrap();

        prop_assert_eq!(Manifest::open(&fixture.path("m")).unwrap_err().exit_code(), 10);
        let (rows, result) = read(&fixture.path("m"), None);
        prop_assert_eq!(rows, []);
        prop_assert_eq!(result.is_ok(), bytes.is_empty() && magic.is_empty());
    }
}

/// Asserts that each lookup and each read returns the correct rows, or fails with exit code 10. A read may return the
/// first rows before the error.
fn assert_nothing_wrong_is_read(path: &Path, rows: &[Owned]) {
    let (found, result) = read(path, None);
    assert!(rows.starts_with(&found));
    if let Err(error) = result {
        assert_eq!(error.exit_code(), 10, "{error}");
    }
    let manifest = match Manifest::open(path) {
        Ok(manifest) => manifest,
        Err(error) => return assert_eq!(error.exit_code(), 10, "{error}"),
    };
    for row in rows {
        match manifest.find(&row.name) {
            Ok(found) => assert_eq!(found, expected(rows, &row.name)),
            Err(error) => assert_eq!(error.exit_code(), 10, "{error}"),
        }
    }
    let hashes: Result<Vec<u64>> = manifest.hashes().collect();
    assert!(hashes.is_err_and(|error| error.exit_code() == 10) || manifest.hashes().count() == rows.len());
}

#[test]
fn a_file_cut_off_anywhere_is_no_sealed_manifest_and_gives_the_first_rows_only() {
    let fixture = Fixture::new();
    let rows = numbered(30);
    fixture.sealed(&rows, 7);
    let path = fixture.path("m");
    let bytes = std::fs::read(&path).unwrap();

    for length in (0..bytes.len()).rev() {
        assert!(durable::cut(&path, length as u64).unwrap());

        assert_eq!(Manifest::open(&path).unwrap_err().exit_code(), 10);
        assert!(rows.starts_with(&read(&path, None).0));
        assert_eq!(read(&path, Some(bytes.len() as u64)).1.unwrap_err().exit_code(), 10);
    }
}

#[test]
fn rows_before_a_receipt_survive_and_those_after_it_are_cut_off() {
    let fixture = Fixture::new();
    let mut writer = ManifestWriter::new(&fixture.path("new"), FileName::of_own("m"), true);
    assert_eq!(writer.checkpoint().unwrap(), None);
    let rows = numbered(5);
    add_all(&mut writer, &rows[..3]);
    let end = writer.checkpoint().unwrap().unwrap();
    assert_eq!(writer.checkpoint().unwrap().unwrap(), end);
    add_all(&mut writer, &rows[3..]);
    writer.checkpoint().unwrap();
    assert_eq!(writer.rows(), 5);
    let path = fixture.path("new").join("m");
    assert_eq!(read_all(&path, None), rows);

    assert_eq!(read_all(&path, Some(end.end)), rows[..3]);
    assert!(durable::cut(&path, end.end).unwrap());
    assert_eq!(read_all(&path, None), rows[..3]);
    assert_eq!(crc32c::crc32c(&std::fs::read(&path).unwrap()), end.crc32c);
}

#[test]
fn a_frame_that_is_cut_off_is_told_each_time_it_is_asked_for() {
    let fixture = Fixture::new();
    let mut writer = fixture.writer("m");
    add_in_frames(&mut writer, &numbered(9), 3);
    let end = writer.checkpoint().unwrap().unwrap();
    let mut rows = ManifestRows::open(&fixture.path("m"), Some(end.end - 1)).unwrap();
    assert!(rows.next_frame().unwrap().is_some());
    assert!(rows.next_frame().unwrap().is_some());

    for _ in 0..2 {
        let text = rows.next_frame().unwrap_err().to_string();
        assert!(text.contains("its last frame is cut off") && text.contains("fetchmill verify"), "{text}");
    }
}

#[test]
fn a_manifest_without_rows_can_be_sealed() {
    let fixture = Fixture::new();
    let manifest = fixture.sealed(&[], 1);

    assert_eq!((manifest.rows(), manifest.bytes(), manifest.frames()), (0, 0, 0));
    assert_eq!(manifest.find(b"").unwrap(), []);
    assert_eq!(manifest.frame_of_row(0), None);
    assert_eq!(manifest.hashes().count(), 0);
    assert!(manifest.frame(0).is_err());
    assert_eq!(read_all(&fixture.path("m"), None), []);
}

#[test]
fn names_are_found_in_a_table_of_many_pages() {
    let fixture = Fixture::new();
    let rows = numbered(20_000);
    let manifest = fixture.sealed(&rows, 20_000);
    assert!(manifest.frames() > 1, "a frame ends when it is full");

    for row in rows.iter().step_by(7) {
        assert_eq!(manifest.find(&row.name).unwrap(), expected(&rows[..], &row.name));
    }
    assert_eq!(manifest.find(b"name-20000").unwrap(), []);
    let entries: Vec<u64> = manifest.hashes().map(Result::unwrap).collect();
    let mut wanted: Vec<u64> =
        (0..).zip(&rows).map(|(number, row)| hash44(&row.name) << 20 | number).collect();
    wanted.sort_unstable();
    assert_eq!(entries, wanted);
}

#[test]
fn one_hash_may_fill_many_pages() {
    let fixture = Fixture::new();
    let hash = |name: &[u8]| if name.starts_with(b"x") { (1 << 44) - 1 } else { 5 };
    let names = ["a", "b", "x", "y"].into_iter().cycle();
    let rows: Vec<_> = (0..10_000).zip(names).map(|(number, name)| Owned::numbered(number, name)).collect();
    let mut writer = fixture.hashed_writer(hash);
    add_in_frames(&mut writer, &rows, 3000);
    writer.seal().unwrap();
    let manifest = fixture.open();

    for name in [b"a", b"x", b"y"] {
        assert_eq!(manifest.find_hashed(name, hash(name)).unwrap(), expected(&rows, name));
    }
    for hash in [0, 4, 5, 6, (1 << 44) - 1] {
        assert_eq!(manifest.find_hashed(b"z", hash).unwrap(), []);
    }
}

#[test]
fn a_table_of_another_manifest_is_told() {
    let fixture = Fixture::new();
    fixture.sealed(&numbered(4), 4);
    let bytes = std::fs::read(fixture.path("m")).unwrap();
    let mut writer = fixture.writer("other");
    add_in_frames(&mut writer, &numbered(3), 3);
    let end = writer.checkpoint().unwrap().unwrap().end as usize;
    let other = std::fs::read(fixture.path("other")).unwrap();
    let table = bytes.windows(4).position(|window| window == b"fmT1").unwrap();
    std::fs::write(fixture.path("m"), [&other[..end], &bytes[table..]].concat()).unwrap();

    let (rows, result) = read(&fixture.path("m"), None);

    assert_eq!(rows.len(), 3);
    assert!(result.unwrap_err().to_string().contains("table"));
}

#[test]
fn a_name_as_large_as_a_page_fits_and_a_larger_one_does_not() {
    let fixture = Fixture::new();
    let mut name = vec![b'n'; fetchmill_model::limits::PAGE_BYTES_MAX];
    let rows = [Owned::numbered(1, "before"), Owned::numbered(2, name.clone()), Owned::numbered(3, "after")];
    let manifest = fixture.sealed(&rows, 3);
    assert_eq!(manifest.find(&name).unwrap(), [rows[1].found(1)]);
    assert_eq!(read_all(&fixture.path("m"), None), rows);

    name.push(b'n');
    let refused = fixture.writer("too-large").add(&Owned::numbered(0, name).row());

    assert_eq!(refused.unwrap_err().exit_code(), 1);
}

#[test]
fn a_manifest_to_be_sealed_takes_rows_max_and_an_unsealed_one_more() {
    let fixture = Fixture::new();
    let mut sealed = fixture.writer("sealed");
    let mut unsealed = ManifestWriter::new_unsealed(fixture.folder.path(), FileName::of_own("unsealed"));
    let row = Owned::numbered(0, "");
    for _ in 0..ROWS_MAX {
        sealed.add(&row.row()).unwrap();
        unsealed.add(&row.row()).unwrap();
    }
    assert_eq!(sealed.add(&row.row()).unwrap_err().exit_code(), 1);
    unsealed.add(&row.row()).unwrap();

    assert_eq!(sealed.rows(), ROWS_MAX);
    sealed.seal().unwrap();
    let manifest = Manifest::open(&fixture.path("sealed")).unwrap();
    assert_eq!(manifest.find(b"").unwrap().len() as u64, ROWS_MAX);
    let end = unsealed.checkpoint().unwrap().unwrap();
    assert_eq!(unsealed.seal().unwrap_err().exit_code(), 1);
    assert_eq!(seal_open(fixture.folder.path(), &end, false).unwrap_err().exit_code(), 10);
}

#[test]
fn a_manifest_that_is_not_what_the_journal_says_is_not_sealed() {
    let fixture = Fixture::new();
    let mut writer = fixture.writer("m");
    add_in_frames(&mut writer, &numbered(3), 3);
    let end = writer.checkpoint().unwrap().unwrap();
    let wrong = [
        ShardEnd { crc32c: end.crc32c ^ 1, ..end.clone() },
        ShardEnd { end: end.end + 1, ..end.clone() },
        ShardEnd { path: FileName::of_own("none"), ..end.clone() },
    ];

    let codes = wrong.map(|end| seal_open(fixture.folder.path(), &end, false).unwrap_err().exit_code());

    assert_eq!(codes, [10, 10, 7]);
    seal_open(fixture.folder.path(), &end, false).unwrap();
}

#[test]
fn sealing_again_after_a_crash_before_the_journal_knew_gives_the_same() {
    let fixture = Fixture::new();
    let mut writer = fixture.writer("m");
    add_in_frames(&mut writer, &numbered(3), 2);
    let open = writer.checkpoint().unwrap().unwrap();
    let sealed = writer.seal().unwrap();

    assert_eq!(seal_open(fixture.folder.path(), &open, true).unwrap(), sealed);
    assert_eq!(fixture.open().rows(), 3);
}

#[test]
fn threads_share_a_manifest() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<Manifest>();
}
