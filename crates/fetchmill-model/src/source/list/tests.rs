//! Lists as a job reads them: their pages, positions and errors.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use bytes::Bytes;

use super::*;
use crate::error::Error;
use crate::limits::{LIST_LINE_BYTES_MAX, LIST_RECORD_LINES_MAX};
use crate::source::PageCursor;
use crate::target::entry::ListEntry;
use crate::target::extra_columns::extra_values;

/// Returns one line for each number.
fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

type Kind = (ListFormat, Option<Compression>);
const TEXT: Kind = (ListFormat::Text, None);
const CSV: Kind = (ListFormat::Csv, None);
const JSONL: Kind = (ListFormat::Jsonl, None);

fn reader_of(kind: Kind, list: impl AsRef<[u8]>, options: &ListOptions) -> Result<ListReader> {
    let list = list.as_ref().to_vec();
    match kind.0 {
        ListFormat::Parquet => ListReader::of_parquet("x", Bytes::from(list), options),
        _ => ListReader::of_stream(
            "x",
            (Box::new(io::Cursor::new(list)), FieldCheck::FirstValues),
            kind,
            options,
        ),
    }
}

fn options() -> ListOptions {
    ListOptions::default()
}

fn column(name: &str) -> ListOptions {
    ListOptions { column: Some(name.into()), ..options() }
}

/// Returns an entry in the notation of these tests: `URL`, `URL key=K kept=[..]`, or `line N: reason`.
fn shown(entry: &[u8]) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let entry = ListEntry::read(entry);
    if let Some(reason) = entry.reason() {
        return format!("{}: {}", text(entry.key.unwrap()), text(reason));
    }
    let key = entry.key.map(|key| format!(" key={}", text(key))).unwrap_or_default();
    let kept = entry.kept.map(|kept| {
        let values =
            extra_values(kept).map(|value| value.map_or("null".into(), |value| format!("{:?}", text(value))));
        format!(" kept={}", values.collect::<Vec<_>>().join("|"))
    });
    text(entry.url) + &key + &kept.unwrap_or_default()
}

/// Returns all pages up to the last one. Moments without input are ignored.
fn pages(source: &mut dyn ListSource) -> Result<Vec<ListedPage>> {
    let mut pages = Vec::new();
    loop {
        match source.next_page()? {
            ListStep::Page(page) => pages.push(*page),
            ListStep::NothingNow => {}
            ListStep::End => return Ok(pages),
        }
    }
}

fn entries_of(pages: &[ListedPage]) -> Vec<String> {
    pages.iter().flat_map(|page| page.names.iter().map(shown)).collect()
}

fn entries(kind: Kind, list: impl AsRef<[u8]>, options: &ListOptions) -> Vec<String> {
    entries_of(&pages(&mut reader_of(kind, list, options).unwrap()).unwrap())
}

fn error(kind: Kind, list: impl AsRef<[u8]>, options: &ListOptions) -> Error {
    match reader_of(kind, list, options).and_then(|mut reader| pages(&mut reader)) {
        Ok(pages) => panic!("no error but {:?}", entries_of(&pages)),
        Err(error) => error,
    }
}

fn position_of(page: &ListedPage) -> (ListPosition, bool) {
    let PageCursor::List { position, is_last } = &page.cursor else { panic!() };
    (*position, *is_last)
}

#[test]
fn a_text_has_a_url_a_line() {
    let list = b"\xef\xbb\xbfhttp://a/1\r\n\n  # no target\n\t http://A/2#f \nexample.com\nhttp://a/\xff\n\0\nhttp://a/3";

    assert_eq!(
        entries(TEXT, list, &options()),
        [
            "http://a/1",
            "http://a/2",
            "line 5: it has no scheme; for bare domains add --template 'https://{}': example.com",
            "line 6: it is not UTF-8: http://a/\\xff",
            "line 7: it begins or ends with a control character: \\u{0}",
            "http://a/3",
        ]
    );
}

