//! The input of an export: the objects of a job, or of all ranges of a shared job, in a fixed order.

use std::fmt::Debug;
use std::ops::{ControlFlow, Deref};
use std::path::{Path, PathBuf};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::object::Object;
use fetchmill_model::target::Sequence;
use fetchmill_store::journal::{
    DESTINATION, JobLocation, JournalSnapshot, must_be_here, must_have_objects, read_doubtful,
};
use fetchmill_store::reader::{are_of_list, are_stripped, for_each_object, request_of};
use fetchmill_store::sink::Format;

/// Number of doubtful objects to copy at a time.
const DOUBTFUL_AT_ONCE: usize = 1000;

/// A destination to export.
#[derive(Debug, Clone)]
pub struct ExportSource {
    /// Destination of the job, or the name of a range if [`RangeCopies`] copies it.
    pub dest: PathBuf,
    /// Journal folder of the job, if it is separate.
    pub state: Option<PathBuf>,
}

/// Copies ranges of a shared job from a bucket to this machine. An export needs one copy at a time.
pub trait RangeCopies: Debug + Send {
    /// Returns a folder that contains a range's journal, and its objects if they are needed. The folder exists until
    /// the next call. Returns `None` if the copies were stopped.
    fn copy(&self, range: &Path, with_objects: bool) -> Result<Option<PathBuf>>;
}

/// An open destination. Its snapshot takes a few kilobytes.
struct OpenedSource {
    place: SourcePlace,
    snapshot: JournalSnapshot,
    has_doubtful: bool,
}

/// Location of a destination.
enum SourcePlace {
    /// A folder that does not change during the lifetime of this value.
    Folder(JobLocation),
    /// Name of a range that is copied when it is needed.
    Range(PathBuf),
}

/// Destinations of an export, in order.
pub(super) struct Sources {
    opened: Vec<OpenedSource>,
    copies: Option<Box<dyn RangeCopies>>,
}

impl Sources {
    /// Opens the destinations. Fails if one of them cannot be exported in this format, or if the copies were stopped.
    pub(super) fn open(
        sources: &[ExportSource],
        copies: Option<Box<dyn RangeCopies>>,
        format: Format,
    ) -> Result<Self> {
        let mut all = Sources { opened: Vec::with_capacity(sources.len()), copies };
        for source in sources {
            let place = match all.copies {
                None => SourcePlace::Folder(JobLocation::look(&source.dest, source.state.as_deref())?),
                Some(_) => SourcePlace::Range(source.dest.clone()),
            };
            let located = all.location(&place, false)?.ok_or_else(stopped)?;
            let snapshot = JournalSnapshot::read(&located)?;
            refuse_unfit(&located, &snapshot, format)?;
            let has_doubtful = !read_doubtful(&located, 0, 1)?.is_empty();
            drop(located);
            all.opened.push(OpenedSource { place, snapshot, has_doubtful });
        }
        if all.opened.is_empty() {
            return Err(Error::Usage("nothing to export: the job has no final range yet".into()));
        }
        all.must_be_of_one_job()?;
        Ok(all)
    }

