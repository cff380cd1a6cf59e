//! The facts that a listing states about an object. They are stored as bytes among the names of a page, and therefore
//! in the journal. They describe a key in a bucket ([`ListedKey`]), a file in a folder on a server ([`SizedName`]), or
//! a time ([`ListedTime`]).
//!
//! The facts about a key come before the key. The first byte is the length of the ETag plus one, or 0 if only the key
//! is known. It is followed by the ETag, by the size and the time as LEB128, and by the key. Any bytes can be parsed,
//! because a journal can be damaged.

/// The facts that a listing states about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListedKey<'a> {
    /// The key, exactly as the store sent it. A correct store sends UTF-8.
    pub key: &'a [u8],
    /// Size of the object in bytes.
    pub size: Option<u64>,
    /// ETag without quotes. It is empty if the listing does not state one.
    pub etag: &'a [u8],
    /// Time of the last modification in seconds since 1970 UTC. 0 if the listing does not state it.
    pub modified: u64,
}

/// Maximum length of a kept ETag. An ETag is normally an MD5 in hexadecimal, followed by the number of parts.
const ETAG_BYTES_MAX: usize = 128;

impl<'a> ListedKey<'a> {
    /// Creates a key without other facts.
    pub fn named(key: &'a [u8]) -> Self {
        ListedKey { key, ..ListedKey::default() }
    }

    /// Appends the key and its facts.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Some(size) = self.size {
            let etag = Some(self.etag).filter(|etag| etag.len() <= ETAG_BYTES_MAX).unwrap_or_default();
            out.push(etag.len() as u8 + 1);
            out.extend_from_slice(etag);
            write_number(size, out);
            write_number(self.modified, out);
        } else {
            out.push(0);
        }
        out.extend_from_slice(self.key);
    }

    /// Reads the output of [`ListedKey::write`].
    pub fn read(bytes: &'a [u8]) -> Self {
        let Some((&length, rest)) = bytes.split_first() else { return ListedKey::default() };
        let Some(etag_len) = usize::from(length).checked_sub(1) else { return ListedKey::named(rest) };
        let Some((etag, rest)) = rest.split_at_checked(etag_len) else { return ListedKey::named(rest) };
        let (size, rest) = read_number(rest);
        let (modified, key) = read_number(rest);
        ListedKey { key, size: Some(size), etag, modified }
    }
}

/// Returns whether two ETags are equal, ignoring quotes and the prefix of weak ETags.
pub fn is_same_etag(one: &[u8], other: &[u8]) -> bool {
    without_quotes(one) == without_quotes(other)
}

fn without_quotes(etag: &[u8]) -> &[u8] {
    let etag = etag.strip_prefix(b"W/").unwrap_or(etag);
    etag.strip_prefix(b"\"").and_then(|inside| inside.strip_suffix(b"\"")).unwrap_or(etag)
}

/// Precision of a time in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeResolution {
    /// The time is accurate to the second.
    Second,
    /// The time is accurate to the minute.
    Minute,
    /// Only the day is known.
    Day,
}

/// Time of an object's last modification, as stated by its listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedTime {
    /// Seconds since 1970, up to the year 9999. If only the minute or the day is known, this is the start of the minute
    /// or the day.
    pub seconds: u64,
    /// Whether the listing names the time zone. If it does not, the server's local time is read as UTC. Such a time can
    /// be compared only with other times from the same server.
    pub has_zone: bool,
    /// Precision of the time.
    pub resolution: TimeResolution,
}

impl ListedTime {
    /// Creates a time in UTC that is accurate to the second.
    pub fn exact(seconds: u64) -> Self {
        ListedTime { seconds, has_zone: true, resolution: TimeResolution::Second }
    }

    /// Returns the seconds since 1970 UTC if the listing states both the time zone and the second.
    pub fn utc(self) -> Option<u64> {
        (self.has_zone && self.resolution == TimeResolution::Second).then_some(self.seconds)
    }

    /// Appends the time as LEB128. The lowest three bits contain the precision and a flag that states whether the zone
    /// is known.
    pub fn write(self, out: &mut Vec<u8>) {
        let resolution = match self.resolution {
            TimeResolution::Second => 0,
            TimeResolution::Minute => 1,
            TimeResolution::Day => 2,
        };
        write_number(self.seconds << 3 | u64::from(self.has_zone) << 2 | resolution, out);
    }

    /// Reads the output of [`ListedTime::write`]. Returns the time and the remaining bytes.
    pub fn read(bytes: &[u8]) -> (Self, &[u8]) {
        let (number, rest) = read_number(bytes);
        let resolution = match number & 3 {
            0 => TimeResolution::Second,
            1 => TimeResolution::Minute,
            _ => TimeResolution::Day,
        };
        (ListedTime { seconds: number >> 3, has_zone: number & 4 != 0, resolution }, rest)
    }
}

