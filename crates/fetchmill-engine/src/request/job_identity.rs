//! What makes two runs the same job.

use super::options::{HashAlgorithm, JobOptions, Listing, NameScheme, SourceOptions};
use fetchmill_model::extra_columns::{
    ALL_ROWS, COLUMNS_PART, ENCODINGS_IN_COLUMN, ENCODINGS_PART, ROWS_PART, TYPES_PART,
};
use fetchmill_model::row::RowKind;
use fetchmill_model::source::ApiNames;
use fetchmill_model::source::list::ListOptions;
use fetchmill_store::journal::{
    ALL_REPLIES, CDXJ, CHECK, COMPRESSED, DESTINATION, HASH, INDEX_PART, Identity, KEYS, LIST, NAMES,
    REPLIES_PART, SIDECAR, STRIP_PREFIX, TRANSFORM, transform_text,
};
use fetchmill_store::reader::REQUEST_PART;
use fetchmill_store::sink::HashColumn;

impl JobOptions {
    /// How a server lists, as it identifies a job.
    fn listing_identity(&self) -> String {
        if let Some(listing) = self.listing.of_folders() {
            return listing.to_owned();
        }
        if self.listing == Listing::Json {
            return format!("list json {}", self.json.text(&self.api.marker_param));
        }
        let ApiNames { list_path, names_field, marker_field, marker_param, get_path, .. } = &self.api;
        format!("api {list_path} {names_field} {marker_field} {marker_param} {get_path}")
    }

    /// What makes another run the same job.
    pub fn identity(&self) -> Identity {
        let (listing, names) = match &self.source {
            SourceOptions::Server(_) => (self.listing_identity(), None),
            SourceOptions::S3 { .. } => (KEYS.to_owned(), None),
            SourceOptions::List(_) | SourceOptions::Iterable => (
                format!("list {}", self.list.text()),
                (self.names != NameScheme::Source).then(|| self.names.text().to_owned()),
            ),
        };
        let format = match self.rows.as_ref().map(|rows| rows.kind) {
            Some(RowKind::Answers) => CHECK,
            Some(RowKind::Targets) => LIST,
            None => self.format.name(),
        };
        let parts = [("source", self.source.text()), ("listing", listing), ("format", format.to_owned())];
        let kept = if self.rows.is_some() { self.columns.clone() } else { self.stored_columns() };
        let columns = kept.to_text();
        let columns = columns.map(|columns| (COLUMNS_PART, columns));
        let types = kept.types_to_text().map(|types| (TYPES_PART, types));
        let encodings = kept.has_encodings().then(|| (ENCODINGS_PART, ENCODINGS_IN_COLUMN.to_owned()));
        let sidecar = (!self.sidecar.is_empty()).then(|| self.sidecar.join(" "));
        let ListOptions { include, exclude, .. } = &self.list;
        let is_filtered = !include.is_empty() || !exclude.is_empty();
        let filters = (is_filtered && self.lists_itself())
            .then(|| ("filters", format!("include {include:?} exclude {exclude:?}")));
        let (endpoint, bounds) = match &self.source {
            SourceOptions::S3 { .. } => (self.s3.endpoint_url.as_ref(), self.bounds.text()),
            _ => (None, None),
        };
        Identity::new(
            parts
                .into_iter()
                .chain(filters)
                .chain(endpoint.map(|url| ("endpoint", url.text())))
                .chain(bounds.map(|bounds| ("bounds", bounds)))
                .chain(names.map(|names| (NAMES, names)))
                .chain(sidecar.map(|sidecar| (SIDECAR, sidecar)))
                .chain(self.strip_prefix.clone().map(|prefix| (STRIP_PREFIX, prefix)))
                .chain(columns)
                .chain(types)
                .chain(encodings)
                .chain(self.upload.as_ref().map(|upload| (DESTINATION, upload.text())))
                .chain(self.rows.as_ref().map(|rows| ("results", rows.text())))
                .chain(self.list.request.identity().map(|request| (REQUEST_PART, request)))
                .chain(self.all_rows.then(|| (ROWS_PART, ALL_ROWS.to_owned())))
                .chain(self.cdxj.then(|| (INDEX_PART, CDXJ.to_owned())))
                .chain(self.warc_all.then(|| (REPLIES_PART, ALL_REPLIES.to_owned())))
                .chain(self.compressed.then(|| (COMPRESSED, true.to_string())))
                .chain(self.hash.map(|HashAlgorithm::Sha256| (HASH, HashColumn::NAME.to_owned())))
                .chain(self.transform.as_ref().map(|_| (TRANSFORM, transform_text(&self.transform_columns)))),
        )
    }
}
