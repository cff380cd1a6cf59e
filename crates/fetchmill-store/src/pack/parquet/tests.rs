//! Tests of round trips, of files from other programs, and of damaged files.

use super::*;
use ::parquet::arrow::ArrowWriter;
use ::parquet::file::reader::{ChunkReader, Length};
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use fetchmill_model::object::{Object, StoredObject, UnfetchedTarget};
use fetchmill_model::target::extra_columns::{ExtraColumns, extra_values, write_extra};
use proptest::collection::vec;
use proptest::prelude::*;
use std::fs::File;
use std::io;
use std::io::{Read, Seek, Write};
use std::ops::Range;
use std::sync::Arc;

fn write(objects: &[StoredObject], row_group_bytes: usize) -> File {
    let mut encoder = ParquetEncoder::new(
        tempfile::tempfile().unwrap(),
        row_group_bytes,
        &ExtraColumns::default(),
        Box::new(tempfile::tempfile),
    )
    .unwrap();
    for (sequence, object) in objects.iter().enumerate() {
        assert_eq!(encoder.rows(), sequence as u64);
        encoder.push(&object.as_object(sequence as u64)).unwrap();
    }
    encoder.finish().unwrap()
}

fn open(objects: &[StoredObject], row_group_bytes: usize) -> ParquetShard {
    ParquetShard::open(write(objects, row_group_bytes)).unwrap()
}

fn read(shard: &ParquetShard, rows: Range<u64>) -> Result<Vec<(u64, StoredObject, u32)>, ShardError> {
    let mut found = Vec::new();
    for batch in shard.batches(rows, None)? {
        let batch = batch?;
        assert!(batch.num_rows() <= 1024);
        for row in 0..batch.num_rows() {
            found.push(object_at(&batch, row)?);
        }
    }
    Ok(found)
}

fn object(number: usize, body: usize) -> StoredObject {
    StoredObject {
        name: format!("object-{number:06}").into_bytes(),
        body: (0..body).map(|at| (at * 7 + number) as u8).collect(),
        status: 200,
        fetched_at: 1_700_000_000_000_000 + number as u64,
        content_type: Some(b"text/plain".to_vec()),
        etag: number.is_multiple_of(2).then(|| format!("\"{number}\"").into_bytes()),
        last_modified: Some(1_600_000_000),
        ..StoredObject::default()
    }
}

#[test]
fn every_row_comes_back_alone_and_in_its_place() {
    let objects: Vec<_> = (0..5000).map(|number| object(number, number % 300)).collect();
    let shard = open(&objects, 100_000);

    assert_eq!(shard.rows(), 5000);
    for row in (0..5000).step_by(97) {
        assert_eq!(shard.row(row as u64).unwrap(), objects[row]);
    }
    for rows in [0..5000, 0..0, 4999..5000, 1200..3000] {
        let found = read(&shard, rows.start as u64..rows.end as u64).unwrap();
        assert_eq!(found.len(), rows.len());
        for (row, (sequence, found, crc32c)) in rows.zip(found) {
            assert_eq!((sequence, crc32c), (row as u64, crc32c::crc32c(&objects[row].body)));
            assert_eq!(found, objects[row]);
        }
    }
}

#[test]
fn a_row_that_does_not_exist_is_an_error() {
    let shard = open(&[object(1, 10)], 1000);

    assert!(matches!(shard.row(1), Err(ShardError::Damage(_))));
    assert!(shard.row(u64::MAX).is_err());
    assert!(shard.batches(0..2, None).is_err());
    assert!(read(&open(&[], 1000), 0..0).unwrap().is_empty());
}

#[test]
fn only_the_columns_that_are_asked_for_are_read() {
    let shard = open(&[object(1, 10), object(2, 10)], 1000);

    let batch = shard.batches(0..2, Some(&[Column::Name, Column::Crc32c])).unwrap().next().unwrap().unwrap();

    assert_eq!(
        batch.schema().fields().iter().map(|field| field.name()).collect::<Vec<_>>(),
        ["name", "crc32c"]
    );
    assert!(matches!(object_at(&batch, 0), Err(ShardError::Foreign(_))));
}

