//! Options for JSON pages, as set by the user.

use serde::{Deserialize, Serialize};

use super::fields::FieldPath;
use crate::error::{Error, Result};
use crate::options::{options, words};

/// How the next page is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NextPage {
    /// A field contains a marker, which is sent as a parameter of the next request.
    Marker,
    /// A field contains the URL of the next page.
    Url,
    /// The `Link` header field of the reply contains the URL, with `rel="next"` (RFC 8288).
    Link,
    /// A parameter contains the page number.
    Page,
    /// A parameter contains the number of items to skip.
    Offset,
    /// There is only one page.
    None,
}

/// The parts of JSON pages that are stored.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stored {
    /// The objects at the URLs of the items.
    #[default]
    Objects,
    /// The items themselves.
    Items,
}

words!(NextPage, Stored);

options! {
    /// Options for reading JSON pages and finding the next page. They are part of a job's identity.
    #[derive(PartialEq, Eq)]
    pub struct JsonPageOptions {
        /// Field that contains the items. Dots separate nested fields. A single dot stands for the page itself.
        items_field: String = ".".into();
        /// Field of an item that contains the URL. `None` if items are strings.
        url_field: Option<String> = None;
        /// Field of an item that contains the object's name. `None` if the object is named after its URL.
        name_field: Option<String> = None;
        /// Field of an item that contains the object's size.
        size_field: Option<String> = None;
        /// Field of an item that contains the object's modification time.
        modified_field: Option<String> = None;
        /// How the next page is found.
        next_page: Option<NextPage> = None;
        /// Field of a page that contains the marker or the URL of the next page.
        next_field: Option<String> = None;
        /// Query parameter for the page number.
        page_param: String = "page".into();
        /// Query parameter for the number of items to skip.
        offset_param: String = "offset".into();
    }
}

impl JsonPageOptions {
    /// Returns how the next page is found. Fails if this is not set, or if it does not fit the other options.
    pub fn check(&self) -> Result<NextPage> {
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        let Some(next_page) = self.next_page else {
            return refuse(
                "--listing json needs --next-page: marker or url (from --next-field), link (from the Link header field), \
                 page or offset (counted in a parameter), or none",
            );
        };
        let has_field = matches!(next_page, NextPage::Marker | NextPage::Url);
        if has_field && self.next_field.is_none() {
            return refuse("--next-page marker and url need --next-field, the field with the marker or URL");
        }
        if !has_field && self.next_field.is_some() {
            return refuse("--next-field works only with --next-page marker or url");
        }
        if has_field && FieldPath::new("--items-field", &self.items_field)?.is_empty() {
            return refuse("--next-field needs --items-field, because a page that is an array has no fields");
        }
        for (option, path) in [
            ("--url-field", &self.url_field),
            ("--name-field", &self.name_field),
            ("--size-field", &self.size_field),
            ("--modified-field", &self.modified_field),
            ("--next-field", &self.next_field),
        ] {
            let path = path.as_deref().map(|path| FieldPath::new(option, path)).transpose()?;
            if path.is_some_and(|path| path.is_empty()) {
                return refuse(&format!("{option} must name a field"));
            }
        }
        Ok(next_page)
    }

    /// Returns the options as text, for a job's identity.
    pub fn text(&self, marker_param: &str) -> String {
        let next = match self.next_page {
            Some(NextPage::Marker) => format!("marker {marker_param:?}"),
            Some(NextPage::Url) => "url".to_owned(),
            Some(NextPage::Link) => "link".to_owned(),
            Some(NextPage::Page) => format!("page {:?}", self.page_param),
            Some(NextPage::Offset) => format!("offset {:?}", self.offset_param),
            Some(NextPage::None) | None => "none".to_owned(),
        };
        let fields = [
            ("url", &self.url_field),
            ("name", &self.name_field),
            ("size", &self.size_field),
            ("modified", &self.modified_field),
            ("next", &self.next_field),
        ];
        let given = fields.iter().filter_map(|(of, field)| Some(format!(" {of}={:?}", field.as_ref()?)));
        format!("items={:?}{} next-page={next}", self.items_field, given.collect::<String>())
    }
}