/// The facts that the listing of a folder states about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizedName<'a> {
    /// Path of the file, which can contain any bytes.
    pub name: &'a [u8],
    /// Size of the file in bytes.
    pub size: Option<u64>,
    /// Time of the last modification.
    pub modified: Option<ListedTime>,
}

/// First byte of a name that includes facts. Names that were written before sizes were kept consist only of their own
/// bytes and never begin with this byte.
const SIZED: u8 = 0;
/// Follows [`SIZED`] if there is a time. LEB128 never encodes a number like this.
const TIMED: &[u8] = &[0x80, 0];

impl<'a> SizedName<'a> {
    /// Appends the prefix of a name, which consists of [`SIZED`] and the size plus one as LEB128, or 0 if the size is
    /// unknown. If there is a time, [`TIMED`] and the time are written between these two.
    pub fn prefix(size: Option<u64>, modified: Option<ListedTime>, out: &mut Vec<u8>) {
        out.push(SIZED);
        if let Some(modified) = modified {
            out.extend_from_slice(TIMED);
            modified.write(out);
        }
        write_number(size.and_then(|size| size.checked_add(1)).unwrap_or(0), out);
    }

    /// Reads a name with a prefix that was written by [`SizedName::prefix`], or a name without a prefix.
    pub fn read(bytes: &'a [u8]) -> Self {
        let Some(rest) = bytes.strip_prefix(&[SIZED]) else {
            return SizedName { name: bytes, ..SizedName::default() };
        };
        let (modified, rest) = match rest.strip_prefix(TIMED) {
            Some(timed) => {
                let (modified, rest) = ListedTime::read(timed);
                (Some(modified), rest)
            }
            None => (None, rest),
        };
        let (number, name) = read_number(rest);
        SizedName { name, size: number.checked_sub(1), modified }
    }
}

/// Appends a number as LEB128.
fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads the output of [`write_number`]. Returns the number and the remaining bytes.
fn read_number(mut rest: &[u8]) -> (u64, &[u8]) {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let Some((&byte, behind)) = rest.split_first() else { break };
        rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    (number, rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_time() -> impl Strategy<Value = ListedTime> {
        let resolutions = vec![TimeResolution::Second, TimeResolution::Minute, TimeResolution::Day];
        (0..1_u64 << 38, any::<bool>(), prop::sample::select(resolutions))
            .prop_map(|(seconds, has_zone, resolution)| ListedTime { seconds, has_zone, resolution })
    }

    #[test]
    fn a_name_is_read_as_earlier_versions_wrote_it() {
        assert_eq!(SizedName::read(b"a/b"), SizedName { name: b"a/b", ..SizedName::default() });
        assert_eq!(SizedName::read(b""), SizedName::default());
        // A file without known facts, and a file with a known size.
        assert_eq!(SizedName::read(b"\0\0a"), SizedName { name: b"a", ..SizedName::default() });
        assert_eq!(SizedName::read(b"\0\x08a"), SizedName { name: b"a", size: Some(7), modified: None });
    }

    #[test]
    fn a_time_is_one_in_utc_where_it_is_told_to_the_second_and_with_its_zone() {
        let time = ListedTime::exact(9);

        assert_eq!(time.utc(), Some(9));
        assert_eq!(ListedTime { has_zone: false, ..time }.utc(), None);
        assert_eq!(ListedTime { resolution: TimeResolution::Minute, ..time }.utc(), None);
        assert_eq!(ListedTime { resolution: TimeResolution::Day, ..time }.utc(), None);
    }

    proptest! {
        #[test]
        fn a_sized_name_comes_back(
            name in proptest::collection::vec(any::<u8>(), 0..40),
            size in any::<Option<u64>>(),
            modified in proptest::option::of(any_time()),
        ) {
            let mut written = Vec::new();
            SizedName::prefix(size, modified, &mut written);
            written.extend_from_slice(&name);

            let size = size.filter(|size| *size < u64::MAX);
            prop_assert_eq!(SizedName::read(&written), SizedName { name: &name, size, modified });
        }

        #[test]
        fn a_listed_key_comes_back(
            key in proptest::collection::vec(any::<u8>(), 0..40),
            size in any::<Option<u64>>(),
            etag in proptest::collection::vec(any::<u8>(), 0..=ETAG_BYTES_MAX),
            modified in any::<u64>(),
        ) {
            let (etag, modified) = if size.is_some() { (etag, modified) } else { (Vec::new(), 0) };
            let listed = ListedKey { key: &key, size, etag: &etag, modified };
            let mut written = Vec::new();
            listed.write(&mut written);

            prop_assert_eq!(ListedKey::read(&written), listed);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (ListedKey::read(&bytes), SizedName::read(&bytes), ListedTime::read(&bytes));
            let _ = SizedName::read(&[&[SIZED], TIMED, &bytes].concat());
        }
    }
}