#[test]
fn a_name_that_is_not_utf8_keeps_its_bytes() {
    let odd = StoredObject { name: b"a\xff\xfeb".to_vec(), ..object(1, 3) };
    let shard = open(&[odd.clone(), object(2, 3)], 1000);

    let batch = shard.batches(0..2, Some(&[Column::Name, Column::NameRaw])).unwrap().next().unwrap().unwrap();
    let names: &arrow_array::StringArray = batch.column(0).as_any().downcast_ref().unwrap();

    assert_eq!(names.value(0), "a\u{fffd}\u{fffd}b");
    assert_eq!(batch.column(1).null_count(), 1);
    assert_eq!(shard.row(0).unwrap(), odd);
}

#[test]
fn a_large_body_is_a_row_group_of_its_own() {
    let objects =
        [object(0, 50), object(1, 3_000_000), object(2, 50), object(3, 2_000_000), object(4, 1_500_000)];
    let shard = open(&objects, 8 << 20);

    for (row, object) in objects.iter().enumerate() {
        assert_eq!(&shard.row(row as u64).unwrap(), object);
    }
    let rows: Vec<_> = shard.batches(0..5, None).unwrap().map(|batch| batch.unwrap().num_rows()).collect();
    assert_eq!(rows, [1; 5]);
}

#[test]
fn bodies_that_compress_well_do_not_make_large_row_groups() {
    let objects: Vec<_> =
        (0..64).map(|number| StoredObject { body: vec![0; 900_000], ..object(number, 0) }).collect();
    let shard = open(&objects, 1 << 20);

    for batch in shard.batches(0..64, None).unwrap() {
        assert!(batch.unwrap().num_rows() <= 8);
    }
}

fn list() -> ExtraColumns {
    ExtraColumns::of_list(["rank", "country.code"].map(str::to_owned)).unwrap()
}

fn of_list(number: usize, body: usize, values: [Option<&[u8]>; 2]) -> StoredObject {
    let mut kept = Vec::new();
    write_extra(values.into_iter(), &mut kept);
    let url = number.is_multiple_of(2).then(|| format!("https://a/{number}").into_bytes());
    StoredObject { url, kept: Some(kept), ..object(number, body) }
}

fn write_list(objects: &[StoredObject], columns: &ExtraColumns) -> ParquetShard {
    let mut encoder =
        ParquetEncoder::new(tempfile::tempfile().unwrap(), 20_000, columns, Box::new(tempfile::tempfile))
            .unwrap();
    for (sequence, object) in objects.iter().enumerate() {
        encoder.push(&object.as_object(sequence as u64)).unwrap();
    }
    ParquetShard::open(encoder.finish().unwrap()).unwrap()
}

#[test]
fn columns_of_a_list_come_back_beside_bodies_of_any_size() {
    let rank = |number: usize| number.to_string().into_bytes();
    let objects: Vec<_> = (0..2500)
        .map(|number| {
            let length = if number % 1000 == 7 { 1_500_000 } else { 20 };
            of_list(number, length, [Some(&rank(number)), (number % 3 == 0).then_some(&b"de"[..])])
        })
        .collect();

    let shard = write_list(&objects, &list());

    assert_eq!(shard.columns(), &list());
    for row in [0, 1, 7, 8, 1007, 2499] {
        assert_eq!(shard.row(row as u64).unwrap(), objects[row]);
    }
    let found = read(&shard, 0..2500).unwrap();
    assert!(found.iter().map(|(_, found, _)| found).eq(&objects));
}

#[test]
fn a_row_has_a_value_for_each_column_and_no_other() {
    let odd = |values: &[Option<&[u8]>]| {
        let mut kept = Vec::new();
        write_extra(values.iter().copied(), &mut kept);
        StoredObject { kept: Some(kept), ..object(1, 3) }
    };
    let none = StoredObject { kept: None, ..object(1, 3) };
    let shard = write_list(&[odd(&[Some(b"a\xff")]), odd(&[None, Some(b""), Some(b"x")]), none], &list());

    let values = |row| {
        let kept = shard.row(row).unwrap().kept.unwrap();
        extra_values(&kept).map(|value| value.map(<[u8]>::to_vec)).collect::<Vec<_>>()
    };
    assert_eq!(values(0), [Some("a\u{fffd}".as_bytes().to_vec()), None]);
    assert_eq!(values(1), [None, Some(Vec::new())]);
    assert_eq!(values(2), [None, None]);
}

