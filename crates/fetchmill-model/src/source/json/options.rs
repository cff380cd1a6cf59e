//! How pages of JSON are read, as a user says it.

use serde::{Deserialize, Serialize};

use super::fields::FieldPath;
use crate::error::{Error, Result};
use crate::options::{options, words};

/// How a page leads to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NextPage {
    /// A field has a marker, which a parameter of the next request carries.
    Marker,
    /// A field has the URL.
    Url,
    /// The field `Link` of the reply's head has the URL, with `rel="next"` (RFC 8288).
    Link,
    /// A parameter has the number of the page.
    Page,
    /// A parameter has the number of the items before the page.
    Offset,
    /// There is one page.
    None,
}

/// What is stored of pages of JSON.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stored {
    /// What the URLs of the items lead to.
    #[default]
    Objects,
    /// The items themselves.
    Items,
}

words!(NextPage, Stored);

options! {
    /// How pages of JSON are read, and how each leads to the next one: part of what makes two runs the same job.
    #[derive(PartialEq, Eq)]
    pub struct JsonPageOptions {
        /// Field of the items; dots lead into objects, and one alone is the page itself.
        items_field: String = ".".into();
        /// Field of an item with the URL; none: items are strings.
        url_field: Option<String> = None;
        /// Field of an item with the object's name; none: it is called by its URL.
        name_field: Option<String> = None;
        /// Field of an item with the object's size.
        size_field: Option<String> = None;
        /// Field of an item that says when the object was written last.
        modified_field: Option<String> = None;
        /// How the next page is found.
        next_page: Option<NextPage> = None;
        /// Field of a page with the marker or the URL of the next one.
        next_field: Option<String> = None;
        /// Query parameter of the page's number.
        page_param: String = "page".into();
        /// Query parameter of the number of items before a page.
        offset_param: String = "offset".into();
    }
}

impl JsonPageOptions {
    /// How the next page is found, as it must be said.
    pub fn check(&self) -> Result<NextPage> {
        let refuse = |message: &str| Err(Error::Usage(message.to_owned()));
        let Some(next_page) = self.next_page else {
            return refuse(
                "--listing json needs --next-page: marker or url (in the field --next-field), link (the Link field of the \
                 head), page or offset (a parameter that counts), or none",
            );
        };
        let has_field = matches!(next_page, NextPage::Marker | NextPage::Url);
        if has_field && self.next_field.is_none() {
            return refuse("--next-page marker and url need --next-field: the field of a page that has it");
        }
        if !has_field && self.next_field.is_some() {
            return refuse("--next-field is for --next-page marker and url");
        }
        if has_field && FieldPath::new("--items-field", &self.items_field)?.is_empty() {
            return refuse("--next-field needs --items-field: a page that is an array has no fields");
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

    /// For the identity of a job.
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
