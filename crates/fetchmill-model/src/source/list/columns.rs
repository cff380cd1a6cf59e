//! The wanted columns of a list, and the code that builds an entry from their values.

use std::borrow::Cow;

use super::name_template::{self, NamePiece};
use super::records::{RecordValues, Records};
use super::request::{RequestPiece, RequestPieces, push_value};
use super::template::{self, Piece};
use super::{ListOptions, json_template, normalise, origin_of};
use crate::error::Result;
use crate::http1::byte_range::{ByteRange, number};
use crate::limits::{KEPT_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::name::{for_display, from_text};
use crate::row::LISTED_COLUMNS;
use crate::target::entry::{ExpectedObject, ListEntry};
use crate::target::expected_hash::ExpectedHash;
use crate::target::extra_columns::{ColumnType, column_types, write_extra};
use crate::target::request::{TargetRequest, is_condition};
use crate::target::source_metadata::ListedTime;
use crate::text::dates::parse_utc_to_the_second;

/// A column, as the user selects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ColumnSelector {
    /// The URL column, if the user did not select one.
    Url,
    /// A column selected by its number, counted from 0.
    Number(usize),
    /// A column selected by its name.
    Name(String),
    /// A manifest column. It is present only in files that have all manifest columns.
    Manifest(&'static str),
    /// A column from the schema of an inventory.
    Inventory(String),
}

impl ColumnSelector {
    /// Parses a selector. Digits always select a column by number, even if a column has that name.
    fn parse(text: &str) -> Self {
        match text.parse::<usize>() {
            Ok(number) if number > 0 => ColumnSelector::Number(number - 1),
            _ => ColumnSelector::Name(text.to_owned()),
        }
    }

    /// Returns the selector as shown in messages.
    pub(super) fn text(&self) -> String {
        match self {
            ColumnSelector::Url => "url".into(),
            ColumnSelector::Number(number) => (number + 1).to_string(),
            ColumnSelector::Name(name) | ColumnSelector::Inventory(name) => name.clone(),
            ColumnSelector::Manifest(name) => (*name).to_owned(),
        }
    }
}

/// Returns whether the column names include all manifest columns.
pub(super) fn is_manifest<'n>(mut has: impl FnMut(&'n str) -> bool) -> bool {
    LISTED_COLUMNS.iter().all(|(name, _)| has(name))
}

/// Instructions for building an entry. A column is stored as its position in `wanted`.
#[derive(Debug, Clone)]
pub(super) struct ColumnPlan {
    wanted: Vec<ColumnSelector>,
    /// Pieces of the URL. If the URL is the value of a single column, this column is the only piece.
    url: Vec<UrlPiece>,
    url_column: usize,
    /// Whether any text is accepted as a target. See [`ListOptions::any_text`].
    takes_text: bool,
    has_template: bool,
    key: Option<usize>,
    /// Pieces of the name, which replaces the key.
    name: Option<Vec<NamePiece<usize>>>,
    kept: Vec<KeptColumn>,
    /// Pieces of each target's request. `None` for a plain `GET`.
    request: Option<RequestPieces<usize>>,
    /// Whether all requests are `GET`s without a body.
    is_bare_get: bool,
    /// Column that contains each item's own request, if a program supplies the items.
    own_request: Option<usize>,
    /// First wanted manifest column. The other manifest columns follow it in the order of [`MANIFEST`]. `None` if no
    /// manifest columns are wanted.
    manifest: Option<usize>,
    /// Column that contains the modification times of an inventory's objects.
    modified: Option<usize>,
}

/// Manifest columns that are read in addition to the URL.
const MANIFEST: [&str; 3] = [NAME, SIZE, ETAG];
pub(super) const NAME: &str = "name";
pub(super) const SIZE: &str = "size";
pub(super) const ETAG: &str = "etag";
pub(super) const MODIFIED: &str = "last_modified";

/// A column that is copied to the output.
#[derive(Debug, Clone, Copy)]
struct KeptColumn {
    column: usize,
    /// Type of the column's values, if the user has set it.
    told: Option<ColumnType>,
}

#[derive(Debug, Clone)]
enum UrlPiece {
    Text(String),
    Column { column: usize, is_raw: bool },
}

