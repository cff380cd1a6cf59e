//! tar: one ustar member per object. If ustar cannot describe the member, a pax header precedes it. The object's
//! sidecars follow and belong to the same record.
//!
//! # Rules
//! - Members are regular files. Their names stay beneath the target folder ([`super::member_name`]), so shards are safe
//!   to extract with any program.
//! - A length is stored once, or twice with the same value. As a result, readers that ignore pax see the same members.
//!   A pax header contains the length only if the length does not fit into ustar.
//! - Owner and mode are fixed, so two runs write the same bytes for the same objects.

use std::io::{self, Write};

use super::member_name::{MemberNames, object_name, sidecar_member};
use super::number::{parse_decimal, write_decimal};
use super::sidecar::{ReadSidecars, Sidecars};
use super::{Damage, Decoder, Encoder, FileBody};
use fetchmill_model::object::{Object, Seconds, StoredObject};
use fetchmill_model::target::Sequence;

/// Members are aligned to this size.
const BLOCK_BYTES: usize = 512;
/// Largest number with eleven octal digits. As a size, it is 8 GiB. As a time, it is in the year 2242.
const OCTAL_MAX: u64 = (1 << 33) - 1;

const NAME: std::ops::Range<usize> = 0..100;
const SIZE: std::ops::Range<usize> = 124..135;
const MTIME: std::ops::Range<usize> = 136..147;
const CHECKSUM: std::ops::Range<usize> = 148..154;
const CHECKSUM_FIELD: std::ops::Range<usize> = 148..156;
const KIND: usize = 156;
const PREFIX: std::ops::Range<usize> = 345..500;

/// A regular file.
const FILE: u8 = b'0';
/// Type of a pax header. It precedes a file that ustar cannot describe.
const PAX: u8 = b'x';

type TarHeader = [u8; BLOCK_BYTES];

/// Fields that are the same in all headers. The checksum field contains spaces while the checksum is computed.
const TEMPLATE: TarHeader = {
    let mut header = [0; BLOCK_BYTES];
    put(&mut header, 100, b"0000644\x000000000\x000000000\x00");
    put(&mut header, CHECKSUM_FIELD.start, b"        ");
    put(&mut header, 257, b"ustar\x0000");
    put(&mut header, 329, b"0000000\x000000000\x00");
    header
};

const fn put(header: &mut TarHeader, start: usize, bytes: &[u8]) {
    let mut position = 0;
    while position < bytes.len() {
        header[start + position] = bytes[position];
        position += 1;
    }
}

/// Writes tar records.
#[derive(Debug, Default)]
pub struct TarEncoder {
    headers: MemberHeaders,
    names: MemberNames,
    sidecars: Sidecars,
    content: Vec<u8>,
    /// Member name of the object that is being written.
    member: Vec<u8>,
}

/// Writes the headers of members.
#[derive(Debug, Default)]
struct MemberHeaders {
    pax: Vec<u8>,
}

/// Member name for ustar if the real name does not fit. Readers that do not support pax see this name.
#[derive(Debug, Clone, Copy)]
struct StandIn<'a> {
    sequence: Sequence,
    /// Extension of a sidecar. Empty for an object.
    extension: &'a str,
}

impl TarEncoder {
    /// Creates an encoder. It can write any number of shards, one after another.
    pub fn new() -> Self {
        TarEncoder::default()
    }

    /// Adds these sidecars to each object.
    #[must_use]
    pub fn with_sidecars(self, sidecars: Sidecars) -> Self {
        TarEncoder { sidecars, ..self }
    }

    /// Writes the headers that precede an object's body.
    fn write_header(&mut self, object: &Object<'_>, length: u64, out: &mut Vec<u8>) {
        self.names.write((object.sequence, object.name), self.sidecars.keys(), &mut self.member);
        let stand_in = StandIn { sequence: object.sequence, extension: "" };
        self.headers.write(&self.member, stand_in, length, modified(object), out);
    }