#[test]
fn shards_of_a_list_become_one_with_their_columns_and_no_other() {
    let objects: Vec<_> = (0..40).map(|number| of_list(number, 20, [Some(b"1"), None])).collect();
    let shards: Vec<_> = objects.chunks(9).map(|objects| write_list(objects, &list())).collect();
    let mut to =
        ParquetEncoder::new(tempfile::tempfile().unwrap(), 1 << 20, &list(), Box::new(tempfile::tempfile))
            .unwrap();
    let mut other =
        ParquetEncoder::new(Vec::new(), 1 << 20, &ExtraColumns::default(), Box::new(tempfile::tempfile))
            .unwrap();

    merge(&shards, &mut to, &mut |_, _| Ok(())).unwrap();
    let refused = merge(&shards, &mut other, &mut |_, _| Ok(())).unwrap_err();

    let merged = ParquetShard::open(to.finish().unwrap()).unwrap();
    assert_eq!(merged.columns(), &list());
    assert!(read(&merged, 0..40).unwrap().iter().map(|(_, found, _)| found).eq(&objects));
    assert!(matches!(refused, ShardError::Foreign(_)), "{refused}");
}

#[test]
fn a_column_that_every_row_has_cannot_be_kept() {
    for name in Column::ALL.map(Column::name).into_iter().chain(["url"]) {
        assert!(ExtraColumns::of_list([name.to_owned()]).is_err(), "{name}");
    }
}

fn of_all_targets(columns: ExtraColumns) -> ExtraColumns {
    columns.with_outcomes().unwrap()
}

#[test]
fn attempts_come_back_beside_bodies_of_any_size_and_through_merges() {
    for columns in [of_all_targets(ExtraColumns::default()), of_all_targets(list())] {
        let objects: Vec<_> = (0..2500)
            .map(|number| {
                let length = if number % 1000 == 7 { 1_500_000 } else { 20 };
                let object = of_list(number, length, [Some(b"1"), None]);
                let attempts = number as u32 % 5 + 1;
                if columns.has_url() {
                    StoredObject { attempts, ..object }
                } else {
                    StoredObject { attempts, url: None, kept: None, ..object }
                }
            })
            .collect();

        let shard = write_list(&objects, &columns);
        let mut to = ParquetEncoder::new(
            tempfile::tempfile().unwrap(),
            1 << 20,
            &columns,
            Box::new(tempfile::tempfile),
        )
        .unwrap();
        merge(std::slice::from_ref(&shard), &mut to, &mut |_, _| Ok(())).unwrap();
        let merged = ParquetShard::open(to.finish().unwrap()).unwrap();

        for shard in [shard, merged] {
            assert_eq!(shard.columns(), &columns);
            assert_eq!(shard.row(1007).unwrap(), objects[1007]);
            assert!(read(&shard, 0..2500).unwrap().iter().map(|(_, found, _)| found).eq(&objects));
        }
    }
}

#[test]
fn a_row_without_a_body_is_no_empty_object() {
    let target = UnfetchedTarget {
        sequence: 1,
        name: b"a",
        outcome: "failed",
        kind: Some("refused"),
        detail: None,
        status: 0,
        attempts: 3,
        url: None,
        kept: None,
        replies: None,
    };
    let columns = of_all_targets(list());
    let mut encoder =
        ParquetEncoder::new(tempfile::tempfile().unwrap(), 1 << 20, &columns, Box::new(tempfile::tempfile))
            .unwrap();
    encoder.push(&object(0, 20).as_object(0)).unwrap();
    encoder.push_unfetched(&target).unwrap();

    let shard = ParquetShard::open(encoder.finish().unwrap()).unwrap();

    assert!(shard.row(0).is_ok());
    assert!(matches!(shard.row(1).unwrap_err(), ShardError::Foreign(_)));
    assert!(read(&shard, 0..2).is_err());
}