#[test]
fn a_template_makes_urls_of_values() {
    let template = ListOptions { template: Some("https://www.{}/x".into()), ..options() };

    assert_eq!(
        entries(TEXT, "a.test\nb c\n", &template),
        [
            "https://www.a.test/x",
            "line 2: --template uses the value as a host, but the value is not a host ({name!r} inserts a value unchanged): b c"
        ]
    );
    let place = ListOptions { template: Some("http://a/{}/x?y={2}&z={3!r}".into()), ..column("1") };
    assert_eq!(
        entries(CSV, "../b?,c&d,e&f\n..,c,d\nb,..,..\n", &place),
        [
            "http://a/..%2Fb%3F/x?y=c%26d&z=e&f",
            "line 2: a value of . or .. would change the URL's path: http://a/../x?y=c&z=d",
            "http://a/b/x?y=..&z=.."
        ]
    );
    let named = ListOptions { template: Some("http://{host}/{2}".into()), ..options() };
    assert_eq!(entries(CSV, "host,n\na,1\n,2\n", &named), ["http://a/1", "line 3: column host is empty"]);
    assert_eq!(
        entries(
            JSONL,
            r#"{"host":"a","2":7}"#,
            &ListOptions { template: Some("http://{host}/x".into()), ..options() }
        ),
        ["http://a/x"]
    );
}