    /// Writes the padding and sidecars that follow an object's body.
    fn write_rest(&mut self, object: &Object<'_>, length: u64, out: &mut Vec<u8>) {
        pad(length, out);
        let TarEncoder { headers, sidecars, content, member, .. } = self;
        sidecars.for_each(object, content, |extension, body| {
            let stand_in = StandIn { sequence: object.sequence, extension };
            let length = body.len() as u64;
            headers.write(&sidecar_member(member, extension), stand_in, length, modified(object), out);
            out.extend_from_slice(body);
            pad(length, out);
        });
    }
}

impl MemberHeaders {
    /// Writes all headers that precede a body.
    fn write(&mut self, member: &[u8], stand_in: StandIn<'_>, size: u64, mtime: u64, out: &mut Vec<u8>) {
        self.pax.clear();
        let parts = split(member);
        if parts.is_none() {
            pax_record(b"path", member, &mut self.pax);
        }
        for (key, number) in [(b"size".as_slice(), size), (b"mtime", mtime)] {
            if number > OCTAL_MAX {
                let mut value = Vec::new();
                write_decimal(number, &mut value);
                pax_record(key, &value, &mut self.pax);
            }
        }
        if !self.pax.is_empty() {
            push_header(PAX, b"", &stand_in.name(".x"), self.pax.len() as u64, 0, out);
            out.extend_from_slice(&self.pax);
            pad(self.pax.len() as u64, out);
        }
        // For a reader that ignores pax, store the largest size that ustar can express, so that it skips as much of the
        // body as possible.
        let (size, mtime) = (size.min(OCTAL_MAX), mtime.min(OCTAL_MAX));
        match parts {
            Some((prefix, name)) => push_header(FILE, prefix, name, size, mtime, out),
            None => push_header(FILE, b"", &stand_in.name(""), size, mtime, out),
        }
    }
}

impl Encoder for TarEncoder {
    fn start(&mut self, _: &mut Vec<u8>) {
        self.names.clear();
    }

    fn encode(&mut self, object: &Object<'_>, out: &mut Vec<u8>) {
        self.write_header(object, object.body.len() as u64, out);
        out.extend_from_slice(object.body);
        self.write_rest(object, object.body.len() as u64, out);
    }

    fn encode_file(&mut self, object: &Object<'_>, body: &FileBody, out: &mut dyn Write) -> io::Result<()> {
        let mut around = Vec::new();
        self.write_header(object, body.length(), &mut around);
        out.write_all(&around)?;
        body.for_each(|piece| out.write_all(piece))?;
        around.clear();
        self.write_rest(object, body.length(), &mut around);
        out.write_all(&around)
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0; 2 * BLOCK_BYTES]);
    }
}

/// Splits a member name into the prefix and the name of ustar. `None` if it does not fit.
fn split(member: &[u8]) -> Option<(&[u8], &[u8])> {
    if !member.is_ascii() {
        return None;
    }
    if member.len() <= NAME.len() {
        return Some((b"", member));
    }
    // Split at the first slash after which the name fits. This keeps the prefix as short as possible.
    let from = member.len() - NAME.len() - 1;
    let slash = from + memchr::memchr(b'/', &member[from..])?;
    (slash <= PREFIX.len()).then(|| (&member[..slash], &member[slash + 1..]))
}

impl StandIn<'_> {
    /// Returns the name for readers that do not support pax. The name is unique, because `%` is escaped in all other
    /// names.
    fn name(self, ending: &str) -> Vec<u8> {
        let StandIn { sequence, extension } = self;
        let behind = if extension.is_empty() { "" } else { "/" };
        format!("%pax/{sequence}{behind}{extension}{ending}").into_bytes()
    }
}

/// Writes `LENGTH KEY=VALUE\n`. The length includes its own digits.
fn pax_record(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let rest = key.len() + value.len() + b" =\n".len();
    let mut length = rest + 1;
    while rest + length.to_string().len() > length {
        length += 1;
    }
    write_decimal(length as u64, out);
    for part in [b" ", key, b"=", value, b"\n"] {
        out.extend_from_slice(part);
    }
}

