//! JSON strings, appended to a buffer.

/// Appends `text` as a JSON string.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(position) = rest.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        out.extend_from_slice(&rest[..position]);
        escaped(rest[position], out);
        rest = &rest[position + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn escaped(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_json_reader_gives_the_text_back() {
        for text in ["", "plain", "a\"b\\c", "\0\n\u{1f}\u{7f}", "ü 文 🦀", "\\u0041"] {
            let mut out = Vec::new();

            string(text, &mut out);

            assert_eq!(serde_json::from_slice::<String>(&out).expect(text), text);
        }
    }
}
