//! Results as CSV: RFC 4180 with a header, and with line feeds as line endings. A missing value is an empty field, an
//! empty string is `""`, and redirects are separated by spaces.

use std::io::{self, Write};

use fetchmill_model::row::{ColumnTypes, RowValues, Value};
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_model::text::dates::write_utc_micros;

/// Writes the column names.
pub(super) fn write_header(own: ColumnTypes, kept: &ExtraColumns, out: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    for name in own.iter().map(|(name, _)| *name).chain(kept.kept().iter().map(String::as_str)) {
        separate(&mut line);
        write_text(name, &mut line);
    }
    line.push(b'\n');
    out.write_all(&line)
}

/// Appends a row. `kept` is the number of columns kept from the list.
pub(super) fn write_row(row: RowValues<'_>, kept: usize, line: &mut Vec<u8>) {
    for (column, value) in row.values.iter().enumerate() {
        if column > 0 {
            line.push(b',');
        }
        write_value(*value, line);
    }
    for column in 0..kept {
        line.push(b',');
        if let Some(value) = row.extra_value(column) {
            write_text(value, line);
        }
    }
    line.push(b'\n');
}

fn separate(line: &mut Vec<u8>) {
    if !line.is_empty() {
        line.push(b',');
    }
}

fn write_value(value: Value<'_>, line: &mut Vec<u8>) {
    // Writing to memory cannot fail.
    let _ = match value {
        Value::Null | Value::Texts([]) => Ok(()),
        Value::Texts(texts) => {
            write_text(&texts.join(" "), line);
            Ok(())
        }
        Value::Text(text) => {
            write_text(text, line);
            Ok(())
        }
        Value::Number(number) => write!(line, "{number}"),
        Value::Millis(millis) => write!(line, "{millis}"),
        Value::Time(time) => {
            write_utc_micros(time, line);
            Ok(())
        }
        Value::Flag(flag) => write!(line, "{flag}"),
    };
}

fn write_text(text: &str, line: &mut Vec<u8>) {
    if !text.is_empty() && !text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_model::row::{CheckRow, ROW_COLUMNS};

    #[test]
    fn a_field_is_quoted_where_it_must_be() {
        let row = CheckRow {
            url: Some("https://a.test/?a,b".into()),
            key: Some("".into()),
            status: Some(200),
            redirects: vec!["https://a/".into(), "https://b/".into()],
            started_at: 1_795_000_000_123_456,
            total_ms: Some(1.5),
            kept: vec![Some("say \"a\"\n".into()), None],
            ..CheckRow::default()
        };
        let (mut header, mut line) = (Vec::new(), Vec::new());

        write_header(
            &ROW_COLUMNS,
            &ExtraColumns::of_list(["a,b".to_owned(), "c".to_owned()]).unwrap(),
            &mut header,
        )
        .unwrap();
        write_row(RowValues { values: &row.values(), kept: &row.kept }, 2, &mut line);

        let header = String::from_utf8(header).unwrap();
        assert!(
            header.starts_with("url,key,status,kind,") && header.ends_with(",suspect,\"a,b\",c\n"),
            "{header}"
        );
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "\"https://a.test/?a,b\",\"\",200,,,,https://a/ https://b/,,,,,0,0,2026-11-18T11:06:40.123456Z,,,,,,1.5,false,\
             false,\"say \"\"a\"\"\n\",\n"
        );
    }
}
