//! Converts the items of a page to targets.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use url::Url;
use xxhash_rust::xxh3::Xxh3;

use super::fields::{FieldPath, FieldText, NULL, find_fields};
use super::item_text::compact;
use crate::limits::PAGE_BYTES_MAX;
use crate::name::for_display;
use crate::outcome::skips::{SkipReason, Skips};
use crate::source::api::whole_number;
use crate::source::json_text::JsonText;
use crate::source::list::{Filters, normalise};
use crate::source::listed_time;
use crate::target::Names;
use crate::target::entry::{ExpectedObject, ListEntry};
use crate::target::source_metadata::ListedTime;

/// Names of the fields in a page's items.
#[derive(Debug, Clone, Default)]
pub(super) struct ItemFields {
    pub(super) url: Option<FieldPath>,
    pub(super) name: Option<FieldPath>,
    pub(super) size: Option<FieldPath>,
    pub(super) modified: Option<FieldPath>,
}

/// Converts the items of a page one by one.
pub(super) struct ItemReader<'p> {
    pub(super) fields: &'p ItemFields,
    pub(super) filters: &'p Filters,
    /// Maximum size of an item if the items themselves are stored. `None` if the objects at the items' URLs are stored.
    pub(super) item_max: Option<u64>,
    /// URL of the page, against which relative URLs are resolved.
    pub(super) page: &'p Url,
    pub(super) read: ReadItems,
}

/// Results of the conversion.
#[derive(Default)]
pub(super) struct ReadItems {
    /// The targets, in the order of the page.
    pub(super) names: Names,
    /// Number of items, including skipped ones.
    pub(super) count: u64,
    /// Items excluded by a filter.
    pub(super) skipped: Skips,
    /// Number of items that do not have the URL field.
    pub(super) without_url: u64,
    /// Digest of all items as they are written in the page.
    pub(super) digest: Xxh3,
}

/// The facts that an item states about its object.
struct Item<'t> {
    /// URL, normalised in the same way as in a list.
    url: String,
    name: Option<Cow<'t, str>>,
    size: Option<u64>,
    modified: Option<ListedTime>,
}

