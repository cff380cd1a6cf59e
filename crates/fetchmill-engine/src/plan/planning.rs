//! Plans a job in steps. Each step takes its inputs and returns its results, so that the compiler enforces the order.

use std::sync::Arc;

use super::columns::{self, ListColumns};
use super::descriptors::MachineShare;
use super::indexing::is_indexed;
use super::job_plan::JobPlan;
use super::known_listing::known_listing;
use super::server_requests::fields;
use crate::access::s3::S3Settings;
use crate::list_input::OpenedList;
use crate::request::job_request::JobRequest;
use crate::request::source_options::{Listing, SourceOptions};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::source::list::{Items, ListOptions};
use fetchmill_net::{TlsRoots, TlsSetup};
use fetchmill_store::journal::{JobLocation, JobRules};
use fetchmill_store::restart;
use fetchmill_store::results::refuse_foreign;

/// Plans a job. Nothing is created before [`prepare_place`], so that a rejected request leaves no files. `given` is a
/// list from a program. If the source is a list, also returns the opened list.
pub(crate) fn plan_job(
    request: JobRequest,
    given: Option<Box<dyn Items>>,
) -> Result<(JobPlan, Option<OpenedList>)> {
    let rules = rules_so_far(&request)?;
    let s3 = store_settings(&request)?;
    check_authorities(&request, &s3)?;
    let list = open_list(&request, rules, given)?;
    let asked = columns::asked(&request, list.as_ref().map(OpenedList::columns))?;
    // Check the request after opening the list, because errors about the list contain its name.
    request.check()?;
    columns::check(&request, &asked)?;
    let fields = fields(&request, &s3)?;
    // Report mistakes in the client certificate and cookies before anything is created.
    TlsSetup::new(request.http.tls(&s3, fields.origin())).client()?;
    request.http.cookie_file()?;
    let machine = MachineShare::fit(&request)?;
    if request.restart {
        refuse_own_list(&request)?;
        // A second reader of standard input would consume the start of the job's input, even if it is a file.
        let has_path = matches!(&request.source, SourceOptions::List(Some(_)));
        if has_path && list.as_ref().is_some_and(OpenedList::is_stored) {
            // The files of the earlier job must not be removed if the list cannot be used.
            open_list(&request, rules, None)?.map_or(Ok(()), OpenedList::try_out)?;
        }
        JobLocation::refuse_state_of_other(&request.dest, request.state.as_deref())?;
    }
    let place = prepare_place(&request)?;
    let removed = restart::remove_job(&place, request.restart, request.command.as_deref())?;
    let listing = known_listing(&request, &place)?;
    let columns = columns::of_job(&request, asked, &place)?;
    let is_indexed = is_indexed(&request, &place)?;
    let plan = JobPlan {
        request,
        place: Arc::new(place),
        rules,
        s3,
        columns,
        listing,
        is_indexed,
        removed,
        machine,
    };
    Ok((plan, list))
}

/// Facts that a worker process receives from its job.
pub(crate) struct WorkerFacts {
    /// Columns of the list, if the source is a list.
    pub(crate) columns: Option<ListColumns>,
    /// Region that the store reported for its bucket, if any.
    pub(crate) region: Option<String>,
    /// Listing type that was detected.
    pub(crate) listing: Listing,
}

/// Plans the part of a job that a worker process runs. The job's process has already checked the request.
pub(crate) fn plan_worker(request: JobRequest, of_job: WorkerFacts) -> Result<JobPlan> {
    let s3 = store_settings(&request)?.in_region(of_job.region);
    let columns = columns::asked(&request, of_job.columns)?;
    let place = JobLocation::find(&request.dest, request.state.as_deref())?;
    let rules = JobRules::of(&place)?;
    let machine = MachineShare::asked(&request);
    let (listing, place) = (of_job.listing, Arc::new(place));
    // Worker processes never write WARC.
    Ok(JobPlan { request, place, rules, s3, columns, listing, is_indexed: false, removed: None, machine })
}

/// Returns the rules under which the job was started, or the current rules for a new job.
fn rules_so_far(request: &JobRequest) -> Result<JobRules> {
    if request.restart {
        return Ok(JobRules::CURRENT);
    }
    match JobLocation::find(&request.dest, request.state.as_deref()) {
        Ok(place) => JobRules::of(&place),
        // Either there is no job yet, or a later step rejects the destination with advice.
        Err(Error::Usage(_)) => Ok(JobRules::CURRENT),
        Err(error) => Err(error),
    }
}