#[test]
fn columns_that_no_list_has_are_foreign() {
    let field = |name, data_type| Field::new(name, data_type, true);
    for behind in [
        vec![field("rank", DataType::Utf8)],
        vec![field("url", DataType::Int64)],
        vec![field("url", DataType::Utf8), field("rank", DataType::Int32)],
    ] {
        let mut fields: Vec<_> = schema(&ExtraColumns::default()).fields().iter().cloned().collect();
        fields.extend(behind.into_iter().map(Arc::new));
        let schema = Arc::new(Schema::new(fields));
        let writer = ArrowWriter::try_new(tempfile::tempfile().unwrap(), schema, None).unwrap();

        let error = ParquetShard::open(writer.into_inner().unwrap()).unwrap_err();

        assert!(matches!(error, ShardError::Foreign(_)), "{error}");
    }
}

#[test]
fn small_shards_become_one() {
    let objects: Vec<_> = (0..3000).map(|number| object(number, 20)).collect();
    let shards: Vec<_> = objects.chunks(700).map(|objects| open(objects, 10_000)).collect();
    let mut encoder = ParquetEncoder::new(
        tempfile::tempfile().unwrap(),
        1 << 20,
        &ExtraColumns::default(),
        Box::new(tempfile::tempfile),
    )
    .unwrap();
    let mut places = Vec::new();

    merge(&shards, &mut encoder, &mut |object, row| {
        places.push((object.name.to_vec(), row));
        Ok(())
    })
    .unwrap();

    let merged = ParquetShard::open(encoder.finish().unwrap()).unwrap();
    assert_eq!(merged.rows(), 3000);
    for (row, (name, place)) in places.iter().enumerate() {
        assert_eq!((name, *place), (&objects[row].name, row as u64));
    }
    assert_eq!(merged.row(2999).unwrap(), objects[2999]);
}

#[test]
fn a_body_without_its_checksum_is_neither_read_nor_merged() {
    let mut encoder = ParquetEncoder::new(
        tempfile::tempfile().unwrap(),
        1000,
        &ExtraColumns::default(),
        Box::new(tempfile::tempfile),
    )
    .unwrap();
    let stored = object(1, 10);
    encoder.push(&Object { crc32c: 1, ..stored.as_object(1) }).unwrap();
    let shard = ParquetShard::open(encoder.finish().unwrap()).unwrap();
    let mut to =
        ParquetEncoder::new(Vec::new(), 1000, &ExtraColumns::default(), Box::new(tempfile::tempfile))
            .unwrap();

    assert!(matches!(shard.row(0), Err(ShardError::Damage(_))));
    assert!(matches!(merge(&[shard], &mut to, &mut |_, _| Ok(())), Err(ShardError::Damage(_))));
}

#[test]
fn another_schema_is_foreign() {
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let mut writer = ArrowWriter::try_new(tempfile::tempfile().unwrap(), schema, None).unwrap();
    writer.write(&batch).unwrap();

    let error = ParquetShard::open(writer.into_inner().unwrap()).unwrap_err();

    assert!(matches!(error, ShardError::Foreign(_)), "{error}");
    assert!(matches!(object_at(&batch, 0), Err(ShardError::Foreign(_))));
}

/// A device that becomes full after this many bytes.
#[derive(Debug)]
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::Error::from_raw_os_error(libc::ENOSPC))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_to(to: Full, objects: &[StoredObject]) -> io::Result<()> {
    let mut encoder =
        ParquetEncoder::new(to, 20_000, &ExtraColumns::default(), Box::new(tempfile::tempfile))?;
    for (sequence, object) in objects.iter().enumerate() {
        encoder.push(&object.as_object(sequence as u64))?;
    }
    encoder.finish().map(drop)
}

#[test]
fn a_full_device_keeps_its_error_number_wherever_it_is_full() {
    let mut objects: Vec<_> = (0..2000).map(|number| object(number, 30)).collect();
    objects.push(object(2000, 1_200_000));
    let mut file = write(&objects, 20_000);
    let len = file.seek(io::SeekFrom::End(0)).unwrap() as usize;

    for room in (0..len).step_by(len / 50).chain(len - 100..len) {
        let error = write_to(Full(room), &objects).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{room}: {error}");
    }
    write_to(Full(len), &objects).unwrap();
}

