//! Tests that extra columns of a list stay with the objects: in every format that can store them, and after exports,
//! merges and repairs.

#![expect(clippy::unwrap_used, reason = "a test fails if one of its helpers fails")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array as _, RecordBatchReader as _};
use fetchmill_engine::{Export, ExportOptions, ExportSource};
use fetchmill_model::object::{Facts, StoredObject};
use fetchmill_model::outcome::skips::Skips;
use fetchmill_model::outcome::{Receipt, Tally};
use fetchmill_model::source::{ListedPage, PageCursor};
use fetchmill_model::target::Names;
use fetchmill_model::target::extra_columns::{COLUMNS_PART, ExtraColumns, write_extra};
use fetchmill_store::journal::{Identity, JobLocation, Journal};
use fetchmill_store::pack::{Sidecars, WarcOrigin};
use fetchmill_store::reader::verify::{Verify, VerifyOptions};
use fetchmill_store::reader::{ArrowBatches, Destination, Objects};
use fetchmill_store::sink::{Block, FetchedBody, Format, SinkSetup, Stage, UnfetchedSetup, Validators};

const WAIT: Duration = Duration::from_secs(30);

fn columns() -> ExtraColumns {
    ExtraColumns::of_list(["rank", "country"].map(str::to_owned)).unwrap()
}

/// Returns objects, half of which have a key. For the others, the URL is the name.
fn objects() -> Vec<StoredObject> {
    let object = |number: usize| {
        let url = format!("https://host-{number}/path?a=b").into_bytes();
        let mut kept = Vec::new();
        let rank = number.to_string();
        write_extra(
            [Some(rank.as_bytes()), (number.is_multiple_of(3)).then_some(&b"de"[..])].into_iter(),
            &mut kept,
        );
        let has_key = number.is_multiple_of(2);
        StoredObject {
            name: if has_key { format!("key-{number:03}").into_bytes() } else { url.clone() },
            url: has_key.then_some(url),
            kept: Some(kept),
            body: format!("body of {number}").into_bytes(),
            status: 200,
            ..StoredObject::default()
        }
    };
    (0..40).map(object).collect()
}

fn setup(place: &JobLocation, format: Format) -> SinkSetup {
    SinkSetup {
        format,
        dest: place.dest.clone(),
        manifests: place.manifests_path(),
        is_durable: false,
        shard_bytes: 1 << 20,
        seal_after: WAIT,
        workers: 1,
        columns: format.columns(&columns()),
        sidecars: Sidecars::default(),
        is_hashed: false,
        validators: Validators::InRecords,
        unfetched: UnfetchedSetup::default(),
        origin: Some(WarcOrigin::of_list(&[]).unwrap()),
        server_times: true,
        upload_queue: None,
    }
}

/// Stores the objects in the same way as a job with a list. Each of the `parts` becomes a shard.
fn store(dest: &Path, format: Format, parts: &[&[StoredObject]]) {
    let place = JobLocation::prepare(dest, None).unwrap();
    let text = setup(&place, format).columns.to_text().unwrap();
    let parts_of_identity =
        [("source", "list.csv"), ("listing", "list"), ("format", format.name()), (COLUMNS_PART, &text)];
    let identity = Identity::new(parts_of_identity.map(|(part, value)| (part, value.to_owned())));
    let mut journal = Journal::open(&place, &identity, false).unwrap();
    for objects in parts {
        let mut names = Names::default();
        for object in *objects {
            names.push(&object.name);
        }
        let next = (journal.next_sequence() + names.len() as u64).to_string();
        let cursor = PageCursor::Marker { from: None, next: Some(next) };
        let first =
            journal.add_page(&ListedPage { names, skipped: Skips::default(), total: None, cursor }).unwrap();
        let mut block = Block::default();
        for (object, sequence) in objects.iter().zip(first..) {
            let facts: Facts<'_> = object.as_object(sequence).facts;
            block.push_fetched(sequence, 1, &object.name, FetchedBody::Bytes(&object.body), &facts);
        }
        let stage = Arc::new(Stage::open(&place.stage_path().join("0")).unwrap());
        let mut sink = setup(&place, format).open(0, &stage, Vec::new()).unwrap();
        sink.write(&block, 0).unwrap();
        let durable = sink.checkpoint(true).unwrap();
        let tally = Tally { fetched: durable.settled.count(), bytes: durable.bytes, ..Tally::default() };
        let receipt =
            Receipt { settled: durable.settled, tally, sealed: durable.sealed, ..Receipt::default() };
        let number = journal.settle(&receipt).unwrap();
        journal.commit().unwrap();
        sink.committed(number).unwrap();
    }
}

