//! Formats for which a magic number is not enough: containers, and headers that are checked field by field.

/// Returns whether `start` contains `bytes` at `position`.
pub(super) fn has(start: &[u8], position: usize, bytes: &[u8]) -> bool {
    start.get(position..).is_some_and(|rest| rest.starts_with(bytes))
}

/// Kind of an ISO base media file (ISO/IEC 14496-12), as stated by its brands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brand {
    Avif,
    Heif,
    Audio,
    QuickTime,
    Mobile,
    /// Any other format.
    Video,
}

/// Returns whether the `ftyp` box at the start has this brand.
pub(super) fn has_brand(start: &[u8], brand: Brand) -> bool {
    brand_of(start) == Some(brand)
}

fn brand_of(start: &[u8]) -> Option<Brand> {
    if !has(start, 4, b"ftyp") {
        return None;
    }
    let length = u32::from_be_bytes(*start.first_chunk()?) as usize;
    let brands = start.get(8..length.min(start.len()))?;
    let major: &[u8; 4] = brands.first_chunk()?;
    // The major brand is followed by its version and then by the compatible brands.
    let compatible = || brands.get(8..).unwrap_or_default().chunks_exact(4);
    Some(match major {
        b"avif" | b"avis" => Brand::Avif,
        b"mif1" | b"msf1" if compatible().any(|brand| matches!(brand, b"avif" | b"avis")) => Brand::Avif,
        b"mif1" | b"msf1" | b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" => Brand::Heif,
        b"M4A " | b"M4B " | b"M4P " => Brand::Audio,
        b"qt  " => Brand::QuickTime,
        [b'3', b'g', ..] => Brand::Mobile,
        _ => Brand::Video,
    })
}

/// Returns the document type of an EBML header, or `None` if there is no EBML header.
pub(super) fn ebml_document(start: &[u8]) -> Option<&'static [u8]> {
    const DOC_TYPE: &[u8] = b"\x42\x82";
    if !has(start, 0, b"\x1a\x45\xdf\xa3") {
        return None;
    }
    let header = &start[..start.len().min(64)];
    let at = memchr::memmem::find(header, DOC_TYPE)? + DOC_TYPE.len();
    // The length comes first, in one byte or more.
    let value = &header[at..];
    [b"webm".as_slice(), b"matroska"].into_iter().find(|name| memchr::memmem::find(value, name).is_some())
}

/// Returns whether the first stream of an Ogg file is video. Returns `None` if the file is not Ogg, or if the stream is
/// neither video nor audio.
pub(super) fn ogg_codec(start: &[u8]) -> Option<bool> {
    if !has(start, 0, b"OggS\0") {
        return None;
    }
    let packet = 27 + usize::from(*start.get(26)?);
    let begins = |magics: &[&[u8]]| magics.iter().any(|magic| has(start, packet, magic));
    if begins(&[b"\x80theora", b"BBCD\0", b"fishead\0"]) {
        return Some(true);
    }
    begins(&[b"\x01vorbis", b"OpusHead", b"\x7fFLAC", b"Speex   "]).then_some(false)
}

/// Returns the contents of the member `mimetype`. In EPUB and `OpenDocument` files, this member comes first and is not
/// compressed.
pub(super) fn zip_mimetype(start: &[u8]) -> Option<&[u8]> {
    const NAME: usize = 30;
    if !has(start, 0, b"PK\x03\x04") || !has(start, NAME, b"mimetype") {
        return None;
    }
    let size = u32::from_le_bytes(*start.get(22..)?.first_chunk()?) as usize;
    let extra = u16::from_le_bytes(*start.get(28..)?.first_chunk()?) as usize;
    start.get(NAME + 8 + extra..)?.get(..size)
}

/// Returns whether the body is a BMP image, whose header has one of a few sizes. `BM` alone is not enough, because
/// ordinary text can begin with these letters.
pub(super) fn is_bmp(start: &[u8]) -> bool {
    let header = start.get(14..).and_then(|rest| rest.first_chunk()).map(|size| u32::from_le_bytes(*size));
    has(start, 0, b"BM") && matches!(header, Some(12 | 16 | 40 | 52 | 56 | 64 | 108 | 124))
}

/// Returns whether the body is an icon or a cursor: a directory with at least one image and a zero in its first entry.
pub(super) fn is_ico(start: &[u8]) -> bool {
    let is_directory = has(start, 0, b"\0\0\x01\0") || has(start, 0, b"\0\0\x02\0");
    is_directory && start.get(4..6).is_some_and(|count| count != [0, 0]) && start.get(9) == Some(&0)
}

/// Returns whether the body begins with an ID3 tag, or with an MPEG audio frame header (layer II or III) without
/// forbidden values. Layer I is excluded, because its header can look like the byte order mark of UTF-16.
pub(super) fn is_mpeg_audio(start: &[u8]) -> bool {
    if has(start, 0, b"ID3") {
        return start.get(3).is_some_and(|version| *version < 0xff);
    }
    let Some([first, second, third, _]) = start.first_chunk() else { return false };
    let (version, layer) = (second >> 3 & 3, second >> 1 & 3);
    let (bitrate, rate) = (third >> 4, third >> 2 & 3);
    *first == 0xff
        && second >> 5 == 7
        && version != 1
        && matches!(layer, 1 | 2)
        && !matches!(bitrate, 0 | 15)
        && rate != 3
}

/// Returns whether the body begins with an AAC frame header.
pub(super) fn is_adts(start: &[u8]) -> bool {
    let Some([0xff, second, third]) = start.first_chunk() else { return false };
    second & 0xf6 == 0xf0 && third >> 2 & 15 < 13
}

/// Returns whether the body consists of packets of 188 bytes, each of which begins with the byte 0x47.
pub(super) fn is_mpeg_stream(start: &[u8]) -> bool {
    [0, 188, 376].iter().all(|at| start.get(*at) == Some(&0x47))
}
