//! Tests of reading shards, both intact and damaged.

mod cached_lookups;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::hidden::HiddenRows;
use super::*;
use crate::journal::Shard;
use crate::manifest::{ManifestRow, ManifestWriter};
use crate::pack::parquet::ParquetEncoder;
use crate::pack::warc::WarcOrigin;
use crate::pack::{Encoder, JsonlEncoder, TarEncoder, WarcEncoder};
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::outcome::{SealedShard, ShardEnd};
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::file_name::FileName;

const PACKS: [Format; 4] = [Format::Tar, Format::Jsonl, Format::Warc, Format::Parquet];

fn object(name: &str, body: &[u8]) -> StoredObject {
    StoredObject { name: name.into(), body: body.to_vec(), status: 200, ..StoredObject::default() }
}

fn objects(count: usize) -> Vec<StoredObject> {
    (0..count).map(|number| object(&format!("object-{number}"), &vec![number as u8; number * 7])).collect()
}

/// Writes a shard as a sink would. Sequence numbers start at `first`.
fn write(
    dest: &Path,
    format: Format,
    number: u64,
    first: u64,
    objects: &[StoredObject],
) -> (ShardFolder, Shard) {
    let shard_folder = ShardFolder::new(dest, format.extension().unwrap(), false);
    shard_folder.prepare().unwrap();
    let (data, mut places) = encode(format, first, objects);
    places.truncate(objects.len());
    let open = FileName::of_own(&format!("{number}.shard"));
    std::fs::write(shard_folder.open_path().join(&open), &data).unwrap();
    let mut manifest = ManifestWriter::new(
        &shard_folder.open_path(),
        FileName::of_own(&format!("{number}.manifest")),
        false,
    );
    for (index, (stored, place)) in objects.iter().zip(places).enumerate() {
        let object = stored.as_object(first + index as u64);
        let (sequence, length) = (object.sequence, object.body.len() as u64);
        manifest
            .add(&ManifestRow {
                sequence,
                name: object.name,
                length,
                crc32c: object.crc32c,
                place,
                ..ManifestRow::default()
            })
            .unwrap();
    }
    let sealed = SealedShard {
        data: ShardEnd { path: open, end: data.len() as u64, crc32c: crc32c::crc32c(&data) },
        manifest: manifest.seal().unwrap(),
        objects: objects.len() as u64,
        bytes: 0,
        replaces: Vec::new(),
    };
    (shard_folder, Shard { number, sealed, is_replaced: false })
}

fn encode(format: Format, first: u64, objects: &[StoredObject]) -> (Vec<u8>, Vec<u64>) {
    let mut encoder: Box<dyn Encoder> = match format {
        Format::Tar => Box::new(TarEncoder::new()),
        Format::Jsonl => Box::new(JsonlEncoder::default()),
        Format::Warc => Box::new(WarcEncoder::new(&origin(), 0, 0)),
        _ => return encode_parquet(first, objects),
    };
    let (mut data, mut places) = (Vec::new(), Vec::new());
    encoder.start(&mut data);
    for (index, object) in objects.iter().enumerate() {
        places.push(data.len() as u64);
        encoder.encode(&object.as_object(first + index as u64), &mut data);
    }
    encoder.finish(&mut data);
    (data, places)
}

fn origin() -> WarcOrigin {
    let template = RequestTemplate::new("127.0.0.1", "/get/", "", &[]).unwrap();
    WarcOrigin { template, uri_start: "http://127.0.0.1".to_owned(), names_are_urls: false }
}

fn encode_parquet(first: u64, objects: &[StoredObject]) -> (Vec<u8>, Vec<u64>) {
    let mut encoder =
        ParquetEncoder::new(Vec::new(), 1 << 20, &ExtraColumns::default(), Box::new(tempfile::tempfile))
            .unwrap();
    for (index, object) in objects.iter().enumerate() {
        encoder.push(&object.as_object(first + index as u64)).unwrap();
    }
    (encoder.finish().unwrap(), (0..objects.len() as u64).collect())
}

fn open(shard_folder: &ShardFolder, format: Format, shard: &Shard) -> Arc<ShardReader> {
    Arc::new(ShardReader::open(shard_folder, format, shard).unwrap())
}

fn bodies(found: impl Iterator<Item = ScannedObject>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    found.filter_map(|scanned| scanned.object.ok()).map(|object| (object.name, object.body)).collect()
}

