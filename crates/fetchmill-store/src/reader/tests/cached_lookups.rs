//! Compares lookups that cache decoded data with lookups that cache nothing.

use proptest::test_runner::{RngAlgorithm, TestRng};

use super::*;
use fetchmill_model::limits::LOOKUP_CACHE_BYTES;

/// Cache sizes that hold none, some, or all of the data.
const SIZES: [usize; 3] = [0, 256 * 1024, LOOKUP_CACHE_BYTES];

fn numbered(numbers: std::ops::Range<usize>) -> Vec<StoredObject> {
    numbers
        .map(|number| object(&format!("object-{number}"), format!("{number} ").repeat(8).as_bytes()))
        .collect()
}

/// Writes a destination with these shards.
fn destination(folder: &Path, format: Format, shards: &[(u64, Vec<StoredObject>)]) -> Arc<Destination> {
    let written: Vec<_> = (0..)
        .zip(shards)
        .map(|(number, (first, objects))| write(folder, format, number, *first, objects))
        .collect();
    let sealed = || Ok(written.iter().map(|(_, shard)| shard.clone()).collect());
    let stored = Storage::Shards(SealedShards::open(&written[0].0, format, &sealed, false).unwrap());
    Arc::new(Destination { format, columns: ExtraColumns::default(), stored })
}

/// Returns names in the order in which 64 connections would request them. Only names that are in flight at the same
/// time swap places.
fn nearly_in_order(names: &[Vec<u8>], rng: &mut TestRng) -> Vec<Vec<u8>> {
    let mut names = names.to_vec();
    for at in 0..names.len() {
        let other = (at + rng.next_u32() as usize % 64).min(names.len() - 1);
        names.swap(at, other);
    }
    names
}

fn in_any_order(names: &[Vec<u8>], rng: &mut TestRng) -> Vec<Vec<u8>> {
    (0..names.len() / 10).map(|_| names[rng.next_u32() as usize % names.len()].clone()).collect()
}

#[test]
fn whatever_is_kept_the_same_objects_come() {
    let rng = &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for format in PACKS {
        let folder = tempfile::tempdir().unwrap();
        let mut again = numbered(100..140);
        for object in &mut again {
            object.body = b"another time".to_vec();
        }
        again.extend(numbered(1500..4000));
        let destination = destination(folder.path(), format, &[(5000, numbered(0..1500)), (0, again)]);
        let mut names: Vec<_> = numbered(0..4000).into_iter().map(|object| object.name).collect();
        names.push(b"nobody".to_vec());
        for is_listed in [false, true] {
            if is_listed {
                assert_eq!(destination.count().unwrap(), 4000);
            }
            let mut asked = in_any_order(&names, rng);
            asked.extend(nearly_in_order(&names[7 * names.len() / 8..], rng));
            let found: Vec<_> = asked.iter().map(|name| destination.find(name).unwrap()).collect();
            for bytes in SIZES {
                let mut lookups = CachedLookups::with_bytes(Arc::clone(&destination), bytes);
                for (name, found) in asked.iter().zip(&found) {
                    assert_eq!(lookups.find(name).unwrap(), *found, "{format:?} {bytes}");
                    assert!(lookups.counts().bytes <= bytes, "{:?} of {bytes}", lookups.counts());
                }
            }
        }
    }
}

#[test]
fn in_order_everything_is_decoded_once() {
    let rng = &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for format in PACKS {
        let folder = tempfile::tempdir().unwrap();
        let shards = [(0, numbered(0..12_000)), (12_000, numbered(12_000..30_000))];
        let destination = destination(folder.path(), format, &shards);
        let names: Vec<_> = numbered(0..30_000).into_iter().map(|object| object.name).collect();
        let Storage::Shards(stored) = &destination.stored else { panic!("shards") };
        let frames: usize = (0..2).map(|shard| stored.reader(shard).unwrap().manifest().frames()).sum();
        destination.count().unwrap();

        let mut lookups = CachedLookups::new(Arc::clone(&destination));
        for name in nearly_in_order(&names, rng) {
            assert_eq!(lookups.find(&name).unwrap().unwrap().object.name, name);
        }

        let counts = lookups.counts();
        assert_eq!(counts.frames, frames as u64, "{format:?}");
        // A row is decoded alone if it is the first one requested from a shard, or if it was last requested long ago.
        let batches = 30_000_u64.div_ceil(1024) + 2 * 2 + 2;
        assert!(counts.batches <= batches, "{format:?}: {counts:?}, not {batches}");
        assert_eq!(counts.batches > 0, format == Format::Parquet);
    }
}

#[test]
fn in_any_order_no_more_is_decoded_than_one_row_each() {
    let rng = &mut TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let folder = tempfile::tempdir().unwrap();
    let destination = destination(folder.path(), Format::Parquet, &[(0, numbered(0..40_000))]);
    let mut lookups = CachedLookups::with_bytes(Arc::clone(&destination), 64 * 1024);

    for number in 0..500 {
        // Each row is far away from the previous one.
        let name = format!("object-{}", number * 7919 % 39_900 + rng.next_u32() as usize % 100);
        assert_eq!(lookups.find(name.as_bytes()).unwrap().unwrap().object.name, name.as_bytes());
    }

    assert!(lookups.counts().batches <= 500, "{:?}", lookups.counts());
    assert!(lookups.counts().frames <= 500, "{:?}", lookups.counts());
}

#[test]
fn damage_is_told_as_without_a_cache() {
    for format in PACKS {
        let folder = tempfile::tempdir().unwrap();
        let destination = destination(folder.path(), format, &[(0, numbered(0..3000))]);
        let path =
            ShardFolder::new(folder.path(), format.extension().unwrap(), false).open_path().join("0.shard");
        let mut data = std::fs::read(&path).unwrap();
        let half = data.len() / 2;
        data[half..half + 40].iter_mut().for_each(|byte| *byte ^= 0x55);
        std::fs::write(&path, &data).unwrap();
        destination.count().unwrap();

        let mut lookups = CachedLookups::new(Arc::clone(&destination));
        let (mut lost, mut whole) = (0, 0);
        for object in numbered(0..3000) {
            let text = |found: Result<Option<FoundObject>>| found.map_err(|error| error.to_string());
            let expected = text(destination.find(&object.name));
            assert_eq!(text(lookups.find(&object.name)), expected, "{format:?}");
            if expected.is_ok() { whole += 1 } else { lost += 1 }
        }
        assert!(lost > 0 && whole > 0, "{format:?}: {lost} lost, {whole} whole");
    }
}
