//! The delimiter and the quotes of a csv or tsv list.

use super::columns::ColumnSelector;
use super::{ListFormat, ListOptions};
use crate::error::{Error, Result};

/// Delimiters that are used instead of the comma in files that are called CSV.
const OTHER_DELIMITERS: [u8; 3] = [b';', b'\t', b'|'];

/// The delimiter and the quotes of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) delimiter: u8,
    /// Whether the first record can select a different delimiter.
    pub(super) is_detected: bool,
    pub(super) quotes: Quotes,
}

/// How quotes are interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Quotes are part of a field.
    Literal,
    /// Quotes follow RFC 4180: a field that begins with a quote ends at the next quote, even across lines and
    /// delimiters.
    Strict(u8),
    /// Quotes follow RFC 4180, but only if they enclose a whole field. Any other quote is part of its field. Much TSV
    /// is written without quoting, and a caption that begins with a quote must not absorb the lines after it.
    Lenient(u8),
}

impl Dialect {
    /// The commas and quotes of RFC 4180, which fetchmill itself writes.
    pub(super) const OURS: Dialect =
        Dialect { delimiter: b',', is_detected: false, quotes: Quotes::Strict(b'"') };

    /// Returns the dialect of a list, or `None` for a format without fields. `label` names the list in messages.
    pub(super) fn of(label: &str, format: ListFormat, options: &ListOptions) -> Result<Option<Self>> {
        let delimiter = options.delimiter.as_deref().map(parse_delimiter).transpose()?;
        let quotes = options.quote.as_deref().map(parse_quote).transpose()?;
        let (usual, by_default) = match format {
            ListFormat::Csv => (b',', Quotes::Strict(b'"')),
            ListFormat::Tsv if options.has_first_rules => (b'\t', Quotes::Strict(b'"')),
            ListFormat::Tsv => (b'\t', Quotes::Lenient(b'"')),
            _ => {
                let asked = [
                    ("--csv-header", options.csv_header.said().is_some()),
                    ("--delimiter", delimiter.is_some()),
                    ("--quote", quotes.is_some()),
                ];
                return match asked.iter().find(|(_, is_given)| *is_given) {
                    Some((option, _)) => Err(Error::Usage(format!(
                        "the list {label} is {}, but {option} applies only to csv and tsv; leave it out",
                        format.name()
                    ))),
                    None => Ok(None),
                };
            }
        };
        let dialect = Dialect {
            delimiter: delimiter.unwrap_or(usual),
            is_detected: delimiter.is_none() && format == ListFormat::Csv && !options.has_first_rules,
            quotes: quotes.unwrap_or(by_default),
        };
        if dialect.quotes == Quotes::Strict(dialect.delimiter) {
            return Err(Error::Usage("--delimiter and --quote must be different characters".into()));
        }
        Ok(Some(dialect))
    }

    /// Returns the delimiter that the first line indicates. A delimiter other than the comma is detected only in a line
    /// without commas. If the line contains a URL, such a delimiter is assumed to be part of the URL unless the user
    /// has selected a later column.
    pub(super) fn detect(self, line: &[u8], url: &ColumnSelector) -> u8 {
        let has_url = memchr::memmem::find(line, b"://").is_some();
        let is_later_column = matches!(url, ColumnSelector::Number(number) if *number > 0);
        if !self.is_detected || line.contains(&self.delimiter) || has_url && !is_later_column {
            return self.delimiter;
        }
        let count = |delimiter: &u8| memchr::memchr_iter(*delimiter, line).count();
        // If two delimiters are equally frequent, the first one is used.
        let best = OTHER_DELIMITERS.into_iter().rev().max_by_key(count);
        best.filter(|delimiter| count(delimiter) > 0).unwrap_or(self.delimiter)
    }
}

fn parse_delimiter(text: &str) -> Result<u8> {
    match text.as_bytes() {
        b"tab" | b"\\t" | b"\t" => Ok(b'\t'),
        [byte] if is_separator(*byte) => Ok(*byte),
        _ => Err(Error::Usage(format!(
            "--delimiter must be one ASCII character such as ';' or '|', or tab, not {text:?}"
        ))),
    }
}

fn parse_quote(text: &str) -> Result<Quotes> {
    match text.as_bytes() {
        b"none" => Ok(Quotes::Literal),
        [byte] if is_separator(*byte) => Ok(Quotes::Strict(*byte)),
        _ => Err(Error::Usage(format!("--quote must be one ASCII character, or none, not {text:?}"))),
    }
}

/// Returns whether a byte can be a delimiter. Letters and digits cannot, because most values contain some.
fn is_separator(byte: u8) -> bool {
    byte.is_ascii_punctuation() || byte == b' '
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect(format: ListFormat, delimiter: Option<&str>, quote: Option<&str>) -> Result<Option<Dialect>> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let options = ListOptions { delimiter: own(delimiter), quote: own(quote), ..ListOptions::default() };
        Dialect::of("l", format, &options)
    }

    #[test]
    fn options_say_the_dialect() {
        for (format, delimiter, quote, expected) in [
            (ListFormat::Csv, None, None, (b',', true, Quotes::Strict(b'"'))),
            (ListFormat::Csv, Some(";"), None, (b';', false, Quotes::Strict(b'"'))),
            (ListFormat::Csv, Some("tab"), Some("none"), (b'\t', false, Quotes::Literal)),
            (ListFormat::Tsv, None, None, (b'\t', false, Quotes::Lenient(b'"'))),
            (ListFormat::Tsv, Some("\\t"), Some("'"), (b'\t', false, Quotes::Strict(b'\''))),
        ] {
            let (delimiter_byte, is_detected, quotes) = expected;
            let made = dialect(format, delimiter, quote).unwrap().unwrap();
            assert_eq!(made, Dialect { delimiter: delimiter_byte, is_detected, quotes });
        }
        assert_eq!(dialect(ListFormat::Jsonl, None, None).unwrap(), None);
        for (format, delimiter, quote) in [
            (ListFormat::Jsonl, Some(";"), None),
            (ListFormat::Text, None, Some("none")),
            (ListFormat::Csv, Some(";;"), None),
            (ListFormat::Csv, Some("a"), None),
            (ListFormat::Csv, Some("\u{a7}"), None),
            (ListFormat::Csv, None, Some("")),
            (ListFormat::Csv, Some("'"), Some("'")),
        ] {
            assert_eq!(
                dialect(format, delimiter, quote).unwrap_err().exit_code(),
                2,
                "{delimiter:?} {quote:?}"
            );
        }
    }

    #[test]
    fn the_first_line_shows_the_delimiter() {
        let csv = dialect(ListFormat::Csv, None, None).unwrap().unwrap();
        for (line, url, expected) in [
            ("id;url;title", ColumnSelector::Url, b';'),
            ("id,url;title", ColumnSelector::Url, b','),
            ("id\turl", ColumnSelector::Url, b'\t'),
            ("a|b;c|url", ColumnSelector::Url, b'|'),
            ("url", ColumnSelector::Url, b','),
            ("http://a.test/;x=1", ColumnSelector::Url, b','),
            ("7;http://a.test/", ColumnSelector::Url, b','),
            ("7;http://a.test/", ColumnSelector::Number(1), b';'),
        ] {
            assert_eq!(csv.detect(line.as_bytes(), &url), expected, "{line}");
        }
        let told = dialect(ListFormat::Csv, Some("|"), None).unwrap().unwrap();
        assert_eq!(told.detect(b"id;url", &ColumnSelector::Url), b'|');
    }
}