#[test]
fn a_csv_has_columns_by_name_or_number() {
    let list = "id,URL,note\n1,http://a/1,\"x, \"\"y\"\"\"\n2,http://a/2\n";
    let kept = ListOptions {
        key_column: Some("id".into()),
        keep_columns: vec!["note".into(), "3".into()],
        ..options()
    };

    assert_eq!(entries(CSV, list, &column("URL")), ["http://a/1", "http://a/2"]);
    assert_eq!(entries(CSV, list, &options()), ["http://a/1", "http://a/2"]);
    assert_eq!(
        entries(CSV, list, &kept),
        [r#"http://a/1 key=1 kept="x, \"y\""|"x, \"y\"""#, "http://a/2 key=2 kept=null|null"]
    );
    assert_eq!(entries(CSV, "1,http://a/1\n2\n", &column("2")), ["http://a/1", "line 2: it has no column 2"]);
    let tsv = entries((ListFormat::Tsv, None), "u\tn\nhttp://a/1\t\"a\tb\"\n", &column("u"));
    assert_eq!(tsv, ["http://a/1"]);
}

#[test]
fn a_header_is_seen_or_said() {
    let header = |header: bool| ListOptions {
        csv_header: if header { CsvHeader::Yes } else { CsvHeader::No },
        ..options()
    };

    assert_eq!(entries(CSV, "link\nhttp://a/1\n", &options()), ["http://a/1"]);
    assert_eq!(entries(CSV, "http://a/1\nhttp://a/2\n", &options()), ["http://a/1", "http://a/2"]);
    // Neither a mistyped URL nor a value for a template is a header.
    assert_eq!(entries(CSV, "htp:/a/1\n", &options())[0][..7], *"line 1:");
    let template = ListOptions { template: Some("http://a/{}".into()), ..options() };
    assert_eq!(entries(CSV, "word\n", &template), ["http://a/word"]);
    assert_eq!(entries(CSV, "word\n", &header(false))[0][..7], *"line 1:");
    assert_eq!(entries(CSV, "http://a/0\nhttp://a/1\n", &header(true)), ["http://a/1"]);
    assert_eq!(entries(CSV, "", &column("url")), [""; 0]);
    for (list, options) in [
        ("id,link\n1,http://a/\n", column("url")),
        ("id,link\n1,http://a/\n", options()),
        ("http://a/1\n", ListOptions { column: Some("url".into()), ..header(false) }),
    ] {
        let error = error(CSV, list, &options);
        assert_eq!((error.exit_code(), error.to_string().lines().count()), (2, 1), "{error}");
    }
}

#[test]
fn a_quoted_value_may_have_newlines() {
    let list = "url,n\r\nhttp://a/1,\"x\r\n\r\ny\"\r\n\r\nhttp://a/2,\"z\"\r\n\"http://a/3\"";
    let kept = ListOptions { keep_columns: vec!["n".into()], ..options() };

    assert_eq!(
        entries(CSV, list, &kept),
        [r#"http://a/1 kept="x\r\n\r\ny""#, r#"http://a/2 kept="z""#, "http://a/3 kept=null"]
    );
    assert_eq!(
        entries(CSV, "url\n\"a\nb\"\n\nc\n", &options()),
        [
            "line 2: it contains a tab or a newline: a\\u{a}b",
            "line 5: it has no scheme; for bare domains add --template 'https://{}': c",
        ]
    );
}

#[test]
fn a_quote_that_is_not_closed_costs_its_line_only() {
    let reason = "a quote is not closed within 1,000 lines and 1 MiB";
    let many: Vec<_> = (0..LIST_RECORD_LINES_MAX).map(|number| format!("http://a/{number}")).collect();
    let many = many.join("\n");

    assert_eq!(
        entries(CSV, "url\n\"http://a/1\nhttp://a/2", &options()),
        [format!("line 2: {reason}"), "http://a/2".into()]
    );
    let read = entries(CSV, format!("url\n\"http://a/1\n{many}"), &options());
    assert_eq!(read.len(), 1 + LIST_RECORD_LINES_MAX);
    assert_eq!(read[0], format!("line 2: {reason}"));
    let long = format!("url\n\"x\n{}\nhttp://a/2\n", "y".repeat(LIST_LINE_BYTES_MAX));
    assert_eq!(
        entries(CSV, long, &options()),
        [format!("line 2: {reason}"), "line 3: it is longer than 1 MiB".into(), "http://a/2".into()]
    );
    let wide = format!("\"http://a/\"{}\nhttp://a/2\n", ",\"\"".repeat(20_000));
    assert_eq!(
        entries(CSV, wide, &column("1")),
        ["line 1: it has more than 16,384 columns".to_owned(), "http://a/2".into()]
    );
}

#[test]
fn json_lines_are_objects_or_urls() {
    let list = concat!(
        "{\"url\":\"http:\\/\\/a\\/\\u00e4\",\"id\":7,\"x\":{\"y\":[1]},\"n\":null}\n\n",
        "\"http://a/2\"\n{\"id\":1}\n{\"url\":1}\n[]\n{\"url\":\"http://a/\"\n\"\\ud800\"\n"
    );
    let kept = ListOptions {
        key_column: Some("id".into()),
        keep_columns: vec!["x".into(), "n".into()],
        ..options()
    };

    assert_eq!(
        entries(JSONL, list, &kept),
        [
            r#"http://a/%C3%A4 key=7 kept="{\"y\":[1]}"|null"#,
            "http://a/2 kept=null|null",
            "line 4: it has no URL",
            "line 5: it has no scheme; for bare domains add --template 'https://{}': 1",
            "line 6: not a JSON object or string",
            "line 7: not a JSON object or string",
            "line 8: not a JSON object or string",
        ]
    );
    assert_eq!(entries(JSONL, "{\"\\u006cink\":\"http://a/\"}", &column("link")), ["http://a/"]);
    assert_eq!(error(JSONL, list, &column("2")).exit_code(), 2);
    let deep = format!("{{\"url\":\"http://a/\",\"x\":{}", "[".repeat(100_000));
    assert_eq!(entries(JSONL, deep, &options()), ["line 1: not a JSON object or string"]);
}

fn parquet(rows: usize) -> Vec<u8> {
    let urls: StringArray = (0..rows).map(|n| (n != 3).then(|| format!("http://a/{n}"))).collect();
    let urls: ArrayRef = Arc::new(urls);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let times = TimestampMicrosecondArray::from_iter_values((0..rows).map(|n| n as i64)).with_timezone("UTC");
    let lists: ArrayRef =
        Arc::new(arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(
            (0..rows).map(|_| Some([Some(1)])),
        ));
    let batch = RecordBatch::try_from_iter([
        ("id", ids),
        ("url", urls),
        ("at", Arc::new(times) as ArrayRef),
        ("l", lists),
    ])
    .unwrap();
    let properties = ::parquet::file::properties::WriterProperties::builder()
        .set_compression(::parquet::basic::Compression::SNAPPY)
        .set_max_row_group_row_count(Some(1000))
        .build();
    let mut out = Vec::new();
    let mut writer =
        ::parquet::arrow::ArrowWriter::try_new(&mut out, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    out
}

const PARQUET: Kind = (ListFormat::Parquet, None);

#[test]
fn parquet_columns_are_read_as_text() {
    let kept = ListOptions {
        key_column: Some("id".into()),
        keep_columns: vec!["at".into(), "1".into()],
        ..options()
    };

    let read = entries(PARQUET, parquet(2500), &kept);

    assert_eq!(read.len(), 2500);
    assert_eq!(read[1], r#"http://a/1 key=1 kept="1970-01-01T00:00:00.000001Z"|"1""#);
    assert_eq!(read[3], "row 4: it has no URL");
    for name in ["link", "5", "l"] {
        assert_eq!(error(PARQUET, parquet(1), &column(name)).exit_code(), 2, "{name}");
    }
}

#[test]
fn a_range_of_parquet_is_those_rows() {
    let list = parquet(2500);
    let all = entries(PARQUET, &list, &options());
    for (first, rows) in
        [(0, 2500), (0, 1), (999, 2), (1000, 1000), (1700, 700), (2499, 9), (2500, 1), (0, 0)]
    {
        let range = ListOptions { first_row: first, row_count: Some(rows), ..options() };
        let end = (first + rows).min(2500) as usize;
        // A row without a URL is named after its number.
        let urls = |entries: &[String]| entries.iter().filter(|entry| entry.starts_with("http")).count();
        let read = entries(PARQUET, &list, &range);

        assert_eq!(read.len(), end - first as usize, "{first} {rows}");
        assert_eq!(urls(&read), urls(&all[first as usize..end]), "{first} {rows}");
        assert_eq!(
            read.last().filter(|last| last.starts_with("http")),
            all[first as usize..end].last(),
            "{first}"
        );
    }
}

#[test]
fn damaged_parquet_is_no_list() {
    let list = parquet(200);

    for length in [0, 4, 100, list.len() / 2, list.len() - 1] {
        assert_eq!(error(PARQUET, &list[..length], &options()).exit_code(), 4, "{length}");
    }
    for at in 0..list.len() {
        let mut damaged = list.clone();
        damaged[at] ^= 0x55;
        // Any result is fine as long as the reader does not panic.
        if let Ok(mut reader) = reader_of(PARQUET, damaged, &options()) {
            let _ = pages(&mut reader);
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).unwrap()
}

#[test]
fn a_compressed_list_is_known_by_its_first_bytes() {
    let skippable = b"\x50\x2a\x4d\x18\x01\0\0\0x";
    for list in [
        [gzip(b"http://a/1\nhttp:"), gzip(b""), gzip(b"//a/2\n")].concat(),
        [&skippable[..], &zstd(b"http://a/1\nhttp:"), &zstd(b"//a/2\n")].concat(),
    ] {
        assert_eq!(entries(TEXT, list, &options()), ["http://a/1", "http://a/2"]);
    }
}

#[test]
fn a_window_of_128_mib_is_read_and_a_larger_one_is_told() {
    // A frame that consists of one raw block. The window size is 2^`log` bytes.
    let frame =
        |log: u8| [&b"\x28\xb5\x2f\xfd\x00"[..], &[(log - 10) << 3, 0x51, 0, 0], b"http://a/1"].concat();

    assert_eq!(entries(TEXT, frame(27), &options()), ["http://a/1"]);
    let told = error(TEXT, frame(28), &options());
    assert_eq!(told.exit_code(), 2);
    assert!(told.to_string().contains("more than 128 MiB"), "{told}");
    assert!(told.to_string().contains("--long=27"), "{told}");
}

#[test]
fn a_cut_list_is_an_error_behind_what_was_read() {
    let text: String = lines(100_000, |n| format!("http://a/{n}\n"));
    for (compression, whole) in
        [(Compression::Gzip, gzip(text.as_bytes())), (Compression::Zstd, zstd(text.as_bytes()))]
    {
        for length in [0, 1, 3, 20, whole.len() / 2, whole.len() - 1] {
            let kind = (ListFormat::Text, Some(compression));
            let mut reader = reader_of(kind, &whole[..length], &options()).unwrap();
            let mut targets = 0;
            let error = loop {
                match reader.next_page() {
                    Ok(ListStep::Page(page)) => {
                        targets += page.names.len();
                        assert!(!position_of(&page).1, "{length}");
                    }
                    Ok(_) => panic!("an end at {length}"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.exit_code(), 4, "{error}");
            assert!(length < 10_000 || targets > 10_000, "{targets} of {length}");
            assert_eq!(reader.next_page().unwrap_err().exit_code(), 4);
        }
    }
    let kind = (ListFormat::Text, Some(Compression::Gzip));
    assert_eq!(error(kind, "http://a/\n", &options()).exit_code(), 4);
}

#[test]
fn the_first_page_comes_soon_and_pages_have_a_bound() {
    let list: String = lines(20_000, |n| format!("http://a/{n}\n"));
    let read = pages(&mut reader_of(TEXT, list, &options()).unwrap()).unwrap();
    let counts: Vec<usize> = read.iter().map(|page| page.names.len()).collect();
    assert_eq!(counts[..8], [64, 128, 256, 512, 1024, 2048, 4096, 4096]);
    assert_eq!(counts.iter().sum::<usize>(), 20_000);

    let long = format!("http://a/{}\n", "x".repeat(60_000)).repeat(200);
    for page in pages(&mut reader_of(TEXT, long, &options()).unwrap()).unwrap() {
        assert!(page.names.byte_len() <= crate::limits::LIST_PAGE_BYTES + 61_000);
    }
}

#[test]
fn what_is_filtered_is_counted() {
    let list: String = lines(200_000, |n| format!("http://a/{n}\n"));
    let filtered =
        ListOptions { include: vec!["*/7".into(), "x".into()], exclude: vec!["re:b".into()], ..options() };

    let read = pages(&mut reader_of(TEXT, list + "bad\n", &filtered).unwrap()).unwrap();

    assert_eq!(entries_of(&read).len(), 2);
    assert_eq!(read.iter().map(|page| page.skipped.total()).sum::<u64>(), 199_999);
    assert!(read.len() >= 3);
    assert_eq!(position_of(read.last().unwrap()).0.entries, 200_001);
}

#[test]
fn a_sample_is_the_same_each_time() {
    let list: String = lines(10_000, |n| format!("http://a/{n}\n"));
    let filtered = ListOptions { exclude: vec!["*7".into()], ..options() };
    let sample = reader_of(TEXT, &list, &filtered).unwrap().find_sample(100, || true).unwrap().unwrap();

    let mut reader = reader_of(TEXT, &list, &filtered).unwrap();
    reader.set_sample(sample);
    let read = pages(&mut reader).unwrap();

    assert_eq!(entries_of(&read).len(), 100);
    assert_eq!(read.iter().map(|page| page.skipped.total()).sum::<u64>(), 9900);
    let mut resumed = reader_of(TEXT, &list, &filtered).unwrap();
    resumed.set_sample(sample);
    resumed.resume(position_of(&read[0]).0);
    assert_eq!(entries_of(&pages(&mut resumed).unwrap()), entries_of(&read[1..]));
}

/// Returns a list in each format and compression, together with the options for reading it.
fn every_list() -> Vec<(Kind, Vec<u8>, ListOptions)> {
    let csv = |delimiter: char| {
        let rows = (0..3000).map(|n| match n % 50 {
            7 => format!("{n}{delimiter}\"http://a/{n}\"{delimiter}\"x\r\ny\n\n\"\r\n\r\n"),
            9 => format!("{n}{delimiter}bad\n"),
            _ => format!("{n}{delimiter}http://a/{n}{delimiter}note\n"),
        });
        format!("\u{feff}id{delimiter}url{delimiter}note\n{}", rows.collect::<String>()).into_bytes()
    };
    let text: String = lines(3000, |n| format!("# {n}\r\nhttp://a/{n}\r\n\n{n}\n"));
    let json: String = lines(3000, |n| format!("{{\"id\":{n},\"url\":\"http://a/{n}\"}}\n\n{{\n"));
    let long = format!("{text}{}\nhttp://a/\n", "y".repeat(3 * LIST_LINE_BYTES_MAX));
    let with = ListOptions { key_column: Some("id".into()), keep_columns: vec!["note".into()], ..options() };
    let plain = [
        (ListFormat::Text, text.into_bytes(), ListOptions { exclude: vec!["*3".into()], ..options() }),
        (ListFormat::Text, long.into_bytes(), options()),
        (ListFormat::Csv, csv(','), with.clone()),
        (ListFormat::Csv, csv(','), ListOptions { exclude: vec!["*".into()], ..column("2") }),
        (ListFormat::Tsv, csv('\t'), with),
        (ListFormat::Jsonl, json.into_bytes(), options()),
    ];
    let mut lists = vec![(PARQUET, parquet(2500), options())];
    for (format, list, options) in plain {
        lists.push(((format, Some(Compression::Gzip)), gzip(&list), options.clone()));
        lists.push(((format, Some(Compression::Zstd)), zstd(&list), options.clone()));
        lists.push(((format, None), list, options));
    }
    lists
}

#[test]
fn a_list_goes_on_behind_every_page() {
    for (kind, list, options) in every_list() {
        let whole = pages(&mut reader_of(kind, &list, &options).unwrap()).unwrap();
        assert!(whole.len() > 1 || whole[0].skipped.total() > 100);
        for (at, page) in whole.iter().enumerate() {
            let mut again = reader_of(kind, &list, &options).unwrap();
            again.resume(ListPosition::from_text(&position_of(page).0.to_text()).unwrap());
            let rest = pages(&mut again).unwrap();
            assert_eq!(entries_of(&rest), entries_of(&whole[at + 1..]), "{kind:?} behind page {at}");
            assert_eq!(position_of(rest.last().unwrap()), position_of(whole.last().unwrap()), "{kind:?}");
        }
    }
}

#[test]
fn a_list_goes_on_behind_its_start() {
    let mut reader = reader_of(TEXT, "http://a/1\n", &options()).unwrap();
    reader.resume(ListPosition::default());

    assert_eq!(entries_of(&pages(&mut reader).unwrap()), ["http://a/1"]);
}

#[test]
fn a_list_that_has_changed_is_refused() {
    for (kind, list, options) in every_list() {
        if kind.1.is_some() {
            continue;
        }
        let page = pages(&mut reader_of(kind, &list, &options).unwrap()).unwrap().remove(0);
        let changed = if kind.0 == ListFormat::Parquet {
            vec![parquet(1), parquet(0)]
        } else {
            let mut other = list.clone();
            other[40] ^= 1;
            vec![other, list[..50].to_vec(), Vec::new()]
        };
        for other in changed {
            let mut again = reader_of(kind, &other, &options).unwrap();
            again.resume(position_of(&page).0);
            let error = pages(&mut again).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
            assert!(error.to_string().contains("has changed"), "{error}");
        }
    }
}

/// Returns these pieces one by one. `None` means that no input is available at the moment.
struct Pipe(VecDeque<Option<Vec<u8>>>);

impl Pipe {
    fn of(pieces: impl Iterator<Item = Vec<u8>>) -> Self {
        Pipe(pieces.flat_map(|piece| [Some(piece), None]).collect())
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.pop_front() {
            None => Ok(0),
            Some(None) => Err(io::ErrorKind::WouldBlock.into()),
            Some(Some(mut piece)) => {
                let count = piece.len().min(buffer.len());
                buffer[..count].copy_from_slice(&piece[..count]);
                if count < piece.len() {
                    self.0.push_front(Some(piece.split_off(count)));
                }
                Ok(count)
            }
        }
    }
}

#[test]
fn a_pipe_gives_a_page_of_what_there_is() {
    let pieces = ["http://a/1\nhttp://a/2\nhttp:", "//a/3\n", "# no target\n", "http://a/4"];
    let pipe = Pipe::of(pieces.iter().map(|piece| piece.as_bytes().to_vec()));
    let mut reader =
        ListReader::of_stream("-", (Box::new(pipe), FieldCheck::FirstValues), TEXT, &options()).unwrap();

    let mut seen = Vec::new();
    loop {
        match reader.next_page().unwrap() {
            ListStep::Page(page) => seen.push(entries_of(&[*page]).join(" ")),
            ListStep::NothingNow => seen.push("nothing".into()),
            ListStep::End => break,
        }
    }

    assert_eq!(seen, ["http://a/1 http://a/2", "http://a/3", "nothing", "nothing", "http://a/4"]);
}

#[test]
fn a_list_that_trickles_is_the_same_list() {
    for (kind, list, options) in every_list() {
        if kind.0 == ListFormat::Parquet || list.len() > 2 * LIST_LINE_BYTES_MAX {
            continue;
        }
        let whole = entries(kind, &list, &options);
        for size in [1, 7, 1000] {
            if size == 1 && list.len() > 100_000 {
                continue;
            }
            let pipe = Pipe::of(list.chunks(size).map(<[u8]>::to_vec));
            let mut reader =
                ListReader::of_stream("-", (Box::new(pipe), FieldCheck::FirstValues), kind, &options)
                    .unwrap();
            let read = entries_of(&pages(&mut reader).unwrap());
            assert!(read == whole, "{kind:?} in pieces of {size}");
        }
    }
}

/// Returns the same byte forever.
struct Endless(u8);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        buffer.fill(self.0);
        Ok(buffer.len())
    }
}

#[test]
fn an_endless_line_lets_the_caller_look_around() {
    for byte in [b'a', b'\n', b'"', b','] {
        for kind in [TEXT, CSV, JSONL] {
            let mut reader = ListReader::of_stream(
                "-",
                (Box::new(Endless(byte)), FieldCheck::FirstValues),
                kind,
                &column_for(kind),
            )
            .unwrap();
            assert!(!matches!(reader.next_page().unwrap(), ListStep::End), "{kind:?} {byte}");
            reader.resume(ListPosition { offset: u64::MAX, ..ListPosition::default() });
            assert_eq!(reader.next_page().unwrap(), ListStep::NothingNow, "{kind:?} {byte}");
        }
    }
}

fn column_for(kind: Kind) -> ListOptions {
    if kind == CSV { column("1") } else { options() }
}

#[test]
fn options_that_do_not_fit_the_format_are_told() {
    let header = ListOptions { csv_header: CsvHeader::Yes, ..options() };

    for (kind, options) in [
        (TEXT, column("2")),
        (TEXT, header.clone()),
        (JSONL, header.clone()),
        (PARQUET, header),
        (TEXT, ListOptions { keep_columns: vec!["a".into()], ..options() }),
        (TEXT, ListOptions { template: Some("x".into()), ..options() }),
    ] {
        assert_eq!(error(kind, "", &options).exit_code(), 2, "{options:?}");
    }
    let stream =
        ListReader::of_stream("-", (Box::new(io::empty()), FieldCheck::FirstValues), PARQUET, &options());
    assert_eq!(stream.unwrap_err().exit_code(), 2);
}

#[test]
fn options_have_a_text_for_the_job() {
    let some = ListOptions {
        csv_header: CsvHeader::No,
        keep_columns: vec!["a b".into(), "c".into()],
        sample: Some(3),
        ..options()
    };

    assert_eq!(options().text(), "");
    assert_eq!(some.text(), r#"header="false" keep-columns="a b" keep-columns="c" sample="3""#);
}

#[test]
fn a_position_that_is_none_is_refused() {
    for text in ["", "1", "1 2 3", "1 2 3 x", "1 2 3 4 x", "1 2 3 4 5 6", "-1 2 3 4"] {
        assert_eq!(ListPosition::from_text(text), None, "{text}");
    }
}

#[test]
fn a_position_in_the_first_file_is_written_as_earlier_versions_did() {
    let first = ListPosition { entries: 1, offset: 2, line: 3, digest: 4, file: 0 };

    assert_eq!(first.to_text(), "1 2 3 0000000000000004");
    for position in [first, ListPosition { file: 7, ..first }] {
        assert_eq!(ListPosition::from_text(&position.to_text()), Some(position));
    }
}