#[test]
fn the_estimate_is_near_the_file() {
    let mut encoder =
        ParquetEncoder::new(Vec::new(), 1 << 20, &ExtraColumns::default(), Box::new(tempfile::tempfile))
            .unwrap();
    let mut random = 1_u64;
    for number in 0..5000 {
        let mut object = object(number, 1000);
        for byte in &mut object.body {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = (random >> 56) as u8;
        }
        encoder.push(&object.as_object(number as u64)).unwrap();
    }
    let estimate = encoder.bytes();

    let len = encoder.finish().unwrap().len();

    assert!(estimate.abs_diff(len) < len / 10, "{estimate} {len}");
}

#[test]
fn a_batch_is_empty_after_it_was_taken() {
    let mut builder = BatchBuilder::new(&ExtraColumns::default());
    builder.push(&object(1, 10).as_object(1));
    assert_eq!((builder.rows(), builder.bytes()), (1, "object-000001".len() + 10));

    assert_eq!(builder.finish().unwrap().num_rows(), 1);

    assert_eq!((builder.rows(), builder.bytes()), (0, 0));
    assert_eq!(builder.finish().unwrap().num_rows(), 0);
}

#[test]
fn reading_beyond_the_file_takes_no_memory() {
    let file = tempfile::tempfile().unwrap();
    (&file).write_all(b"0123456789").unwrap();
    let source = source::ShardBytes::new(file).unwrap();

    assert_eq!(source.len(), 10);
    assert_eq!(&source.get_bytes(2, 3).unwrap()[..], b"234");
    assert!(source.get_bytes(2, usize::MAX).is_err());
    assert!(source.get_bytes(u64::MAX, 2).is_err());
    let mut rest = Vec::new();
    source.get_read(7).unwrap().read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"789");
}

fn any_object() -> impl Strategy<Value = StoredObject> {
    let text = || proptest::option::of("[ -~]{0,20}".prop_map(String::into_bytes));
    let seconds = proptest::option::of(0..9_000_000_000_000_u64);
    let numbers = (any::<u16>(), 0..i64::MAX as u64);
    (vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..300), numbers, text(), text(), seconds).prop_map(
        |(name, body, (status, fetched_at), content_type, etag, last_modified)| StoredObject {
            name,
            body,
            status,
            fetched_at,
            content_type,
            etag,
            last_modified,
            ..StoredObject::default()
        },
    )
}

/// Reads all rows in both ways. Errors are accepted.
fn read_all(bytes: &[u8]) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let Ok(shard) = ParquetShard::open(file) else { return };
    for row in [0, 1, shard.rows() / 2, shard.rows().saturating_sub(1)] {
        let _ = shard.row(row);
    }
    // A damaged footer may claim more rows than can ever be read.
    let _ = read(&shard, 0..shard.rows().min(100_000));
}