impl ColumnPlan {
    pub(super) fn new(options: &ListOptions) -> Result<Self> {
        let mut wanted = vec![options.column.as_deref().map_or(ColumnSelector::Url, ColumnSelector::parse)];
        let mut position_of = |column: ColumnSelector| {
            wanted.iter().position(|other| *other == column).unwrap_or_else(|| {
                wanted.push(column);
                wanted.len() - 1
            })
        };
        let pieces = match options.template.as_deref() {
            Some(template) => template::parse(template, !options.request.has_columns()?)?,
            None => vec![Piece::Column { name: None, is_raw: true }],
        };
        let url = pieces
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => UrlPiece::Text(text),
                Piece::Column { name: None, is_raw } => UrlPiece::Column { column: 0, is_raw },
                Piece::Column { name: Some(name), is_raw } => {
                    UrlPiece::Column { column: position_of(ColumnSelector::parse(&name)), is_raw }
                }
            })
            .collect::<Vec<_>>();
        let key = options.key_column.as_deref().map(|name| position_of(ColumnSelector::parse(name)));
        let name = options.name_template.as_ref().map(|template| {
            template.with_columns(|name| name.map_or(0, |name| position_of(ColumnSelector::parse(name))))
        });
        let types = column_types(&options.column_types)?;
        let kept = options.keep_columns.iter().map(|name| KeptColumn {
            column: position_of(ColumnSelector::parse(name)),
            told: types.get(name).copied(),
        });
        let kept = kept.collect();
        let request = options.request.is_custom().then(|| options.request.pieces()).transpose()?;
        let request = request.map(|pieces| {
            pieces.with_columns(|name| name.map_or(0, |name| position_of(ColumnSelector::parse(&name))))
        });
        let url_column = url
            .iter()
            .find_map(|piece| if let UrlPiece::Column { column, .. } = piece { Some(*column) } else { None })
            .unwrap_or(0);
        let mut plan = ColumnPlan {
            wanted,
            url,
            url_column,
            has_template: options.template.is_some(),
            takes_text: options.any_text,
            key,
            name,
            kept,
            request,
            is_bare_get: options.request.is_bare_get(),
            own_request: None,
            manifest: None,
            modified: None,
        };
        plan.drop_unused();
        if options.may_be_manifest() {
            plan.manifest = Some(plan.wanted.len());
            plan.wanted.extend(MANIFEST.map(ColumnSelector::Manifest));
        }
        Ok(plan)
    }

    /// Drops the URL column if the template uses only other columns.
    fn drop_unused(&mut self) {
        let is_used = self.columns().any(|column| *column == 0);
        if is_used || self.wanted.len() == 1 {
            return;
        }
        self.wanted.remove(0);
        self.columns().for_each(|column| *column -= 1);
        self.url_column = self.url_column.saturating_sub(1);
    }

    /// Returns all columns that are in use.
    fn columns(&mut self) -> impl Iterator<Item = &mut usize> {
        let url = self.url.iter_mut().filter_map(|piece| match piece {
            UrlPiece::Column { column, .. } => Some(column),
            UrlPiece::Text(_) => None,
        });
        let request = self.request.iter_mut().flat_map(RequestPieces::columns);
        let name = self.name.iter_mut().flatten().filter_map(|piece| match piece {
            NamePiece::Column { column, .. } => Some(column),
            NamePiece::Text(_) | NamePiece::Index => None,
        });
        url.chain(request)
            .chain(name)
            .chain(&mut self.key)
            .chain(self.kept.iter_mut().map(|kept| &mut kept.column))
    }

    /// Creates a plan that returns the values of these columns unchanged.
    pub(super) fn of_columns(columns: Vec<ColumnSelector>) -> Result<Self> {
        Ok(ColumnPlan { wanted: columns, url_column: 0, ..Self::new(&ListOptions::default())? })
    }

    /// Adds the modification time after the other manifest columns.
    pub(super) fn with_times(mut self) -> Self {
        self.modified = Some(self.wanted.len());
        self.wanted.push(ColumnSelector::Manifest(MODIFIED));
        self
    }

    /// Adds a column for each item's own request, after the item's other values.
    pub(super) fn with_own_requests(mut self) -> Self {
        self.own_request = Some(self.wanted.len());
        self
    }

    /// Returns the columns whose values are needed, in the order in which the values are stored.
    pub(super) fn wanted(&self) -> &[ColumnSelector] {
        &self.wanted
    }

    /// Returns the position of the URL column, or of the first column of a template.
    pub(super) fn url_column(&self) -> usize {
        self.url_column
    }

    /// Returns whether any column is selected by name, which requires the file to have a header.
    pub(super) fn has_names(&self) -> bool {
        self.wanted.iter().any(|column| matches!(column, ColumnSelector::Name(_)))
    }

    /// Returns whether URLs are built from a template.
    pub(super) fn has_template(&self) -> bool {
        self.has_template
    }

    /// Returns the names and types of the kept columns for the output. A type set by the user overrides the type in the
    /// list.
    pub(super) fn kept_columns(&self, records: &dyn Records) -> Vec<(String, ColumnType)> {
        let kept = self.kept.iter().map(|kept| {
            let kind = kept.told.unwrap_or_else(|| records.column_type(kept.column));
            (self.wanted[kept.column].text(), kind)
        });
        kept.collect()
    }

    /// Returns the normalised URL of a record. The error explains why the record has no valid URL, and quotes the
    /// invalid text.
    pub(super) fn url<'v>(&self, values: &'v RecordValues) -> std::result::Result<Cow<'v, str>, String> {
        let kept = self.kept.iter().map(|kept| kept.column);
        for column in self.manifest.into_iter().chain(self.key).chain(kept) {
            if values.get(column).is_some_and(|value| std::str::from_utf8(value).is_err()) {
                return Err(format!("column {} is not UTF-8", self.wanted[column].text()));
            }
        }
        self.check_types(values)?;
        if let [UrlPiece::Column { column, .. }] = self.url[..] {
            return self.understood(self.value(values, column)?);
        }
        let mut text = String::new();
        // Start positions of the values that consist of dots.
        let mut dots = Vec::new();
        for piece in &self.url {
            match piece {
                UrlPiece::Text(piece) => text.push_str(piece),
                UrlPiece::Column { column, is_raw } => {
                    let value = self.value(values, *column)?;
                    if value.is_empty() {
                        return Err(format!("column {} is empty", self.wanted[*column].text()));
                    }
                    if *is_raw {
                        text.push_str(value);
                        continue;
                    }
                    if matches!(value, "." | "..") {
                        dots.push(text.len());
                    }
                    template::push_value(&mut text, value)?;
                }
            }
        }
        if text.contains("://") && dots.iter().any(|start| template::leads_elsewhere(&text, *start)) {
            return Err(format!(
                "a value of . or .. would change the URL's path: {}",
                for_display(text.as_bytes())
            ));
        }
        self.understood(&text).map(|url| Cow::Owned(url.into_owned()))
    }

    /// Refuses a record if the type of a value differs from the type that the user has set for its column. Empty values
    /// are allowed.
    fn check_types(&self, values: &RecordValues) -> std::result::Result<(), String> {
        for kept in &self.kept {
            let (Some(kind), Some(value)) = (kept.told, values.get(kept.column)) else { continue };
            if !value.is_empty() && kind.read(value).is_none() {
                let (name, value) = (self.wanted[kept.column].text(), for_display(value));
                return Err(format!("column {name} is not of type {}: {value}", kind.name()));
            }
        }
        Ok(())
    }

    fn understood<'t>(&self, text: &'t str) -> std::result::Result<Cow<'t, str>, String> {
        normalise(text).or_else(|reason| match text {
            "" => Err(reason.to_owned()),
            _ if self.takes_text => Ok(Cow::Borrowed(text)),
            _ => Err(format!("{reason}: {}", for_display(text.as_bytes()))),
        })
    }

    fn value<'v>(&self, values: &'v RecordValues, column: usize) -> std::result::Result<&'v str, String> {
        let value = values.get(column).ok_or_else(|| match &self.wanted[column] {
            ColumnSelector::Url => "it has no URL".to_owned(),
            named => format!("it has no column {}", named.text()),
        })?;
        std::str::from_utf8(value).map_err(|_| described_bytes(value))
    }

    /// Builds the name of a record from the name template, if there is one. The error explains why the record has no
    /// name.
    pub(super) fn name(
        &self,
        index: u64,
        values: &RecordValues,
    ) -> std::result::Result<Option<String>, String> {
        let Some(pieces) = &self.name else { return Ok(None) };
        let mut name = String::new();
        for piece in pieces {
            match piece {
                NamePiece::Text(text) => name.push_str(text),
                NamePiece::Index => name_template::push_index(&mut name, index),
                NamePiece::Column { column, is_raw } => match self.value(values, *column)? {
                    // Without the value, the name could be the same as the name of another record, or it could be the
                    // name of a hidden file.
                    "" => return Err(format!("column {} is empty", self.wanted[*column].text())),
                    value if *is_raw => name.push_str(value),
                    value => name_template::push_value(&mut name, value),
                },
            }
        }
        Ok(Some(name))
    }

    /// Writes the entry of a record, which consists of its URL, [`ColumnPlan::name`] and [`ColumnPlan::request`]. The
    /// error explains why the record cannot become an entry. `scratch` is a reused buffer.
    pub(super) fn write_entry(
        &self,
        url: &str,
        (name, request): (Option<&str>, Option<&[u8]>),
        values: &RecordValues,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> std::result::Result<(), &'static str> {
        out.clear();
        // An empty key is not a name. A manifest describes the whole object rather than a part of it.
        let manifest = self.manifest.filter(|_| !self.has_range());
        let value = |column| values.get(column).filter(|value| !value.is_empty());
        let key = match self.key {
            Some(column) => value(column).map(Cow::Borrowed),
            None => manifest.and_then(value).map(from_text),
        };
        let key = name.map(str::as_bytes).or(key.as_deref());
        let kept = self.kept_values(values, scratch)?;
        let expected = self.expected(values)?;
        ListEntry { url: url.as_bytes(), key, kept, expected, request }.write(out);
        Ok(())
    }

    /// Writes a record's kept columns to `scratch`. The error explains why they do not fit into a target.
    pub(super) fn kept_values<'s>(
        &self,
        values: &RecordValues,
        scratch: &'s mut Vec<u8>,
    ) -> std::result::Result<Option<&'s [u8]>, &'static str> {
        scratch.clear();
        let value = |kept: &KeptColumn| {
            let is_none = kept.told.is_some_and(|kind| kind != ColumnType::String);
            values.get(kept.column).filter(|value| !(is_none && value.is_empty()))
        };
        write_extra(self.kept.iter().map(value), scratch);
        if scratch.len() > KEPT_BYTES_MAX {
            return Err("its kept columns are larger than 64 KiB");
        }
        Ok((!self.kept.is_empty()).then_some(scratch.as_slice()))
    }

    /// Returns the request of a record, or `None` if it is a plain `GET`. The error explains why the URL cannot be
    /// requested.
    pub(super) fn request(
        &self,
        url: &str,
        values: &RecordValues,
    ) -> std::result::Result<Option<Vec<u8>>, String> {
        let own = self.own_request.and_then(|place| values.get(place));
        let made = match (own, &self.request) {
            (Some(own), None) if TargetRequest::read(own).is_some_and(|own| own.is_plain()) => {
                return Ok(None);
            }
            (Some(own), _) => own.to_vec(),
            (None, Some(pieces)) => self.filled(pieces, url, values)?,
            (None, None) => return Ok(None),
        };
        let is_plain =
            |made: TargetRequest<'_>| made.is_plain_part() && (made.range.is_some() || self.is_bare_get);
        if url.starts_with("s3:") && !TargetRequest::read(&made).is_some_and(is_plain) {
            return Err("an object in a bucket can be fetched only with a plain GET".to_owned());
        }
        if made.len() > REQUEST_BYTES_MAX {
            return Err("its request is larger than 64 KiB".to_owned());
        }
        Ok(Some(made))
    }

    fn filled(
        &self,
        pieces: &RequestPieces<usize>,
        url: &str,
        values: &RecordValues,
    ) -> std::result::Result<Vec<u8>, String> {
        let body = pieces.body.as_ref().map(|body| self.text_of(body, values)).transpose()?;
        if let Some(body) = body.as_ref().filter(|_| pieces.is_json)
            && let Err(error) = json_template::is_json(body)
        {
            return Err(format!("--data-json is not JSON with the values of this record: {error}"));
        }
        let may_be_secret = pieces.headers_for.as_deref().map(str::as_bytes) == origin_of(url.as_bytes());
        let mut fields = Vec::new();
        for (name, value, is_open) in &pieces.fields {
            let is_left_out = is_condition(name) && Self::is_empty(value, values);
            if (*is_open || may_be_secret) && !is_left_out {
                fields.push((name.as_str(), self.text_of(value, values)?));
            }
        }
        let range = pieces.range.map(|columns| self.range_of(columns, values)).transpose()?;
        let hash = pieces.hash.map(|column| self.hash_of(column, values)).transpose()?;
        let mut made = Vec::new();
        TargetRequest {
            body: body.as_deref().map(str::as_bytes),
            range,
            hash,
            fields: fields.iter().map(|(name, value)| (*name, value.as_str())).collect(),
            ..TargetRequest::default()
        }
        .write(&mut made);
        Ok(made)
    }

    /// Returns the part of the object that a record selects.
    fn range_of(
        &self,
        (offset, length): (usize, usize),
        values: &RecordValues,
    ) -> std::result::Result<ByteRange, String> {
        let number_of = |column: usize| {
            let value = self.value(values, column)?;
            let refused = || {
                format!(
                    "column {} is not a number: {}",
                    self.wanted[column].text(),
                    for_display(value.as_bytes())
                )
            };
            number(value.as_bytes()).ok_or_else(refused)
        };
        ByteRange::new(number_of(offset)?, number_of(length)?).map_err(str::to_owned)
    }

    /// Returns the expected hash of a record's object. A missing hash is an error, because the object could not be
    /// verified without it.
    fn hash_of(&self, column: usize, values: &RecordValues) -> std::result::Result<ExpectedHash, String> {
        let value = self.value(values, column)?;
        ExpectedHash::parse(value.trim().as_bytes()).ok_or_else(|| {
            let (name, value) = (self.wanted[column].text(), for_display(value.as_bytes()));
            format!("column {name} is neither SHA-256 nor MD5 in hexadecimal digits or Base64: {value}")
        })
    }

    fn has_range(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.range.is_some())
    }

    /// Returns whether a field uses columns but the record has no value for any of them.
    fn is_empty(pieces: &[RequestPiece<usize>], values: &RecordValues) -> bool {
        let mut columns = pieces.iter().filter_map(|piece| match piece {
            RequestPiece::Column(column, _) => Some(*column),
            RequestPiece::Text(_) => None,
        });
        let has_value = |column: usize| values.get(column).is_some_and(|value| !value.is_empty());
        columns.clone().next().is_some() && !columns.any(has_value)
    }

    fn text_of(
        &self,
        pieces: &[RequestPiece<usize>],
        values: &RecordValues,
    ) -> std::result::Result<String, String> {
        let mut text = String::new();
        for piece in pieces {
            match piece {
                RequestPiece::Text(piece) => text.push_str(piece),
                RequestPiece::Column(column, place) => {
                    let value = values.get(*column);
                    let value =
                        value.map(|value| std::str::from_utf8(value).map_err(|_| described_bytes(value)));
                    push_value(&mut text, *place, value.transpose()?, &self.wanted[*column].text())?;
                }
            }
        }
        Ok(text)
    }
}

impl ColumnPlan {
    /// Returns the expected properties of an object, as stated by its manifest. An invalid size must not be treated as
    /// unknown.
    fn expected<'v>(
        &self,
        values: &'v RecordValues,
    ) -> std::result::Result<ExpectedObject<'v>, &'static str> {
        let Some(name) = self.manifest else { return Ok(ExpectedObject::default()) };
        let value = |column: usize| values.get(column).filter(|value| !value.is_empty());
        let size = match value(name + 1) {
            None => None,
            Some(text) => Some(number(text).ok_or("its size is not a number")?),
        };
        let etag = value(name + 2);
        if etag.is_some_and(|etag| etag.len() > ETAG_BYTES_MAX) {
            return Err("its etag is longer than 1 KiB");
        }
        // The size in the manifest applies only to the whole object.
        let size = size.filter(|_| !self.has_range());
        let modified = self.modified.and_then(value).and_then(parse_utc_to_the_second).map(ListedTime::exact);
        Ok(ExpectedObject { size, etag, modified })
    }
}

/// Maximum size of an ETag. No server returns a longer one.
const ETAG_BYTES_MAX: usize = 1024;

fn described_bytes(value: &[u8]) -> String {
    format!("it is not UTF-8: {}", for_display(value))
}