    /// Returns the location of a destination, or `None` if the copies were stopped.
    fn location<'p>(&self, place: &'p SourcePlace, with_objects: bool) -> Result<Option<Located<'p>>> {
        match (place, &self.copies) {
            (SourcePlace::Folder(place), _) => Ok(Some(Located::Folder(place))),
            (SourcePlace::Range(range), Some(copies)) => {
                let folder = copies.copy(range, with_objects)?;
                folder.map(|folder| JobLocation::look(&folder, None).map(Located::Copy)).transpose()
            }
            (SourcePlace::Range(_), None) => Ok(None),
        }
    }

    /// Returns the snapshot that describes how objects were requested and stored. It is the same for all ranges of a
    /// job.
    pub(super) fn description(&self) -> &JournalSnapshot {
        &self.opened[0].snapshot
    }

    /// Returns the number of objects.
    pub(super) fn objects(&self) -> u64 {
        self.opened.iter().map(|source| source.snapshot.tally.fetched).sum()
    }

    /// Returns a digest over the shards and counts of all destinations.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        for OpenedSource { snapshot, .. } in &self.opened {
            let contents = format!("{:?}{:?}{:?}", snapshot.shards, snapshot.manifests, snapshot.tally);
            hasher.update(contents.as_bytes());
        }
        hasher.digest()
    }

    /// Calls `each` with every object from the given number on, in order. Ends early if the copies are stopped.
    pub(super) fn for_each(
        &self,
        from: Sequence,
        each: &mut dyn FnMut(Sequence, &Object<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut first = 0;
        let mut is_over = false;
        for OpenedSource { place, snapshot, .. } in &self.opened {
            let end = first + snapshot.tally.fetched;
            if end > from {
                let Some(place) = self.location(place, true)? else { break };
                for_each_object(&place, snapshot, from.saturating_sub(first), &mut |number, object| {
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

    /// Calls `take` with groups of doubtful objects. Their numbers are unique across all destinations.
    pub(super) fn doubtful(
        &self,
        take: &mut dyn FnMut(Vec<(Sequence, Vec<u8>)>) -> Result<()>,
    ) -> Result<()> {
        let mut first = 0;
        for OpenedSource { place, snapshot, has_doubtful } in &self.opened {
            if *has_doubtful {
                let place = self.location(place, false)?.ok_or_else(stopped)?;
                each_doubtful(&place, first, take)?;
            }
            first += snapshot.tally.listed;
        }
        Ok(())
    }

    /// Fails if the destinations were created with different options.
    fn must_be_of_one_job(&self) -> Result<()> {
        let parts = |source: &OpenedSource| {
            let mut parts = source.snapshot.identity.clone();
            // Each range has its own pipe as the source, and its own destination in a bucket.
            parts.remove("source");
            parts.remove(DESTINATION);
            parts
        };
        let first = parts(&self.opened[0]);
        match self.opened.iter().find(|source| parts(source) != first) {
            None => Ok(()),
            Some(other) => Err(Error::Journal(format!(
                "{} and {} belong to different jobs; check both with `fetchmill verify`",
                other.place.text(),
                self.opened[0].place.text()
            ))),
        }
    }
}

impl SourcePlace {
    fn text(&self) -> std::path::Display<'_> {
        match self {
            SourcePlace::Folder(place) => place.dest.display(),
            SourcePlace::Range(range) => range.display(),
        }
    }
}

/// Destination on this machine.
enum Located<'p> {
    Folder(&'p JobLocation),
    Copy(JobLocation),
}

impl Deref for Located<'_> {
    type Target = JobLocation;

    fn deref(&self) -> &JobLocation {
        match self {
            Located::Folder(place) => place,
            Located::Copy(place) => place,
        }
    }
}

fn stopped() -> Error {
    Error::Temporary("the export was stopped before it began; run the same command again".into())
}

/// Calls `take` with groups of a destination's doubtful objects. `first` is added to their numbers.
fn each_doubtful(
    place: &JobLocation,
    first: Sequence,
    take: &mut dyn FnMut(Vec<(Sequence, Vec<u8>)>) -> Result<()>,
) -> Result<()> {
    let mut from = 0;
    loop {
        let mut found = read_doubtful(place, from, DOUBTFUL_AT_ONCE)?;
        let Some((last, _)) = found.last() else { return Ok(()) };
        from = last + 1;
        for (number, _) in &mut found {
            *number += first;
        }
        take(found)?;
    }
}

/// Fails if the objects of a destination cannot be stored in this format.
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
            "--format warc stores objects under their URLs, but a leading path was removed from the names \
             in {dest}; choose another format"
        )));
    }
    if !snapshot.open_shards.is_empty() {
        return Err(Error::Usage(format!(
            "the job in {dest} was killed; run the same `fetchmill get` again, then export"
        )));
    }
    Ok(())
}