fn small_file() -> Vec<u8> {
    let objects: Vec<_> = (0..300).map(|number| object(number, number % 90)).collect();
    let mut file = write(&objects, 6000);
    file.rewind().unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_objects_come_back(objects in vec(any_object(), 1..60), group in 1..4000_usize, row in any::<prop::sample::Index>()) {
        let shard = open(&objects, group);

        let found = read(&shard, 0..shard.rows()).unwrap();

        prop_assert_eq!(found.len(), objects.len());
        for (sequence, (found, object)) in found.iter().zip(&objects).enumerate() {
            prop_assert_eq!(found, &(sequence as u64, object.clone(), crc32c::crc32c(&object.body)));
        }
        let row = row.index(objects.len());
        prop_assert_eq!(&shard.row(row as u64).unwrap(), &objects[row]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_damaged_file_is_an_error_or_other_rows(
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        from_the_end in any::<bool>(),
        cut in proptest::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut bytes = small_file();
        for (place, value) in damage {
            // Half of the damage is in the footer and the indexes, where it has the greatest effect.
            let start = if from_the_end { bytes.len() - 4096 } else { 0 };
            let place = start + place.index(bytes.len() - start);
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }

        read_all(&bytes);
    }

    #[test]
    fn a_file_of_any_bytes_is_an_error(bytes in vec(any::<u8>(), 0..200), framed in any::<bool>()) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        if framed {
            file.write_all(&(bytes.len() as u32).to_le_bytes()).unwrap();
            file.write_all(b"PAR1").unwrap();
        }

        prop_assert!(ParquetShard::open(file).is_err());
    }
}

/// Writes a shard with a commit after every `each` objects, and some rows after the last commit. Also returns the ends
/// of the commits.
fn committed(objects: &[StoredObject], each: usize, row_group_bytes: usize) -> (File, Vec<u64>) {
    let file = tempfile::tempfile().unwrap();
    let written = file.try_clone().unwrap();
    let mut encoder =
        ParquetEncoder::new(file, row_group_bytes, &ExtraColumns::default(), Box::new(tempfile::tempfile))
            .unwrap();
    let mut ends = Vec::new();
    for (sequence, object) in objects.iter().enumerate() {
        encoder.push(&object.as_object(sequence as u64)).unwrap();
        if (sequence + 1).is_multiple_of(each) {
            let file = encoder.commit().unwrap();
            ends.push(file.metadata().unwrap().len());
        }
    }
    drop(encoder);
    (written, ends)
}

/// Returns the shard truncated to `end` and completed with its footer.
fn completed(file: &File, end: u64) -> Result<ParquetShard, ShardError> {
    let (footer, rows) = footer_of(file, end)?;
    let mut whole = tempfile::tempfile().unwrap();
    let mut bytes = vec![0; end as usize];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, 0).unwrap();
    bytes.extend_from_slice(&footer);
    whole.write_all(&bytes).unwrap();
    let shard = ParquetShard::open(whole)?;
    assert_eq!(shard.rows(), rows);
    Ok(shard)
}

#[test]
fn a_shard_that_is_cut_back_to_a_commit_is_whole_with_its_footer() {
    let objects: Vec<_> = (0..1050).map(|number| object(number, number % 300)).collect();
    // Test both a single row group and several row groups for each commit.
    for row_group_bytes in [1 << 20, 1000] {
        let (file, ends) = committed(&objects, 100, row_group_bytes);
        assert_eq!(ends.len(), 10);
        for (position, end) in ends.iter().enumerate() {
            let shard = completed(&file, *end).unwrap();
            let rows = (position + 1) * 100;
            assert_eq!(shard.rows(), rows as u64);
            for (row, (_, found, _)) in read(&shard, 0..rows as u64).unwrap().into_iter().enumerate() {
                assert_eq!(found, objects[row]);
            }
            assert_eq!(shard.row(rows as u64 - 1).unwrap(), objects[rows - 1]);
        }
    }
}

#[test]
fn what_a_commit_costs_does_not_grow_with_the_commits_before_it() {
    let objects: Vec<_> = (0..3000).map(|number| object(number, 100)).collect();

    let (_, ends) = committed(&objects, 10, 1 << 20);

    let costs: Vec<u64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (first, last) = (costs[1], costs[costs.len() - 1]);
    assert!(last < first + 200, "{first} and {last} bytes");
}

#[test]
fn a_commit_that_is_damaged_or_missing_is_an_error() {
    let objects: Vec<_> = (0..300).map(|number| object(number, 50)).collect();
    let (file, ends) = committed(&objects, 100, 1 << 20);
    let (first, last) = (ends[0], ends[2]);

    assert!(matches!(completed(&file, last - 1), Err(ShardError::Damage(_))));
    assert!(matches!(footer_of(&file, 3), Err(ShardError::Damage(_))));
    assert!(matches!(footer_of(&file, last + 100), Err(ShardError::Damage(_))));
    let metadata = "metadata of the first commit, and where the one before it ends";
    for before in [40, 20] {
        let place = first - before;
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, place).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[byte[0] ^ 1], place).unwrap();
        assert!(matches!(footer_of(&file, last), Err(ShardError::Damage(_))), "{metadata}");
        std::os::unix::fs::FileExt::write_all_at(&file, &byte, place).unwrap();
    }
    assert!(footer_of(&file, last).is_ok());
}