/// Writes a header. All parts and numbers must fit into it: see [`split`], [`stand_in`] and [`OCTAL_MAX`].
fn push_header(kind: u8, prefix: &[u8], name: &[u8], size: u64, mtime: u64, out: &mut Vec<u8>) {
    let mut header = TEMPLATE;
    header[..name.len()].copy_from_slice(name);
    header[PREFIX.start..PREFIX.start + prefix.len()].copy_from_slice(prefix);
    header[KIND] = kind;
    write_octal(size, &mut header[SIZE]);
    write_octal(mtime, &mut header[MTIME]);
    let sum = checksum(&header);
    write_octal(sum, &mut header[CHECKSUM]);
    header[CHECKSUM.end] = 0;
    out.extend_from_slice(&header);
}

/// Returns the checksum of a header, computed with spaces in the checksum field.
fn checksum(header: &TarHeader) -> u64 {
    u64::from(header.iter().map(|byte| u32::from(*byte)).sum::<u32>())
}

fn write_octal(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number & 7) as u8;
        number >>= 3;
    }
}

/// Returns the modification time of an object's members.
fn modified(object: &Object<'_>) -> Seconds {
    object.facts.last_modified.unwrap_or(object.facts.fetched_at / 1_000_000)
}

fn pad(length: u64, out: &mut Vec<u8>) {
    const ZEROS: TarHeader = [0; BLOCK_BYTES];
    let behind = (length % BLOCK_BYTES as u64) as usize;
    if behind > 0 {
        out.extend_from_slice(&ZEROS[behind..]);
    }
}

/// Reads the output of [`TarEncoder`].
#[derive(Debug, Default, Clone, Copy)]
pub struct TarDecoder;

impl Decoder for TarDecoder {
    fn decode(&self, record: &[u8]) -> Result<StoredObject, Damage> {
        let (object, mut rest) = read_member(record)?;
        let name = object_name(&object.member).ok_or(Damage("the name is not a valid member name"))?;
        let mut sidecars = ReadSidecars::default();
        while !rest.is_empty() {
            let (sidecar, behind) = read_member(rest)?;
            if sidecar.mtime != object.mtime {
                return Err(Damage("a sidecar's time differs from its object's"));
            }
            sidecars.read((&object.member, &name), &sidecar.member, sidecar.body)?;
            rest = behind;
        }
        Ok(StoredObject {
            name,
            body: object.body.to_vec(),
            last_modified: (object.mtime > 0).then_some(object.mtime),
            url: sidecars.url,
            kept: sidecars.kept,
            ..StoredObject::default()
        })
    }
}

/// A member, with the values from its pax header.
struct ReadMember<'a> {
    /// Name of the member in the archive.
    member: Vec<u8>,
    body: &'a [u8],
    mtime: u64,
}

/// Returns the first member, and the bytes after it.
fn read_member(record: &[u8]) -> Result<(ReadMember<'_>, &[u8]), Damage> {
    let (header, mut rest) = split_header(record)?;
    let mut file = TarMember::of(header)?;
    let mut pax = PaxHeader::default();
    if file.kind == PAX {
        let (records, behind) = split_padded(rest, file.size)?;
        pax = PaxHeader::of(records)?;
        let (header, behind) = split_header(behind)?;
        file = TarMember::of(header)?;
        rest = behind;
    }
    if file.kind != FILE {
        return Err(Damage("the member is not a regular file"));
    }
    let (body, behind) = split_padded(rest, with_pax(file.size, pax.size)?)?;
    let member = pax.path.map_or_else(|| file.path(), <[u8]>::to_vec);
    let mtime = with_pax(file.mtime, pax.mtime)?;
    Ok((ReadMember { member, body, mtime }, behind))
}

/// Returns a number from ustar or pax. The number may come from pax only if it does not fit into ustar.
fn with_pax(number: u64, pax: Option<u64>) -> Result<u64, Damage> {
    match pax {
        None => Ok(number),
        Some(larger) if number == OCTAL_MAX && larger > OCTAL_MAX => Ok(larger),
        Some(_) => Err(Damage("the pax header contradicts the member's header")),
    }
}

/// The header fields that differ between members.
struct TarMember<'a> {
    kind: u8,
    prefix: &'a [u8],
    name: &'a [u8],
    size: u64,
    mtime: u64,
}

