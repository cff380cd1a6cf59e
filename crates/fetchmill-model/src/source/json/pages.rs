//! The pages of a listing: their URLs, their contents, and the links between them.

use url::Url;

use super::fields::{FieldPath, NULL, find_fields};
use super::items::{ItemFields, ItemReader, ReadItems};
use super::link_field::next_link;
use super::options::{JsonPageOptions, NextPage};
use crate::error::{Error, Result};
use crate::limits::MARKER_BYTES_MAX;
use crate::source::api::{ApiNames, MarkerSeed, whole_number};
use crate::source::list::Filters;
use crate::source::{BadPage, ListedPage, OriginUrl, PageCursor, resolve_next};

/// A listing that consists of JSON pages.
#[derive(Debug, Clone)]
pub struct JsonPages {
    source: OriginUrl,
    items: FieldPath,
    fields: ItemFields,
    /// Maximum size of an item. See [`JsonPages::storing_items`].
    item_max: Option<u64>,
    total: FieldPath,
    next: NextPage,
    /// Field that contains the marker or the URL of the next page.
    next_field: FieldPath,
    /// Name of the parameter for a marker or a count.
    param: String,
}

/// A received page.
#[derive(Debug, Clone, Copy)]
pub struct PageReply<'p> {
    /// The link that led to this page. `None` for the first page.
    pub from: Option<&'p str>,
    /// URL that was requested.
    pub url: &'p Url,
    /// Bytes of the page.
    pub body: &'p [u8],
    /// Values of the reply's `Link` header fields.
    pub links: &'p [&'p [u8]],
}

/// Contents of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct JsonPage {
    /// The page as the journal stores it.
    pub page: ListedPage,
    /// Number of items, including skipped ones.
    pub items: u64,
    /// Whether none of the items has the URL field. If so, the option probably names the wrong field.
    pub is_without_urls: bool,
    /// Whether the page lacks the field for the link to the next page. If so, the option probably names the wrong
    /// field.
    pub has_no_lead: bool,
}

impl JsonPages {
    /// Creates the listing of a source from these options.
    pub fn new(source: &OriginUrl, options: &JsonPageOptions, api: &ApiNames) -> Result<Self> {
        let next = options.check()?;
        let field = |option: &str, path: &Option<String>| {
            path.as_deref().map(|path| FieldPath::new(option, path)).transpose()
        };
        let param = match next {
            NextPage::Offset => &options.offset_param,
            NextPage::Page => &options.page_param,
            NextPage::Marker | NextPage::Url | NextPage::Link | NextPage::None => &api.marker_param,
        };
        let pages = JsonPages {
            source: source.clone(),
            items: FieldPath::new("--items-field", &options.items_field)?,
            fields: ItemFields {
                url: field("--url-field", &options.url_field)?,
                name: field("--name-field", &options.name_field)?,
                size: field("--size-field", &options.size_field)?,
                modified: field("--modified-field", &options.modified_field)?,
            },
            item_max: None,
            total: FieldPath::new("--total-field", &api.total_field)?,
            next,
            next_field: FieldPath::new("--next-field", options.next_field.as_deref().unwrap_or("."))?,
            param: param.clone(),
        };
        pages.number(None)?;
        Ok(pages)
    }

    /// Returns the same listing, except that the items themselves are stored, each with up to `item_max` bytes.
    #[must_use]
    pub fn storing_items(self, item_max: u64) -> Self {
        JsonPages { item_max: Some(item_max), ..self }
    }

    /// Returns whether the items themselves are stored rather than the objects at their URLs.
    pub fn stores_items(&self) -> bool {
        self.item_max.is_some()
    }

    /// Returns the URL of the page to which `from` leads. The first page is the source itself.
    pub fn url(&self, from: Option<&str>) -> Result<Url> {
        let Some(from) = from else { return Ok(self.source.url().clone()) };
        match self.next {
            NextPage::Url | NextPage::Link => resolve_next(&self.source, self.source.url(), from),
            _ => Ok(self.with_param(from)),
        }
    }

    /// Returns the source's URL after setting the parameter to this value. An existing value is replaced.
    fn with_param(&self, value: &str) -> Url {
        let mut url = self.source.url().clone();
        let mut query = String::new();
        for part in url.query().unwrap_or_default().split('&') {
            if !part.is_empty() && !is_param(part, &self.param) {
                query.push_str(part);
                query.push('&');
            }
        }
        query.push_str(&self.param);
        query.push('=');
        query.extend(url::form_urlencoded::byte_serialize(value.as_bytes()));
        url.set_query(Some(&query));
        url
    }

    /// Returns the number of a page, or the number of items before it. The first page has the number in the source's
    /// URL or, if there is none, the default start.
    fn number(&self, from: Option<&str>) -> Result<u64> {
        let (param, start) = match self.next {
            NextPage::Page => (&self.param, 1),
            NextPage::Offset => (&self.param, 0),
            _ => return Ok(0),
        };
        let given = self.source.url().query_pairs().find(|(name, _)| name == param);
        let text = from.or_else(|| given.as_ref().map(|(_, value)| &**value));
        text.map_or(Ok(start), |text| {
            text.parse().map_err(|_| {
                Error::Usage(format!(
                    "the parameter {param} of SOURCE must be a whole number, not {text}, because pages are \
                     counted from it"
                ))
            })
        })
    }

