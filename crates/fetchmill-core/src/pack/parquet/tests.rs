use super::*;
use crate::object::StoredObject;
use std::fs::File;
use std::io::Write;

fn shard(objects: &[StoredObject], row_group_bytes: usize) -> File {
    let mut encoder = ParquetEncoder::new(tempfile::tempfile().unwrap(), row_group_bytes).unwrap();
    for (sequence, object) in objects.iter().enumerate() {
        encoder.push(&object.as_object(sequence as u64)).unwrap();
    }
    let mut file = encoder.finish().unwrap();
    file.flush().unwrap();
    file
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
        head: None,
    }
}

#[test]
fn every_row_comes_back_alone() {
    let objects: Vec<_> = (0..5000).map(|number| object(number, number % 300)).collect();
    let shard = ParquetShard::open(shard(&objects, 100_000)).unwrap();

    assert_eq!(shard.rows(), 5000);
    for row in (0..5000).step_by(97) {
        assert_eq!(shard.row(row as u64).unwrap(), objects[row]);
    }
    assert!(shard.row(5000).is_err());
}
