//! Names of tar members, for objects and their sidecars.
//!
//! # Rules
//! - Member names are unique within a shard. If the shard already contains an object's name, or its key if it has
//!   sidecars, the member is named `%again/SEQUENCE/NAME`. No escaped name has this form.
//! - Readers group members by key, which is the part of a file name before the first dot. For this reason, if an object
//!   has sidecars, every dot in its name is escaped as `%2E`, except the dot of the extension. This keeps the keys of
//!   objects with ids such as `2101.00001` apart.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use super::number::write_decimal;
use fetchmill_model::name;
use fetchmill_model::target::Sequence;

/// Folder for objects whose name is already in the shard.
const AGAIN: &[u8] = b"%again/";
/// Maximum length of an extension. A longer suffix is treated as part of the name.
const EXTENSION_BYTES_MAX: usize = 16;

/// Rule for deriving the key of sidecars from the name of their object.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum SampleKeys {
    /// The whole name without its extension. As a result, every object has a key of its own.
    #[default]
    OwnKey,
    /// The part before the first dot, as in jobs that 0.1.0 started.
    FirstDot,
}

/// Assigns unique member names to the objects of a shard.
#[derive(Debug, Default)]
pub(super) struct MemberNames {
    /// Hashes of names or keys. They take 8 bytes per object, for up to [`fetchmill_model::limits::OPEN_ROWS_MAX`]
    /// objects.
    seen: HashSet<u64>,
}

impl MemberNames {
    /// Starts a new shard.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
    }

    /// Writes the member name of an object. `keys` is set if the object has sidecars.
    pub(super) fn write(
        &mut self,
        object: (Sequence, &[u8]),
        keys: Option<SampleKeys>,
        member: &mut Vec<u8>,
    ) {
        let (sequence, name) = object;
        member.clear();
        name::to_member(name, member);
        if keys == Some(SampleKeys::OwnKey) {
            escape_dots(member);
        }
        let unique = if keys.is_some() { key_of(member) } else { &*member };
        // Hash collisions are rare, and only make the second name longer than necessary.
        if !self.seen.insert(xxh3_64(unique)) {
            let mut before = AGAIN.to_vec();
            write_decimal(sequence, &mut before);
            before.push(b'/');
            member.splice(0..0, before);
        }
    }
}

/// Returns the object name of a member. `None` if this crate never writes such a member.
pub(super) fn object_name(member: &[u8]) -> Option<Vec<u8>> {
    let member = match member.strip_prefix(AGAIN) {
        Some(rest) => {
            let (number, member) = rest.split_at(memchr::memchr(b'/', rest)?);
            super::number::parse_decimal(number)?;
            &member[1..]
        }
        None => member,
    };
    name::from_member(member).or_else(|| {
        let name = name::unescape(member)?;
        let mut again = Vec::with_capacity(member.len());
        name::to_member(&name, &mut again);
        escape_dots(&mut again);
        (again == member).then_some(name)
    })
}

/// Returns the member name of a sidecar. If the object already has this extension, the extension appears twice.
pub(super) fn sidecar_member(member: &[u8], extension: &str) -> Vec<u8> {
    let key = key_of(member);
    let dotted = format!(".{extension}");
    let is_taken = member[key.len()..].eq_ignore_ascii_case(dotted.as_bytes());
    [key, dotted.as_bytes(), if is_taken { dotted.as_bytes() } else { b"" }].concat()
}

/// Returns whether a member is the sidecar of the given object with this extension.
pub(super) fn is_sidecar(sidecar: &[u8], (member, name): (&[u8], &[u8]), extension: &str) -> bool {
    if sidecar_member(member, extension) == sidecar {
        return true;
    }
    // fetchmill 0.1.0 appended the extension to these names directly, rather than to their member names.
    if !name.is_empty() && !name.ends_with(b"/") {
        return false;
    }
    let mut of_0_1_0 = Vec::new();
    name::to_member(&[name, b".", extension.as_bytes()].concat(), &mut of_0_1_0);
    of_0_1_0 == sidecar
}