fn export(from: &Path, dest: &Path, format: Format) {
    let options = ExportOptions {
        from: vec![ExportSource { dest: from.to_owned(), state: None }],
        source: None,
        dest: dest.to_owned(),
        state: None,
        format,
        shard_size: None,
        is_durable: false,
    };
    let export = Export::start(&options, None).unwrap();
    assert!(export.wait(WAIT));
    assert_eq!(export.report().unwrap().unwrap().tally.fetched, 40);
}

/// Reads the columns and the objects, sorted by body.
fn read(dest: &Path) -> (ExtraColumns, Vec<StoredObject>) {
    let destination = Arc::new(Destination::open(dest, None).unwrap());
    let columns = destination.columns().clone();
    let mut objects: Vec<_> = Objects::new(destination, None).map(|found| found.unwrap().object).collect();
    objects.sort_by(|one, other| one.body.cmp(&other.body));
    (columns, objects)
}

fn without(change: impl Fn(&mut StoredObject)) -> Vec<StoredObject> {
    let mut objects = objects();
    objects.iter_mut().for_each(change);
    objects.sort_by(|one, other| one.body.cmp(&other.body));
    objects
}

#[test]
fn exports_carry_them_as_far_as_a_format_has_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let dest = |name: &str| -> PathBuf { folder.path().join(name) };
    store(&dest("parquet"), Format::Parquet, &[&objects()]);

    export(&dest("parquet"), &dest("jsonl"), Format::Jsonl);
    export(&dest("jsonl"), &dest("again"), Format::Parquet);
    export(&dest("again"), &dest("warc"), Format::Warc);
    export(&dest("warc"), &dest("urls"), Format::Jsonl);
    export(&dest("urls"), &dest("tar"), Format::Tar);
    export(&dest("tar"), &dest("names"), Format::Warc);

    for name in ["parquet", "jsonl", "again"] {
        assert_eq!(read(&dest(name)), (columns().with_encodings(true), without(|_| ())), "{name}");
    }
    let no_status = |object: &mut StoredObject| (object.kept, object.status) = (None, 0);
    for name in ["warc", "urls"] {
        assert_eq!(
            read(&dest(name)),
            (columns().without_extra().with_encodings(true), without(no_status)),
            "{name}"
        );
    }
    for name in ["tar", "names"] {
        let (columns, found) = read(&dest(name));
        assert_eq!(columns, ExtraColumns::default().with_encodings(true), "{name}");
        assert!(found.iter().all(|object| object.url.is_none() && object.kept.is_none()), "{name}");
        assert_eq!(found.len(), 40);
    }
}

#[test]
fn arrow_has_a_column_for_each_whatever_the_format() {
    for format in [Format::Parquet, Format::Jsonl] {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path(), format, &[&objects()]);

        let destination = Arc::new(Destination::open(folder.path(), None).unwrap());
        let mut batches = ArrowBatches::new(Objects::new(destination, None));

        let schema = batches.schema();
        let batch = batches.next().unwrap().unwrap();
        assert_eq!(batch.schema(), schema);
        let text = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>();
        assert_eq!((text("rank").value(7), text("rank").value(39)), ("7", "39"));
        assert_eq!((text("country").value(3), text("country").is_null(4)), ("de", true));
        assert_eq!((text("url").value(2), text("url").is_null(1)), ("https://host-2/path?a=b", true));
    }
}

#[test]
fn a_repair_keeps_those_of_what_is_left() {
    for format in [Format::Parquet, Format::Jsonl] {
        let folder = tempfile::tempdir().unwrap();
        let mut objects = objects();
        if format == Format::Parquet {
            // This object gets its own row group, so that damage to it affects no other object. zstd cannot compress
            // its random bytes.
            let mut random = 1_u64;
            objects[25].body.resize_with(1_500_000, || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 56) as u8
            });
        }
        store(folder.path(), format, &[&objects[..20], &objects[20..]]);
        let shard = folder.path().join(format!("shard-000001.{}", format.extension().unwrap()));
        let mut bytes = std::fs::read(&shard).unwrap();
        let end = objects[25].body.len();
        let place = memchr::memmem::find(&bytes, &objects[25].body[end - 10..]).unwrap();
        bytes[place] ^= 1;
        std::fs::write(&shard, bytes).unwrap();

        let options = VerifyOptions {
            dest: folder.path().to_owned(),
            state: None,
            threads: Some(1),
            repair: true,
            sample: 0,
            against: None,
            seed: 0,
        };
        let verify = Verify::start(options).unwrap();
        while !verify.wait(Duration::from_millis(10)) {
            verify.take_findings(100);
        }
        verify.take_findings(100);
        assert_eq!(verify.report().unwrap().unwrap().repaired.unwrap().planned, 1, "{format:?}");

        let (found_columns, found) = read(folder.path());
        assert_eq!(found_columns, columns().with_encodings(true));
        assert_eq!(found.len(), 39);
        assert!(found.iter().all(|object| objects.contains(object)), "{format:?}");
    }
}
