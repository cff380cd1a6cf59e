//! Buckets and their objects, in memory. Objects are either stored or computed, and computed objects take no memory.
//!
//! The total size of objects and parts is limited to [`STORE_BYTES_MAX`]. A stored object hides a computed one that has
//! the same key.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use md5::{Digest, Md5};

use super::failure::Failure;
use super::options::BucketOptions;
use super::sign;
use super::uploads::Uploads;
use crate::synthetic;

/// Maximum total size of bodies, keys and their overhead (1 GiB).
const STORE_BYTES_MAX: u64 = 1 << 30;
const OBJECT_COST: u64 = 256;
/// Maximum length of a key, as in AWS.
const KEY_BYTES_MAX: usize = 1024;
/// Modification time of computed objects: 2026-01-01.
const SYNTHETIC_MODIFIED: i64 = 1_767_225_600_000;

/// A stored object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) body: Bytes,
    /// The `ETag`, without its quotes.
    pub(crate) etag: String,
    /// Modification time in milliseconds since 1970.
    pub(crate) modified: i64,
}

/// Returns the MD5 in hexadecimal. It is the `ETag` of an object that was put in one piece.
pub(crate) fn etag(body: &[u8]) -> Vec<u8> {
    sign::hex(&Md5::digest(body))
}

/// Returns [`etag`] as text.
pub(crate) fn etag_text(body: &[u8]) -> String {
    String::from_utf8(etag(body)).unwrap_or_default()
}

/// Computed objects. A key is a prefix followed by the name of a computed object of the file server.
#[derive(Debug)]
pub(crate) struct ComputedObjects {
    prefix: String,
    count: u64,
    size: usize,
}

impl ComputedObjects {
    /// Returns the index of a key.
    fn index_of(&self, key: &str) -> Option<u64> {
        let index = synthetic::index_of(key.strip_prefix(self.prefix.as_str())?)?;
        (index < self.count).then_some(index)
    }

    /// Writes the key of an index to a buffer.
    fn key<'a>(&self, index: u64, key: &'a mut Vec<u8>) -> &'a [u8] {
        key.clear();
        key.extend_from_slice(self.prefix.as_bytes());
        key.extend_from_slice(&synthetic::synthetic_name(index));
        key
    }

    /// Returns the first index whose key is at or after a bound. Keys are in the same order as their indexes.
    fn first(&self, bound: Bound<&[u8]>) -> u64 {
        let mut key = Vec::new();
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = u64::midpoint(low, high);
            let key = self.key(middle, &mut key);
            let is_before = match bound {
                Bound::Unbounded => false,
                Bound::Included(bound) => key < bound,
                Bound::Excluded(bound) => key <= bound,
            };
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Appends the body of a key. It is computed from the name after the prefix, as in the file server.
    fn body(&self, key: &str, out: &mut Vec<u8>) {
        synthetic::append_body(&key[self.prefix.len()..], 0..self.size as u64, out);
    }
}

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) name: String,
    pub(crate) region: String,
    pub(crate) public: bool,
    computed: ComputedObjects,
    objects: RwLock<BTreeMap<Vec<u8>, Arc<Object>>>,
}

/// An object that was found under a key.
pub(crate) enum StoredObject {
    Put(Arc<Object>),
    /// A computed object, whose body is in the buffer.
    Computed,
}

/// An object in a listing.
pub(crate) struct ListedObject<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) size: u64,
    pub(crate) etag: &'a [u8],
    pub(crate) modified: i64,
}

/// Next step of a walk over keys.
pub(crate) enum KeyWalk {
    Next,
    Stop,
    /// Continue at the first key that is not before this one.
    To(Vec<u8>),
}