impl ItemReader<'_> {
    /// Converts the items of an array.
    pub(super) fn read(mut self, array: &str) -> serde_json::Result<ReadItems> {
        let mut json = serde_json::Deserializer::from_str(array);
        ItemsSeed(&mut self).deserialize(&mut json).and_then(|()| json.end())?;
        Ok(self.read)
    }

    /// Converts an item. An unusable item becomes a failed target.
    fn push(&mut self, text: &str) -> Result<(), String> {
        self.read.count += 1;
        self.read.digest.update(text.as_bytes());
        // The separator ensures that two adjacent numbers do not look like one.
        self.read.digest.update(&[0]);
        if let Some(item_max) = self.item_max {
            return self.push_item(text, item_max);
        }
        if text.starts_with('{') && self.fields.url.is_none() {
            return Err("the items are objects; use --url-field to name the field with the URL".to_owned());
        }
        let mut entry = Vec::new();
        match self.item(text) {
            Ok(Item { url, .. }) if !self.filters.allows(url.as_bytes()) => {
                self.read.skipped.add(SkipReason::Filter, url.as_bytes());
                return Ok(());
            }
            Ok(Item { url, name, size, modified }) => {
                let key = name.as_deref().filter(|name| !name.is_empty()).map(str::as_bytes);
                let expected = ExpectedObject { size, modified, ..ExpectedObject::default() };
                ListEntry { url: url.as_bytes(), key, expected, ..ListEntry::default() }.write(&mut entry);
            }
            Err(reason) => self.write_refused(&reason, &mut entry),
        }
        self.push_entry(&entry)
    }

    /// Adds an item that is itself stored. The text of the item serves as the URL of its entry, because JSON contains
    /// no NUL.
    fn push_item(&mut self, text: &str, item_max: u64) -> Result<(), String> {
        let item = compact(text);
        if item.len() as u64 <= item_max {
            return self.push_entry(item.as_bytes());
        }
        let mut entry = Vec::new();
        let reason = format!("it has {} bytes, more than --max-size ({item_max})", item.len());
        self.write_refused(&reason, &mut entry);
        self.push_entry(&entry)
    }

    fn write_refused(&self, reason: &str, entry: &mut Vec<u8>) {
        let place = format!("item {} of {}", self.read.count, for_display(self.page.as_str().as_bytes()));
        let (key, kept) = (Some(place.as_bytes()), Some(reason.as_bytes()));
        ListEntry { key, kept, ..ListEntry::default() }.write(entry);
    }

    /// Adds an entry. A short relative URL can become a long absolute one, so the size of a page is limited again here.
    fn push_entry(&mut self, entry: &[u8]) -> Result<(), String> {
        if self.read.names.byte_len() + entry.len() > PAGE_BYTES_MAX {
            return Err(
                "the URLs and names of its items are larger than 16 MiB in total; request smaller pages"
                    .to_owned(),
            );
        }
        self.read.names.push(entry);
        Ok(())
    }

    fn item<'t>(&mut self, text: &'t str) -> Result<Item<'t>, String> {
        if text.starts_with('"') {
            let url = self.resolve(&text_of(text)?)?;
            return Ok(Item { url, name: None, size: None, modified: None });
        }
        let ItemFields { url: url_path, name, size, modified } = self.fields;
        let Some(url_path) = url_path.as_ref().filter(|_| text.starts_with('{')) else {
            self.read.without_url += 1;
            return Err("it is neither a string nor an object".to_owned());
        };
        let paths = [Some(url_path), name.as_ref(), size.as_ref(), modified.as_ref()];
        let found = find_fields(text, paths);
        let [url, name, size, modified] = found.map_err(|error| format!("it cannot be read: {error}"))?;
        let Some(url) = given(url) else {
            self.read.without_url += 1;
            return Err(format!("it has no field {}", url_path.text()));
        };
        Ok(Item {
            url: self.resolve(&text_of(url)?)?,
            name: given(name).map(text_or_number).transpose()?,
            size: given(size).and_then(whole_number),
            modified: given(modified).and_then(time_of),
        })
    }

    /// Returns the absolute URL of an item. A relative URL is resolved against the page's URL (RFC 3986).
    fn resolve(&self, text: &str) -> Result<String, &'static str> {
        if is_whole(text) {
            return normalise(text).map(Cow::into_owned);
        }
        if text.trim().is_empty() {
            return Err("its URL is empty");
        }
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("its URL contains a control character");
        }
        let url = self.page.join(text.trim()).map_err(|_| "not a URL")?;
        if !matches!(url.scheme(), "http" | "https") {
            // The scheme s3 is also refused, because the author of a page must not decide where credentials are used.
            return Err("the scheme of its URL is not http or https");
        }
        normalise(url.as_str()).map(Cow::into_owned)
    }
}

/// Returns whether a text is an absolute URL in the usual form, which needs no base.
fn is_whole(text: &str) -> bool {
    let scheme = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    scheme.starts_with("http://") || scheme.starts_with("https://")
}

fn given(field: FieldText<'_>) -> FieldText<'_> {
    field.filter(|text| *text != NULL)
}

/// Returns the text of a JSON string.
fn text_of(text: &str) -> Result<Cow<'_, str>, String> {
    match serde_json::from_str(text) {
        Ok(JsonText(text)) => Ok(text),
        Err(_) if text.starts_with('"') => Err("it has a string that is not valid Unicode".to_owned()),
        Err(_) => Err("its URL is not a string".to_owned()),
    }
}

/// Returns the text of a name, which can also be a number.
fn text_or_number(text: &str) -> Result<Cow<'_, str>, String> {
    match text.as_bytes().first() {
        Some(b'"') => text_of(text),
        Some(b'-' | b'0'..=b'9') => Ok(Cow::Borrowed(text)),
        _ => Err("its name is neither a string nor a number".to_owned()),
    }
}

/// Returns the modification time of an object. An invalid time is ignored.
fn time_of(text: &str) -> Option<ListedTime> {
    match whole_number(text) {
        Some(seconds) => listed_time::of_epoch(seconds),
        None => listed_time::of_api(&text_of(text).ok()?),
    }
}

struct ItemsSeed<'r, 'p>(&'r mut ItemReader<'p>);

impl<'t> DeserializeSeed<'t> for ItemsSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'t> Visitor<'t> for ItemsSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of items")
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&'t RawValue>()? {
            self.0.push(item.get()).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}