#[test]
fn every_row_is_read_alone_and_in_a_scan() {
    for format in PACKS {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects(700);
        let (shard_folder, shard) = write(folder.path(), format, 0, 10, &objects);
        let reader = open(&shard_folder, format, &shard);

        let scanned: Vec<_> = reader.scan().unwrap().map(Result::unwrap).collect();
        assert_eq!(scanned.len(), 700);
        for (index, stored) in objects.iter().enumerate() {
            assert_eq!((scanned[index].row, scanned[index].sequence), (index as u64, 10 + index as u64));
            assert_eq!(scanned[index].object.as_ref().unwrap().body, stored.body, "{format:?}");
            let [found] = *reader.manifest().find(&stored.name).unwrap() else { panic!("not found once") };
            let row = ManifestRow {
                sequence: found.sequence,
                name: &stored.name,
                length: found.length,
                crc32c: found.crc32c,
                place: found.place,
                ..ManifestRow::default()
            };
            assert_eq!(reader.read(found.row, &row).unwrap().body, stored.body);
        }

        let mut rest = reader.scan().unwrap();
        rest.skip_to(650);
        assert_eq!(rest.next().unwrap().unwrap().row, 650);
        assert_eq!(rest.count(), 49);
    }
}

#[test]
fn a_shard_is_found_before_and_after_it_is_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let (shard_folder, shard) = write(folder.path(), Format::Tar, 3, 0, &objects(5));
    let before = open(&shard_folder, Format::Tar, &shard);
    shard_folder.publish("3.shard", "3.manifest", 3).unwrap();

    assert_eq!(before.scan().unwrap().count(), 5);
    assert_eq!(open(&shard_folder, Format::Tar, &shard).scan().unwrap().count(), 5);

    std::fs::remove_file(shard_folder.shard_path(3)).unwrap();
    let error = open(&shard_folder, Format::Tar, &shard).scan().unwrap_err();
    assert!(error.to_string().contains("shard-000003.tar is missing; run `fetchmill verify`"), "{error}");
    assert_eq!(error.exit_code(), 10);
}

#[test]
fn a_manifest_of_another_shard_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (shard_folder, mut shard) = write(folder.path(), Format::Tar, 0, 0, &objects(5));
    shard.sealed.objects = 6;

    let error = ShardReader::open(&shard_folder, Format::Tar, &shard).unwrap_err();
    assert!(error.to_string().contains("it has 5 rows, but the journal records 6"), "{error}");
}

#[test]
fn a_shard_that_was_cut_off_gives_what_is_left() {
    for format in [Format::Tar, Format::Jsonl, Format::Warc] {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects(100);
        let (shard_folder, shard) = write(folder.path(), format, 0, 0, &objects);
        let path = shard_folder.open_path().join("0.shard");
        let data = std::fs::read(&path).unwrap();
        std::fs::write(&path, &data[..data.len() / 2]).unwrap();

        let scanned: Vec<_> =
            open(&shard_folder, format, &shard).scan().unwrap().map(Result::unwrap).collect();

        assert_eq!(scanned.len(), 100);
        assert!(scanned[0].object.is_ok() && scanned[99].object.is_err());
        let lost = scanned[99].object.as_ref().unwrap_err();
        assert_eq!((lost.name.as_slice(), lost.length), (&b"object-99"[..], 99 * 7));
        assert_eq!(lost.what, "the shard ends within its record");
    }
}

#[test]
fn of_one_name_only_the_lowest_sequence_number_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let names = |names: &[&str]| names.iter().map(|name| object(name, b"")).collect::<Vec<_>>();
    let shards = [
        (100, names(&["a", "b", "c", "a"])),
        (0, names(&["a", "d", "e", "e", "e"])),
        (50, names(&["e", "c", "f"])),
    ];
    let readers: Vec<_> = (0..)
        .zip(&shards)
        .map(|(number, (first, objects))| {
            let (shard_folder, shard) = write(folder.path(), Format::Jsonl, number, *first, objects);
            open(&shard_folder, Format::Jsonl, &shard)
        })
        .collect();

    let hidden = HiddenRows::find(&readers).unwrap();

    let found: Vec<(usize, u64)> = (0..3)
        .flat_map(|shard| (0..5).map(move |row| (shard, row)))
        .filter(|(shard, row)| hidden.contains(*shard, *row))
        .collect();
    assert_eq!(found, [(0, 0), (0, 2), (0, 3), (1, 3), (1, 4), (2, 0)]);
    assert_eq!(hidden.count(), 6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_is_told_and_what_is_given_is_right(
        format in 0..PACKS.len(), changes in prop::collection::vec((any::<prop::sample::Index>(), 1..=255_u8), 1..6),
    ) {
        let format = PACKS[format];
        let folder = tempfile::tempdir().unwrap();
        let objects = objects(60);
        let (shard_folder, shard) = write(folder.path(), format, 0, 0, &objects);
        let path = shard_folder.open_path().join("0.shard");
        let mut data = std::fs::read(&path).unwrap();
        for (position, change) in changes {
            let position = position.index(data.len());
            data[position] ^= change;
        }
        std::fs::write(&path, &data).unwrap();
        let expected: BTreeMap<_, _> = objects.into_iter().map(|object| (object.name, object.body)).collect();

        if let Ok(scan) = open(&shard_folder, format, &shard).scan() {
            let scanned: Vec<_> = scan.map(Result::unwrap).collect();
            prop_assert_eq!(scanned.len(), 60);
            for (name, body) in bodies(scanned.into_iter()) {
                prop_assert_eq!(expected.get(&name), Some(&body));
            }
        }
    }
}