impl Bucket {
    pub(crate) fn new(options: BucketOptions) -> Self {
        let BucketOptions { name, region, public, synthetic, size, key_prefix } = options;
        let computed = ComputedObjects { prefix: key_prefix, count: synthetic, size };
        Bucket { name, region, public, computed, objects: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Vec<u8>, Arc<Object>>> {
        self.objects.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Vec<u8>, Arc<Object>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds an object. If it is computed, appends its body to the buffer.
    pub(crate) fn get(&self, key: &str, buffer: &mut Vec<u8>) -> Option<StoredObject> {
        if let Some(object) = self.read().get(key.as_bytes()) {
            return Some(StoredObject::Put(Arc::clone(object)));
        }
        self.computed.index_of(key)?;
        self.computed.body(key, buffer);
        Some(StoredObject::Computed)
    }

    /// Returns whether the object is computed. Computed objects cannot be deleted.
    pub(crate) fn is_computed(&self, key: &str) -> bool {
        self.computed.index_of(key).is_some()
    }

    /// Returns the modification time of an object.
    pub(crate) fn modified(found: &StoredObject) -> i64 {
        match found {
            StoredObject::Put(object) => object.modified,
            StoredObject::Computed => SYNTHETIC_MODIFIED,
        }
    }

    /// Returns all stored objects.
    pub(crate) fn objects(&self) -> Vec<(String, Bytes)> {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        self.read().iter().map(|(key, object)| (text(key), object.body.clone())).collect()
    }

    /// Visits keys in byte order, starting at a bound.
    pub(crate) fn walk(&self, from: Bound<Vec<u8>>, visit: &mut dyn FnMut(&ListedObject<'_>) -> KeyWalk) {
        let objects = self.read();
        let mut from = Some(from);
        while let Some(bound) = from.take() {
            let bound = bound.as_ref().map(Vec::as_slice);
            let mut put = objects.range::<[u8], _>((bound, Bound::Unbounded)).peekable();
            let mut computed = self.computed.first(bound)..self.computed.count;
            let (mut key, mut body) = (Vec::new(), Vec::new());
            loop {
                let next = (!computed.is_empty()).then(|| self.computed.key(computed.start, &mut key));
                let walk = match (put.peek(), next) {
                    (Some((name, object)), next) if next.is_none_or(|key| name.as_slice() <= key) => {
                        if next == Some(name.as_slice()) {
                            computed.start += 1;
                        }
                        let (etag, modified) = (object.etag.as_bytes(), object.modified);
                        let walk = visit(&ListedObject {
                            key: name,
                            size: object.body.len() as u64,
                            etag,
                            modified,
                        });
                        put.next();
                        walk
                    }
                    (_, Some(key)) => {
                        computed.start += 1;
                        body.clear();
                        // Names consist of a text prefix and digits.
                        self.computed.body(std::str::from_utf8(key).unwrap_or_default(), &mut body);
                        let (size, etag) = (body.len() as u64, etag(&body));
                        visit(&ListedObject { key, size, etag: &etag, modified: SYNTHETIC_MODIFIED })
                    }
                    (_, None) => break,
                };
                match walk {
                    KeyWalk::Next => {}
                    KeyWalk::Stop => return,
                    KeyWalk::To(key) => {
                        from = Some(Bound::Included(key));
                        break;
                    }
                }
            }
        }
    }
}

/// All buckets and all multipart uploads.
#[derive(Debug, Default)]
pub(crate) struct Store {
    buckets: RwLock<HashMap<String, Arc<Bucket>>>,
    bytes: AtomicU64,
    pub(crate) uploads: Mutex<Uploads>,
}

impl Store {
    /// Adds a bucket, replacing any bucket that has the same name.
    pub(crate) fn add_bucket(&self, bucket: Bucket) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = buckets.insert(bucket.name.clone(), Arc::new(bucket)) {
            let bytes = old.read().iter().map(|(key, object)| cost(key.len(), object.body.len())).sum();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn bucket(&self, name: &str) -> Option<Arc<Bucket>> {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Returns the bucket whose name the host starts with.
    pub(crate) fn bucket_of_host(&self, host: &str) -> Option<String> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |name: &&String| host.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'));
        buckets.keys().filter(is_it).max_by_key(|name| name.len()).cloned()
    }

    /// Stores an object atomically. If `once` is set, fails if the key exists.
    pub(crate) fn put(&self, bucket: &Bucket, key: &str, object: Object, once: bool) -> Result<(), Failure> {
        check_key(key)?;
        let cost = cost(key.len(), object.body.len());
        self.reserve(cost)?;
        let mut objects = bucket.write();
        if once && (objects.contains_key(key.as_bytes()) || bucket.is_computed(key)) {
            self.release(cost);
            return Err(Failure::precondition("If-None-Match"));
        }
        if let Some(old) = objects.insert(key.as_bytes().to_vec(), Arc::new(object)) {
            self.release(self::cost(key.len(), old.body.len()));
        }
        Ok(())
    }

    /// Removes a stored object, if there is one.
    pub(crate) fn delete(&self, bucket: &Bucket, key: &str) {
        if let Some(old) = bucket.write().remove(key.as_bytes()) {
            self.release(cost(key.len(), old.body.len()));
        }
    }

    /// Reserves `bytes` of the store's capacity.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), Failure> {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > STORE_BYTES_MAX {
            self.release(bytes);
            return Err(Failure::too_large("This store holds at most 1 GiB."));
        }
        Ok(())
    }

    /// Releases reserved bytes of the store's capacity.
    pub(crate) fn release(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Rejects the keys that AWS rejects.
pub(crate) fn check_key(key: &str) -> Result<(), Failure> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Failure::new(400, "KeyTooLongError", "Your key is too long"));
    }
    Ok(())
}

/// Returns how many bytes of the capacity an object uses.
pub(crate) const fn cost(key: usize, body: usize) -> u64 {
    key as u64 + body as u64 + OBJECT_COST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(synthetic: u64, keys: &[&str]) -> Bucket {
        let options = BucketOptions {
            name: "bucket".to_owned(),
            region: "us-east-1".to_owned(),
            public: false,
            synthetic,
            size: 10,
            key_prefix: "p/".to_owned(),
        };
        let (store, bucket) = (Store::default(), Bucket::new(options));
        for key in keys {
            let object = Object { body: Bytes::from_static(b"x"), etag: etag_text(b"x"), modified: 0 };
            store.put(&bucket, key, object, false).expect("there is room");
        }
        bucket
    }

    fn keys(bucket: &Bucket, from: Bound<&str>) -> Vec<String> {
        let mut keys = Vec::new();
        bucket.walk(from.map(|from| from.as_bytes().to_vec()), &mut |listed| {
            keys.push(format!("{}:{}", String::from_utf8_lossy(listed.key), listed.size));
            KeyWalk::Next
        });
        keys
    }

    #[test]
    fn both_kinds_are_met_in_one_order() {
        let bucket = bucket(2, &["a", "p/file-000000000001", "p/file-0000000000005", "q", "ü"]);
        let all = [
            "a:1",
            "p/file-000000000000:10",
            "p/file-0000000000005:1",
            "p/file-000000000001:1",
            "q:1",
            "ü:1",
        ];

        assert_eq!(keys(&bucket, Bound::Unbounded), all);
        assert_eq!(keys(&bucket, Bound::Excluded("p/file-000000000000")), all[2..]);
        assert_eq!(keys(&bucket, Bound::Included("p/file-000000000001")), all[3..]);
        assert_eq!(keys(&bucket, Bound::Excluded("ü")), all[6..]);
    }

    #[test]
    fn a_walk_jumps() {
        let bucket = bucket(1000, &["z"]);
        let mut seen = Vec::new();

        bucket.walk(Bound::Unbounded, &mut |listed| {
            seen.push(listed.key.to_vec());
            if seen.len() == 1 { KeyWalk::To(b"p0".to_vec()) } else { KeyWalk::Next }
        });

        assert_eq!(seen, [b"p/file-000000000000".to_vec(), b"z".to_vec()]);
    }

    #[test]
    fn what_is_replaced_gives_its_room_back() {
        let (store, bucket) = (Store::default(), bucket(0, &[]));
        let object = |size| Object { body: vec![0; size].into(), etag: String::new(), modified: 0 };

        for size in [100, 50, 10] {
            store.put(&bucket, "key", object(size), false).expect("there is room");
            assert_eq!(store.bytes.load(Ordering::Relaxed), cost(3, size));
        }
        assert_eq!(store.put(&bucket, "key", object(1), true).expect_err("taken").code, "PreconditionFailed");
        assert_eq!(store.bytes.load(Ordering::Relaxed), cost(3, 10));
        store.delete(&bucket, "key");
        assert_eq!(store.bytes.load(Ordering::Relaxed), 0);
        assert!(store.reserve(STORE_BYTES_MAX + 1).is_err());
    }
}