    /// Reads a page.
    ///
    /// # Errors
    /// Fails if the body is not a page, or if its link leads to another origin.
    pub fn read(
        &self,
        reply: PageReply<'_>,
        filters: &Filters,
    ) -> Result<std::result::Result<JsonPage, BadPage>> {
        let (read, rest) = match self.read_body(reply, filters) {
            Ok(read) => read,
            Err(bad) => return Ok(Err(bad)),
        };
        let next = match self.lead(reply, &read, rest.lead) {
            Ok(lead) => self.resolve(reply.url, lead)?,
            Err(bad) => return Ok(Err(bad)),
        };
        let items_digest = (read.count > 0).then(|| read.digest.digest128());
        let has_no_lead = next.is_none()
            && match self.next {
                NextPage::Marker | NextPage::Url => rest.lead.is_none(),
                NextPage::Link => reply.links.is_empty(),
                NextPage::Page | NextPage::Offset | NextPage::None => false,
            };
        let next_url = next.as_deref().map(|next| self.url(Some(next))).transpose()?.map(String::from);
        let cursor = PageCursor::Json { url: reply.url.as_str().to_owned(), items_digest, next, next_url };
        Ok(Ok(JsonPage {
            items: read.count,
            is_without_urls: read.count > 0 && read.without_url == read.count,
            has_no_lead,
            page: ListedPage { names: read.names, skipped: read.skipped, total: rest.total, cursor },
        }))
    }

    fn read_body<'p>(
        &self,
        reply: PageReply<'p>,
        filters: &Filters,
    ) -> std::result::Result<(ReadItems, PageRest<'p>), BadPage> {
        let not_expected = |error: serde_json::Error| {
            BadPage(format!("the page is not valid JSON of the expected form: {error}"))
        };
        let text =
            std::str::from_utf8(reply.body).map_err(|_| BadPage("the page is not UTF-8".to_owned()))?;
        let text = text.trim_start_matches('\u{feff}').trim_ascii();
        let lead = Some(&self.next_field).filter(|field| !field.is_empty());
        let [array, lead] = find_fields(text, [Some(&self.items), lead]).map_err(not_expected)?;
        let Some(array) = array.filter(|array| *array != NULL) else {
            let field = self.items.text();
            return Err(BadPage(format!("the page has no field {field} with items (--items-field)")));
        };
        let reader = ItemReader {
            fields: &self.fields,
            filters,
            item_max: self.item_max,
            page: reply.url,
            read: ReadItems::default(),
        };
        let read = reader.read(array).map_err(not_expected)?;
        // The total is only a hint, so any other value here does not make the page invalid.
        let total = find_fields(text, [Some(&self.total)]).ok().and_then(|[total]| whole_number(total?));
        Ok((read, PageRest { lead, total }))
    }

    /// Returns the link to the next page. The page states it, or it is computed from a count.
    fn lead(
        &self,
        reply: PageReply<'_>,
        read: &ReadItems,
        field: Option<&str>,
    ) -> std::result::Result<Option<String>, BadPage> {
        let lead = match self.next {
            NextPage::None => None,
            NextPage::Marker | NextPage::Url => {
                let lead = field.map_or(Ok(None), |field| self.marker(field))?;
                // Some servers repeat the last cursor after the last page.
                lead.filter(|lead| read.count > 0 || reply.from != Some(lead.as_str()))
            }
            NextPage::Link => next_link(reply.links.iter().copied())
                .map_err(|why| BadPage(format!("the Link header field cannot be read: {why}")))?,
            NextPage::Page | NextPage::Offset if read.count == 0 => None,
            NextPage::Page | NextPage::Offset => {
                let step = if self.next == NextPage::Page { 1 } else { read.count };
                let number = self.number(reply.from).ok().and_then(|number| number.checked_add(step));
                let too_large =
                    || BadPage(format!("the parameter {} is too large to be increased", self.param));
                Some(number.ok_or_else(too_large)?.to_string())
            }
        };
        match lead {
            Some(lead) if lead.len() > MARKER_BYTES_MAX => Err(BadPage(format!(
                "the marker or URL of the next page is longer than {MARKER_BYTES_MAX} bytes"
            ))),
            lead => Ok(lead),
        }
    }

    fn marker(&self, field: &str) -> std::result::Result<Option<String>, BadPage> {
        use serde::de::DeserializeSeed as _;
        let read = MarkerSeed.deserialize(&mut serde_json::Deserializer::from_str(field));
        read.map_err(|error| {
            BadPage(format!("the field {} does not contain a marker: {error}", self.next_field.text()))
        })
    }

    /// Returns the link as the journal stores it, with URLs made absolute.
    fn resolve(&self, page: &Url, lead: Option<String>) -> Result<Option<String>> {
        match (self.next, lead) {
            (NextPage::Url | NextPage::Link, Some(lead)) => {
                resolve_next(&self.source, page, &lead).map(|url| Some(url.into()))
            }
            (_, lead) => Ok(lead),
        }
    }
}

/// Contents of a page other than its items.
struct PageRest<'p> {
    /// The field that leads to the next page, as written in the page.
    lead: Option<&'p str>,
    total: Option<u64>,
}

/// Returns whether a part of a query sets the parameter `param`.
fn is_param(part: &str, param: &str) -> bool {
    let found = url::form_urlencoded::parse(part.as_bytes()).next();
    found.is_some_and(|(name, _)| name == param)
}
