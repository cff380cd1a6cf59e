//! Additional columns of objects, and the sources of their values.

use std::collections::BTreeMap;

use super::job_plan::JobPlan;
use crate::request::job_request::JobRequest;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::target::entry::Naming;
use fetchmill_model::target::extra_columns::{ColumnType, ExtraColumns, TypesByName, column_types};
use fetchmill_store::journal::{JobLocation, JobRules, has_text_columns, item_columns};
use fetchmill_store::pack::{SampleKeys, Sidecars};
use fetchmill_store::sink::{Format, HashColumn};

/// Names and types of the columns that are kept from a list.
pub(crate) type ListColumns = Vec<(String, ColumnType)>;

/// Returns the requested columns: the columns of the list, the transform, the hash and the outcomes. `of_list` contains
/// the kept columns of an opened list. For JSON pages, only the URL is kept.
pub(super) fn asked(request: &JobRequest, of_list: Option<ListColumns>) -> Result<ExtraColumns> {
    if request.stores_items() {
        // The columns of a table are detected from the first page, or read from the journal.
        return Ok(ExtraColumns::of_items([]));
    }
    let has_url = request.pass.is_none_or(|pass| pass.has_url);
    let kept = of_list.or_else(|| request.leads_anywhere().then(Vec::new)).filter(|_| has_url);
    let columns = match &kept {
        Some(kept) => ExtraColumns::of_list(kept.iter().map(|(name, _)| name.clone()))?,
        None => ExtraColumns::default(),
    };
    let columns = match request.transform {
        Some(_) => columns.with_transformed(&request.transform_columns)?,
        None => columns,
    };
    let mut types: TypesByName = kept.into_iter().flatten().collect();
    types.extend(given_types(request, &columns)?);
    let columns = columns.with_types(&types);
    let columns = if request.hash.is_some() { columns.with_hash(HashColumn::NAME)? } else { columns };
    if request.keeps_all_rows() { columns.with_outcomes() } else { Ok(columns) }
}

/// Returns the types in `--column-types`. Fails if a column does not exist.
fn given_types(request: &JobRequest, columns: &ExtraColumns) -> Result<TypesByName> {
    let given = column_types(&request.list.column_types)?;
    match given.keys().find(|name| !columns.kept().contains(name)) {
        Some(name) => Err(Error::Usage(format!(
            "--column-types: column {name} is not kept; add it to --keep-columns or --transform-columns"
        ))),
        None => Ok(given),
    }
}

/// Fails if the format cannot store a column, or if the results already have a column of that name.
pub(super) fn check(request: &JobRequest, columns: &ExtraColumns) -> Result<()> {
    Sidecars::parse(&request.sidecar, columns, request.naming(request.listing) == Naming::Url)?;
    if !columns.kept().is_empty() && !request.keeps_columns() {
        return Err(Error::Usage(
            "--keep-columns needs --format parquet or jsonl, or tar with --sidecar".into(),
        ));
    }
    let Some(rows) = &request.rows else { return Ok(()) };
    let is_own = |name: &&String| rows.kind.columns().iter().any(|(own, _)| own == name);
    match columns.kept().iter().find(is_own) {
        Some(name) => Err(Error::Usage(format!(
            "--keep-columns: results already have a column {name:?}; rename your column, or leave it out"
        ))),
        None => Ok(()),
    }
}

/// Returns the columns with the types that the job uses. A job that was started when all values were stored as text
/// keeps text.
pub(super) fn of_job(request: &JobRequest, asked: ExtraColumns, place: &JobLocation) -> Result<ExtraColumns> {
    if request.stores_items() {
        return of_items(request, item_columns(place)?.unwrap_or(asked));
    }
    let has_found_types = asked.types_to_text().is_some() && request.list.column_types.is_empty();
    if has_found_types && has_text_columns(place)? {
        return Ok(asked.with_types(&TypesByName::new()));
    }
    Ok(asked)
}

/// Returns the columns of a job for items. Their types are fixed when the job starts.
fn of_items(request: &JobRequest, columns: ExtraColumns) -> Result<ExtraColumns> {
    let given = column_types(&request.list.column_types)?;
    let is_other = |(name, kind): &(&String, &ColumnType)| {
        !columns.typed().any(|(known, of_job)| known == *name && of_job == **kind)
    };
    match given.iter().find(is_other).filter(|_| !columns.kept().is_empty()) {
        Some((name, kind)) => Err(Error::Usage(format!(
            "--column-types: the job was started without {name}={}; use the original types, or choose \
             another destination",
            kind.name()
        ))),
        None => Ok(columns),
    }
}

impl JobPlan {
    /// Returns whether the columns of items must be detected from the first page.
    pub(crate) fn needs_item_columns(&self) -> bool {
        self.columns.has_items() && self.request.format == Format::Parquet && self.columns.kept().is_empty()
    }

    /// Returns the columns that can be read from stored objects.
    pub(crate) fn stored_columns(&self) -> ExtraColumns {
        let JobRequest { format, sidecar, .. } = &self.request;
        let has_all = *format == Format::Tar && sidecar.iter().any(|text| text == Sidecars::JSON);
        let columns = if has_all { self.columns.clone() } else { format.columns(&self.columns) };
        let has_encodings = *format == Format::Parquet && !columns.has_items();
        columns.with_encodings(has_encodings && self.rules.have_encodings())
    }

    /// Returns the files that are stored with each object.
    pub(super) fn sidecars(&self) -> Result<Sidecars> {
        let keys = if self.rules == JobRules::FIRST { SampleKeys::FirstDot } else { SampleKeys::OwnKey };
        let sidecars = Sidecars::parse(&self.request.sidecar, &self.columns, self.naming() == Naming::Url)?;
        Ok(sidecars.with_keys(keys))
    }

    /// Returns the types of these columns.
    pub(crate) fn types_of(&self, names: &[String]) -> Vec<ColumnType> {
        let types: BTreeMap<_, _> = self.columns.typed().collect();
        names.iter().map(|name| types.get(name.as_str()).copied().unwrap_or_default()).collect()
    }

    /// Returns the columns of a list with the types that the job uses.
    pub(crate) fn columns_of_list(&self, of_list: &ListColumns) -> ListColumns {
        let of_job = self.columns.typed().take(of_list.len());
        of_job.map(|(name, kind)| (name.to_owned(), kind)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::source_options::SourceOptions;

    fn request(format: Format) -> JobRequest {
        JobRequest { format, ..JobRequest::new(SourceOptions::Iterable, "out".into()) }
    }

    fn columns(request: &JobRequest) -> Result<ExtraColumns> {
        asked(request, Some(vec![("rank".to_owned(), ColumnType::default())]))
    }

    #[test]
    fn kept_columns_are_refused_without_a_place_for_them() {
        for format in Format::ALL {
            let request = request(format);
            let refused = check(&request, &columns(&request).unwrap()).err().map(|error| error.to_string());
            let message = "--keep-columns needs --format parquet or jsonl, or tar with --sidecar";
            let is_refused = matches!(format, Format::Files | Format::Tar | Format::Warc);
            assert_eq!(refused.as_deref(), is_refused.then_some(message), "{format:?}");
        }
    }

    #[test]
    fn a_type_of_a_column_that_is_not_kept_is_refused() {
        let mut request = request(Format::Parquet);
        request.list.column_types = vec!["rank=int64".to_owned()];
        assert!(columns(&request).is_ok());
        request.list.column_types = vec!["size=int64".to_owned()];

        let refused = columns(&request).unwrap_err().to_string();

        assert!(refused.starts_with("--column-types: column size is not kept"), "{refused}");
    }
}
