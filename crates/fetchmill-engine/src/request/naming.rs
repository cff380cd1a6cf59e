//! Names of objects.

use std::borrow::Cow;
use std::sync::Arc;

use super::job_request::JobRequest;
use super::name_scheme::NameScheme;
use super::source_options::{Listing, SourceOptions};
use fetchmill_model::name::url_name;
use fetchmill_model::target::entry::{Naming, behind_scheme};
use fetchmill_model::target::stored_name::StoredNames;
use fetchmill_store::sink::Format;

impl JobRequest {
    /// Returns how the targets of a new job are named. For a server that lists its objects, this depends on the type of
    /// the listing.
    pub fn naming(&self, listing: Listing) -> Naming {
        match (&self.source, self.format) {
            (SourceOptions::Server(_), _) => match listing {
                Listing::Auto | Listing::Api => Naming::Whole,
                Listing::Autoindex | Listing::Html | Listing::Links => Naming::Sized,
                Listing::Json if self.stores_items() => Naming::Item,
                Listing::Sitemap | Listing::Json | Listing::Object if self.format == Format::Files => {
                    Naming::Path
                }
                Listing::Sitemap | Listing::Json | Listing::Object => Naming::Url,
            },
            (SourceOptions::S3 { .. }, _) => Naming::Listed,
            _ if self.names == NameScheme::Seq => Naming::Number,
            _ if self.names_have_extension() => Naming::Extension,
            (_, Format::Files) => Naming::Path,
            _ => Naming::Url,
        }
    }

    /// Returns the rules from which the names of stored objects are derived.
    pub fn stored_names(&self, naming: Naming) -> StoredNames {
        let prefix = self.strip_prefix.as_deref().map(|prefix| {
            let slash = if prefix.ends_with('/') { "" } else { "/" };
            let prefix = format!("{prefix}{slash}").into_bytes();
            // A prefix with a scheme has the same meaning in all formats.
            Arc::from(match naming {
                Naming::Path => url_name::beginning(behind_scheme(&prefix)),
                Naming::EncodedPath => Cow::Borrowed(behind_scheme(&prefix)),
                _ => Cow::Borrowed(prefix.as_slice()),
            })
        });
        StoredNames { has_extension: naming == Naming::Extension, strip_prefix: prefix }
    }
}