/// Returns the part of the last segment before its first dot. If the segment has no dot or starts with one, returns the
/// whole segment.
fn key_of(member: &[u8]) -> &[u8] {
    let segment = last_segment(member);
    match memchr::memchr(b'.', &member[segment..]) {
        Some(dot) if dot > 0 => &member[..segment + dot],
        _ => member,
    }
}

/// Escapes the dots of the last segment, except the dot of the extension.
fn escape_dots(member: &mut Vec<u8>) {
    let segment = last_segment(member);
    let extension = extension_start(&member[segment..]).map(|dot| segment + dot);
    if memchr::memchr_iter(b'.', &member[segment..]).all(|dot| Some(segment + dot) == extension) {
        return;
    }
    let rest = member.split_off(segment);
    for (position, byte) in rest.into_iter().enumerate() {
        if byte == b'.' && Some(segment + position) != extension {
            member.extend_from_slice(&name::escaped(byte));
        } else {
            member.push(byte);
        }
    }
}

/// Returns the position of the extension's dot. The dot must be followed by up to 16 letters and digits, at least one
/// of which is a letter.
fn extension_start(segment: &[u8]) -> Option<usize> {
    let dot = memchr::memrchr(b'.', segment).filter(|dot| *dot > 0)?;
    let extension = &segment[dot + 1..];
    let is_one = extension.len() <= EXTENSION_BYTES_MAX
        && extension.iter().all(u8::is_ascii_alphanumeric)
        && extension.iter().any(u8::is_ascii_alphabetic);
    is_one.then_some(dot)
}

fn last_segment(member: &[u8]) -> usize {
    memchr::memrchr(b'/', member).map_or(0, |slash| slash + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(names: &[&str], keys: Option<SampleKeys>) -> Vec<String> {
        let mut made = MemberNames::default();
        let mut member = Vec::new();
        let names = names.iter().zip(1..).map(|(name, sequence)| {
            made.write((sequence, name.as_bytes()), keys, &mut member);
            assert_eq!(object_name(&member).as_deref(), Some(name.as_bytes()));
            String::from_utf8(member.clone()).unwrap()
        });
        names.collect()
    }

    #[test]
    fn an_id_with_dots_has_a_key_of_its_own() {
        for (name, member, sidecar) in [
            ("2101.00001.jpg", "2101%2E00001.jpg", "2101%2E00001.txt"),
            ("2101.00001", "2101%2E00001", "2101%2E00001.txt"),
            ("a.b/7.seg.png", "a.b/7%2Eseg.png", "a.b/7%2Eseg.txt"),
            ("a/7.mp3", "a/7.mp3", "a/7.txt"),
            ("7", "7", "7.txt"),
            (".jpg", "%2Ejpg", "%2Ejpg.txt"),
            ("7.txt", "7.txt", "7.txt.txt"),
            ("7.TXT", "7.TXT", "7.txt.txt"),
            ("", "%empty", "%empty.txt"),
            ("a/", "a%2F", "a%2F.txt"),
        ] {
            assert_eq!(members(&[name], Some(SampleKeys::OwnKey)), [member]);
            assert_eq!(sidecar_member(member.as_bytes(), "txt"), sidecar.as_bytes());
        }
    }

    #[test]
    fn a_name_that_comes_again_is_another_member() {
        assert_eq!(members(&["a", "b", "a", "a"], None), ["a", "b", "%again/3/a", "%again/4/a"]);
        // Both objects have the same key, so their sidecars would get the same name.
        let with_sidecars = members(&["7.jpg", "7.png", "8.png"], Some(SampleKeys::OwnKey));
        assert_eq!(with_sidecars, ["7.jpg", "%again/2/7.png", "8.png"]);
        assert_eq!(members(&["7.jpg", "7.png"], None), ["7.jpg", "7.png"]);
    }

    #[test]
    fn a_job_of_0_1_0_keeps_its_keys() {
        assert_eq!(members(&["a.b.jpg"], Some(SampleKeys::FirstDot)), ["a.b.jpg"]);
    }

    #[test]
    fn what_is_no_member_has_no_name() {
        for member in ["%again/x/a", "%again/1", "%again/", "../a", "a%2", "a//b", "/a", "%again/1/../a"] {
            assert_eq!(object_name(member.as_bytes()), None, "{member}");
        }
    }
}