impl<'a> TarMember<'a> {
    fn of(header: &'a TarHeader) -> Result<Self, Damage> {
        let mut constant = *header;
        for field in [NAME, SIZE, MTIME, CHECKSUM_FIELD, KIND..KIND + 1, PREFIX] {
            constant[field.clone()].copy_from_slice(&TEMPLATE[field]);
        }
        if constant != TEMPLATE || header[CHECKSUM.end] != 0 || header[CHECKSUM.end + 1] != b' ' {
            return Err(Damage("the header was not written by fetchmill"));
        }
        let mut summed = *header;
        summed[CHECKSUM_FIELD].fill(b' ');
        if octal(&header[CHECKSUM])? != checksum(&summed) {
            return Err(Damage("the header's checksum is wrong"));
        }
        Ok(TarMember {
            kind: header[KIND],
            prefix: text(&header[PREFIX])?,
            name: text(&header[NAME])?,
            size: octal(&header[SIZE])?,
            mtime: octal(&header[MTIME])?,
        })
    }

    fn path(&self) -> Vec<u8> {
        if self.prefix.is_empty() { self.name.to_vec() } else { [self.prefix, b"/", self.name].concat() }
    }
}

/// Contents of a pax header.
#[derive(Default)]
struct PaxHeader<'a> {
    path: Option<&'a [u8]>,
    size: Option<u64>,
    mtime: Option<u64>,
}

impl<'a> PaxHeader<'a> {
    fn of(mut records: &'a [u8]) -> Result<Self, Damage> {
        const DAMAGE: Damage = Damage("the pax header is malformed");
        let mut pax = PaxHeader::default();
        while !records.is_empty() {
            let space = memchr::memchr(b' ', records).ok_or(DAMAGE)?;
            let length = parse_decimal(&records[..space]).ok_or(DAMAGE)?;
            let length = usize::try_from(length).map_err(|_| DAMAGE)?;
            let (record, behind) = records.split_at_checked(length).ok_or(DAMAGE)?;
            let record =
                record.get(space + 1..).and_then(|record| record.strip_suffix(b"\n")).ok_or(DAMAGE)?;
            let equals = memchr::memchr(b'=', record).ok_or(DAMAGE)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            let is_new = match key {
                b"path" => pax.path.replace(value).is_none(),
                b"size" => pax.size.replace(parse_decimal(value).ok_or(DAMAGE)?).is_none(),
                b"mtime" => pax.mtime.replace(parse_decimal(value).ok_or(DAMAGE)?).is_none(),
                // An unknown key could change the meaning of the member.
                _ => return Err(Damage("the pax header has an unknown key")),
            };
            if !is_new {
                return Err(DAMAGE);
            }
            records = behind;
        }
        Ok(pax)
    }
}

fn split_header(record: &[u8]) -> Result<(&TarHeader, &[u8]), Damage> {
    record.split_first_chunk().ok_or(Damage("the record is cut off"))
}

/// Returns the first `size` bytes, and the bytes that follow their padding.
fn split_padded(bytes: &[u8], size: u64) -> Result<(&[u8], &[u8]), Damage> {
    const CUT: Damage = Damage("the record is cut off");
    let size = usize::try_from(size).map_err(|_| CUT)?;
    let padded = size.checked_next_multiple_of(BLOCK_BYTES).ok_or(CUT)?;
    let (padded, behind) = bytes.split_at_checked(padded).ok_or(CUT)?;
    let (content, padding) = padded.split_at(size);
    if padding.iter().any(|byte| *byte != 0) {
        return Err(Damage("the padding is not zeros"));
    }
    Ok((content, behind))
}

fn octal(digits: &[u8]) -> Result<u64, Damage> {
    digits
        .iter()
        .try_fold(0_u64, |number, digit| {
            matches!(digit, b'0'..=b'7').then(|| number << 3 | u64::from(digit - b'0'))
        })
        .ok_or(Damage("a number in the header is malformed"))
}

/// Returns the bytes up to the first NUL. Only NULs may follow.
fn text(field: &[u8]) -> Result<&[u8], Damage> {
    let end = memchr::memchr(0, field).unwrap_or(field.len());
    if field[end..].iter().any(|byte| *byte != 0) {
        return Err(Damage("a name in the header is malformed"));
    }
    Ok(&field[..end])
}

#[cfg(test)]
mod tests;