/// Returns the S3 settings, which include the environment and the profile.
fn store_settings(request: &JobRequest) -> Result<S3Settings> {
    let s3 = S3Settings::of_process(&request.s3)?;
    // A job whose server lists its objects uses no store, unless its shards are uploaded to one.
    let has_store = !matches!(request.source, SourceOptions::Server(_)) || request.upload.is_some();
    Ok(if has_store { s3 } else { s3.without_ca_bundle() })
}

/// Reads the trusted authorities, so that mistakes are reported before anything is created.
fn check_authorities(request: &JobRequest, s3: &S3Settings) -> Result<()> {
    if request.http.ca_file.is_some() || s3.ca_bundle.is_some() {
        TlsRoots::load(&request.http.tls(s3, None))?;
    }
    Ok(())
}

/// Opens the list, if the source is one. The rules of the job determine how it is read.
fn open_list(
    request: &JobRequest,
    rules: JobRules,
    given: Option<Box<dyn Items>>,
) -> Result<Option<OpenedList>> {
    let has_first_rules = rules == JobRules::FIRST;
    let keeps_duplicates = rules.keep_duplicates();
    let options = ListOptions { has_first_rules, keeps_duplicates, ..request.list.clone() };
    OpenedList::open(&request.source, request.list_format, &options, given)
}

/// Creates the destination and the state folder, and locks the job.
fn prepare_place(request: &JobRequest) -> Result<JobLocation> {
    let state = request.state.as_deref();
    if let Some(upload) = &request.upload {
        return JobLocation::prepare_bucket(upload, state);
    }
    let Some(rows) = &request.rows else { return JobLocation::prepare(&request.dest, state) };
    if let Some(results) = &rows.results {
        refuse_foreign(results, JobLocation::has_journal(results, state))?;
    }
    JobLocation::prepare_file(&request.dest, state)
}

/// Refuses to start over if the list is in the destination, because the list could be a file of the job that would be
/// removed.
fn refuse_own_list(request: &JobRequest) -> Result<()> {
    let SourceOptions::List(Some(list)) = &request.source else { return Ok(()) };
    let absolute = std::path::absolute(list).map_err(|error| Error::storage("find", list, error))?;
    // A glob is not a path, but the folder before it is.
    let real = absolute.ancestors().find_map(|path| path.canonicalize().ok());
    match request.dest.canonicalize() {
        Ok(dest) if real.is_some_and(|real| real.starts_with(&dest)) => Err(Error::Usage(format!(
            "--restart would remove {}, because it is in {}; copy the list to another folder first",
            list.display(),
            request.dest.display()
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetchmill_store::sink::Format;

    fn list_with_rank(folder: &std::path::Path, format: Format) -> JobRequest {
        let list = folder.join("urls.csv");
        std::fs::write(&list, "url,rank\nhttp://127.0.0.1/a,1\n").unwrap();
        let mut request = JobRequest::new(SourceOptions::List(Some(list)), folder.join("out"));
        request.format = format;
        request.list.keep_columns = vec!["rank".to_owned()];
        request
    }

    #[test]
    fn a_refused_request_leaves_no_destination() {
        let folder = tempfile::tempdir().unwrap();

        let refused = plan_job(list_with_rank(folder.path(), Format::Files), None).err();

        assert!(refused.unwrap().to_string().starts_with("--keep-columns needs --format parquet"));
        assert!(!folder.path().join("out").exists());
    }

    #[test]
    fn a_plan_has_the_columns_of_its_list_and_the_request_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let request = list_with_rank(folder.path(), Format::Parquet);

        let (plan, list) = plan_job(request.clone(), None).unwrap();

        assert_eq!(plan.columns.kept(), ["rank"]);
        assert_eq!(plan.rules, JobRules::CURRENT);
        assert_eq!(plan.columns_of_list(&list.unwrap().columns()).len(), 1);
        assert_eq!(format!("{:?}", plan.request), format!("{request:?}"));
        assert!(folder.path().join("out").is_dir());
    }
}
