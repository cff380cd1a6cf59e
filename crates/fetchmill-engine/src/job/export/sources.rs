//! The input of an export: the objects of a job, or of all ranges of a shared job, in a fixed order.

use std::ops::ControlFlow;
use std::path::PathBuf;

use fetchmill_model::error::{Error, Result};
use fetchmill_model::object::Object;
use fetchmill_model::target::Sequence;
use fetchmill_store::journal::{
    JobLocation, JournalSnapshot, must_be_here, must_have_objects, read_doubtful,
};
use fetchmill_store::reader::{are_of_list, are_stripped, for_each_object, request_of};
use fetchmill_store::sink::Format;

/// Number of doubtful objects that are copied at a time.
const DOUBTFUL_AT_ONCE: usize = 1000;
/// A destination to export.
#[derive(Debug, Clone)]
pub struct ExportSource {
    /// Destination of the job.
    pub dest: PathBuf,
    /// Journal folder of the job, if it is separate.
    pub state: Option<PathBuf>,
}

/// An opened destination. Its snapshot takes a few kilobytes.
struct OpenedSource {
    place: JobLocation,
    snapshot: JournalSnapshot,
}

/// The destinations of an export in order.
pub(super) struct Sources(Vec<OpenedSource>);

impl Sources {
    /// Opens the destinations. Fails if one cannot be exported in this format.
    pub(super) fn open(sources: &[ExportSource], format: Format) -> Result<Self> {
        let opened: Vec<OpenedSource> = sources
            .iter()
            .map(|source| {
                let place = JobLocation::look(&source.dest, source.state.as_deref())?;
                let snapshot = JournalSnapshot::read(&place)?;
                refuse_unfit(&place, &snapshot, format)?;
                Ok(OpenedSource { place, snapshot })
            })
            .collect::<Result<_>>()?;
        if opened.is_empty() {
            return Err(Error::Usage("nothing to export: the job has no final range yet".into()));
        }
        let sources = Sources(opened);
        sources.must_be_of_one_job()?;
        Ok(sources)
    }

    /// Returns the snapshot that describes how objects were requested and stored. It is the same for all ranges of a
    /// job.
    pub(super) fn description(&self) -> &JournalSnapshot {
        &self.0[0].snapshot
    }

    /// Returns the number of objects.
    pub(super) fn objects(&self) -> u64 {
        self.0.iter().map(|source| source.snapshot.tally.fetched).sum()
    }

    /// Returns a digest over the shards and counts of all destinations.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        for OpenedSource { snapshot, .. } in &self.0 {
            let contents = format!("{:?}{:?}{:?}", snapshot.shards, snapshot.manifests, snapshot.tally);
            hasher.update(contents.as_bytes());
        }
        hasher.digest()
    }

    /// Calls `each` with every object from this number on. Numbers follow the order of the objects.
    pub(super) fn for_each(
        &self,
        from: Sequence,
        each: &mut dyn FnMut(Sequence, &Object<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut first = 0;
        let mut is_over = false;
        for OpenedSource { place, snapshot } in &self.0 {
            let end = first + snapshot.tally.fetched;
            if end > from {
                for_each_object(place, snapshot, from.saturating_sub(first), &mut |number, object| {
                    let flow = each(first + number, object)?;
                    is_over = flow.is_break();
                    Ok(flow)
                })?;
            }
            if is_over {
                break;
            }
            first = end;
        }
        Ok(())
    }

    /// Calls `take` with doubtful objects, in groups. Their numbers are unique across all destinations.
    pub(super) fn doubtful(
        &self,
        take: &mut dyn FnMut(Vec<(Sequence, Vec<u8>)>) -> Result<()>,
    ) -> Result<()> {
        let mut first = 0;
        for OpenedSource { place, snapshot } in &self.0 {
            let mut from = 0;
            loop {
                let mut found = read_doubtful(place, from, DOUBTFUL_AT_ONCE)?;
                let Some((last, _)) = found.last() else { break };
                from = last + 1;
                for (number, _) in &mut found {
                    *number += first;
                }
                take(found)?;
            }
            first += snapshot.tally.listed;
        }
        Ok(())
    }

    /// Fails if the destinations were made with different options.
    fn must_be_of_one_job(&self) -> Result<()> {
        let parts = |source: &OpenedSource| {
            let mut parts = source.snapshot.identity.clone();
            // Each range has a separate pipe as its source.
            parts.remove("source");
            parts
        };
        let first = parts(&self.0[0]);
        match self.0.iter().find(|source| parts(source) != first) {
            None => Ok(()),
            Some(other) => Err(Error::Journal(format!(
                "{} and {} belong to different jobs; check with `fetchmill verify`",
                other.place.dest.display(),
                self.0[0].place.dest.display()
            ))),
        }
    }
}

/// Fails if a destination's objects cannot be stored in this format.
fn refuse_unfit(from: &JobLocation, snapshot: &JournalSnapshot, format: Format) -> Result<()> {
    must_have_objects(&snapshot.identity, &from.dest)?;
    must_be_here(&snapshot.identity, from)?;
    let dest = from.dest.display();
    if snapshot.part("format") == Format::Null.name() {
        return Err(Error::Usage(format!("{dest} holds no objects: its format is null")));
    }
    if format == Format::Warc && request_of(snapshot).is_some() {
        return Err(Error::Usage(format!(
            "--format warc stores whole objects fetched with plain GET requests, but the job in {dest} used \
             other requests; choose another format"
        )));
    }
    if format == Format::Warc && are_stripped(snapshot) && !are_of_list(snapshot) {
        return Err(Error::Usage(format!(
            "--format warc stores objects under their URLs, but the names in {dest} have lost a leading \
             path; choose another format"
        )));
    }
    if !snapshot.open_shards.is_empty() {
        return Err(Error::Usage(format!(
            "the job in {dest} was killed; run the same `fetchmill get` again, then export"
        )));
    }
    Ok(())
}
