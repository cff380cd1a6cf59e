//! The identity of a job. Runs with the same identity belong to the same job.

use super::job_plan::JobPlan;
use crate::request::name_scheme::NameScheme;
use crate::request::source_options::{Listing, SourceOptions};
use crate::request::storing_options::HashAlgorithm;
use fetchmill_model::row::RowKind;
use fetchmill_model::source::ApiNames;
use fetchmill_model::source::list::ListOptions;
use fetchmill_model::target::extra_columns::{
    ALL_ROWS, COLUMNS_PART, ENCODINGS_IN_COLUMN, ENCODINGS_PART, ITEM_ROWS, ROWS_PART, TYPES_PART,
};
use fetchmill_store::journal::{
    ALL_REPLIES, CDXJ, CHECK, COMPRESSED, DESTINATION, HASH, IMAGES, INDEX_PART, Identity, KEYS, LIST, NAMES,
    OPT_OUT, REPLIES_PART, REQUEST_PART, ROBOTS, SIDECAR, STRIP_PREFIX, TRANSFORM, transform_text,
};
use fetchmill_store::sink::HashColumn;

impl JobPlan {
    /// Returns the part of the identity that depends on the type of a server's listing.
    fn listing_identity(&self) -> String {
        if let Some(listing) = self.listing.of_folders() {
            return listing.to_owned();
        }
        if self.listing == Listing::Json {
            let items = if self.request.stores_items() { " store=items" } else { "" };
            return format!("list json {}{items}", self.request.json.text(&self.request.api.marker_param));
        }
        let ApiNames { list_path, names_field, marker_field, marker_param, get_path, .. } = &self.request.api;
        format!("api {list_path} {names_field} {marker_field} {marker_param} {get_path}")
    }

    /// Returns the identity of the job.
    pub(crate) fn identity(&self) -> Identity {
        let request = &self.request;
        let (listing, names) = match &request.source {
            SourceOptions::Server(_) => (self.listing_identity(), None),
            SourceOptions::S3 { .. } => (KEYS.to_owned(), None),
            SourceOptions::List(_) | SourceOptions::Iterable => (
                format!("list {}", request.list.text()),
                (request.names != NameScheme::Source).then(|| request.names.text().to_owned()),
            ),
        };
        let format = match request.rows.as_ref().map(|rows| rows.kind) {
            Some(RowKind::Answers) => CHECK,
            Some(RowKind::Targets) => LIST,
            None => request.format.name(),
        };
        let parts = [("source", request.source.text()), ("listing", listing), ("format", format.to_owned())];
        let kept = if request.rows.is_some() { self.columns.clone() } else { self.stored_columns() };
        let columns = kept.to_text();
        let columns = columns.map(|columns| (COLUMNS_PART, columns));
        let types = kept.types_to_text().map(|types| (TYPES_PART, types));
        let encodings = kept.has_encodings().then(|| (ENCODINGS_PART, ENCODINGS_IN_COLUMN.to_owned()));
        let sidecar = (!request.sidecar.is_empty()).then(|| request.sidecar.join(" "));
        let ListOptions { include, exclude, .. } = &request.list;
        let is_filtered = !include.is_empty() || !exclude.is_empty();
        let filters = (is_filtered && request.lists_itself())
            .then(|| ("filters", format!("include {include:?} exclude {exclude:?}")));
        let transform = request.transform.as_ref();
        let (endpoint, bounds) = match &request.source {
            SourceOptions::S3 { .. } => (self.s3.endpoint_url.as_ref(), request.bounds.text()),
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
                .chain(request.strip_prefix.clone().map(|prefix| (STRIP_PREFIX, prefix)))
                .chain(columns)
                .chain(types)
                .chain(encodings)
                .chain(request.upload.as_ref().map(|upload| (DESTINATION, upload.text())))
                .chain(request.rows.as_ref().map(|rows| ("results", rows.text())))
                .chain(request.list.request.identity().map(|request| (REQUEST_PART, request)))
                .chain(request.keeps_all_rows().then(|| (ROWS_PART, ALL_ROWS.to_owned())))
                .chain(request.stores_items().then(|| (ROWS_PART, ITEM_ROWS.to_owned())))
                .chain(self.is_indexed.then(|| (INDEX_PART, CDXJ.to_owned())))
                .chain(request.keeps_replies().then(|| (REPLIES_PART, ALL_REPLIES.to_owned())))
                .chain(request.http.compressed.then(|| (COMPRESSED, true.to_string())))
                .chain(request.http.opt_out.then(|| (OPT_OUT, true.to_string())))
                .chain(request.obeys_robots_of_hosts().then(|| (ROBOTS, true.to_string())))
                .chain(request.hash.map(|HashAlgorithm::Sha256| (HASH, HashColumn::NAME.to_owned())))
                .chain(transform.map(|_| (TRANSFORM, transform_text(&request.transform_columns))))
                .chain(
                    transform.and_then(|transform| transform.images.clone()).map(|images| (IMAGES, images)),
                ),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::access::s3::S3Settings;
    use crate::plan::descriptors::MachineShare;
    use crate::request::job_request::JobRequest;
    use fetchmill_model::target::extra_columns::ExtraColumns;
    use fetchmill_store::journal::{JobLocation, JobRules};
    use fetchmill_store::sink::Format;

    #[test]
    fn other_columns_or_rules_are_another_job() {
        let folder = tempfile::tempdir().unwrap();
        let request = JobRequest::new(SourceOptions::Iterable, folder.path().join("out"));
        let request = JobRequest { format: Format::Parquet, ..request };
        let plan = JobPlan {
            place: Arc::new(JobLocation::prepare(&request.dest, None).unwrap()),
            rules: JobRules::CURRENT,
            s3: S3Settings::of_process(&request.s3).unwrap(),
            columns: ExtraColumns::of_list(["rank".to_owned()]).unwrap(),
            listing: request.listing,
            is_indexed: false,
            removed: None,
            machine: MachineShare::asked(&request),
            request,
        };
        assert_eq!(plan.identity(), plan.clone().identity());
        assert_ne!(JobPlan { columns: ExtraColumns::default(), ..plan.clone() }.identity(), plan.identity());
        assert_ne!(JobPlan { is_indexed: true, ..plan.clone() }.identity(), plan.identity());
        assert_ne!(JobPlan { rules: JobRules::FIRST, ..plan.clone() }.identity(), plan.identity());
    }
}
