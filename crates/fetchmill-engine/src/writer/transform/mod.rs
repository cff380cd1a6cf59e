//! Applies the user's function to replies before they are stored. A separate process runs the function, and its results
//! are stored in place of the replies.
//!
//! Each writer has its own process, so that fetching threads never wait for the function. Replies are sent to the
//! process in batches. If a batch kills the process, a new process gets the same replies one at a time. If a reply also
//! kills the new process, that reply fails with the kind `transform`. If the job is killed, replies without a receipt
//! are fetched and transformed again.

mod frame;
mod process;

use std::borrow::Cow;
use std::sync::Arc;

use self::frame::{ReplyView, TransformAnswer};
use self::process::{NoTransformReply, TransformProcess};
use crate::control::Control;
use crate::plan::job_plan::JobPlan;
use crate::request::storing_options::TransformOptions;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::RequestTemplate;
use fetchmill_model::limits::{BODY_MEMORY_BYTES_MAX, TRANSFORM_BATCH_BYTES, TRANSFORM_STARTS_MAX};
use fetchmill_model::object::Facts;
use fetchmill_model::outcome::skips::SkipReason;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::reply::body_type::image_type;
use fetchmill_model::target::entry::Naming;
use fetchmill_model::target::extra_columns::{ColumnType, extra_values, write_extra};
use fetchmill_model::target::stored_name::with_extension_of;
use fetchmill_store::sink::{
    Block, BlockBody, BlockEntry, EntryDescription, FetchedBody, Stage, StoredParts,
};

/// Settings of a job's transform.
pub(crate) struct TransformSetup {
    pub(crate) worker: usize,
    pub(crate) control: Arc<Control>,
    pub(crate) process: TransformOptions,
    /// Columns that the function can fill.
    pub(crate) columns: Vec<String>,
    /// Types of these columns.
    pub(crate) types: Vec<ColumnType>,
    /// Maximum number of replies per batch.
    pub(crate) batch: usize,
    /// Number of columns that are kept from a list. The columns of the function follow them.
    pub(crate) list_columns: usize,
    /// Maximum size of a result in bytes.
    pub(crate) max_size: u64,
    /// Stage for bodies and results that are too large for memory.
    pub(crate) stage: Arc<Stage>,
    /// Origin and path template of the objects, if the source is a server that lists its own objects.
    pub(crate) server: Option<(String, RequestTemplate)>,
    /// Whether the sink has a URL column.
    pub(crate) stores_url: bool,
    /// Whether the sink stores any part of an object.
    pub(crate) stores_bodies: bool,
    /// Whether names end with a dot and the extension of the stored type (`.{ext}`).
    pub(crate) has_extension: bool,
}

/// Transform of a writer. See the [module documentation](self).
pub(crate) struct Transform {
    setup: TransformSetup,
    process: Option<TransformProcess>,
    request: Vec<u8>,
    /// Body of the most recent answer.
    body: Vec<u8>,
    columns: Vec<u8>,
    made: Block,
}

/// Progress of a transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransformProgress {
    /// All replies were transformed.
    Done,
    /// The job is ending, and does not wait. The next run fetches the remaining replies again.
    Stopped,
}

/// Result of sending a batch.
enum BatchAttempt {
    Over(TransformProgress),
    /// The process died after this many answers. The string describes for the user how it ended.
    Died(usize, String),
}

/// Creates the transform for a worker's writer, if the job has one.
pub(crate) fn of_worker(
    plan: &JobPlan,
    control: &Arc<Control>,
    worker: usize,
    stage: &Arc<Stage>,
) -> Result<Option<Transform>> {
    let request = &plan.request;
    let Some(transform) = &request.transform else { return Ok(None) };
    Ok(Some(Transform::new(TransformSetup {
        worker,
        control: Arc::clone(control),
        process: transform.clone(),
        columns: request.transform_columns.clone(),
        types: plan.types_of(&request.transform_columns),
        batch: request.transform_batch,
        list_columns: plan.columns.kept().len()
            - request.transform_columns.len()
            - usize::from(request.hash.is_some()),
        max_size: request.http.max_size,
        stage: Arc::clone(stage),
        server: plan
            .server()?
            .filter(|_| !plan.naming().has_url())
            .map(|(key, template)| (key.text().to_owned(), template)),
        stores_url: plan.stored_columns().has_url(),
        stores_bodies: request.format.properties().keeps >= StoredParts::Bodies,
        has_extension: plan.naming() == Naming::Extension
            && request.names.template().is_some_and(|template| template.text().ends_with(".{ext}")),
    })))
}

impl Transform {
    pub(crate) fn new(setup: TransformSetup) -> Self {
        Transform {
            setup,
            process: None,
            request: Vec::new(),
            body: Vec::new(),
            columns: Vec::new(),
            made: Block::default(),
        }
    }

    /// Starts the process and waits until the function is loaded. Call this on a thread that outlives the transform,
    /// because the process dies together with the thread that started it.
    pub(crate) fn start(&mut self) -> Result<TransformProgress> {
        let mut last = String::new();
        for _ in 0..TRANSFORM_STARTS_MAX {
            let mut process = TransformProcess::spawn(&self.setup.process.command, &self.setup.control.stop)?;
            match process.prepare(&self.setup.process.setup)? {
                Ok(()) => {
                    self.process = Some(process);
                    return Ok(TransformProgress::Done);
                }
                Err(NoTransformReply::Stopped) => return Ok(TransformProgress::Stopped),
                Err(NoTransformReply::Died) => last = process.how_it_ended(),
            }
        }
        Err(Error::Usage(format!(
            "cannot start the transform: {last} before it was ready ({TRANSFORM_STARTS_MAX} attempts)"
        )))
    }

    /// Transforms a block and passes the results to `store` in one or more parts.
    pub(crate) fn run(
        &mut self,
        block: &Block,
        store: &mut dyn FnMut(&Block) -> Result<()>,
    ) -> Result<TransformProgress> {
        for entry in block.entries().iter().filter(|entry| entry.outcome != Outcome::Fetched) {
            let BlockEntry { sequence, outcome, status, attempts, .. } = *entry;
            self.made.push_other(sequence, outcome, status, attempts, &block.described(entry));
        }
        let fetched: Vec<&BlockEntry> = block.fetched(0).map(|(_, entry)| entry).collect();
        let mut rest = fetched.as_slice();
        while !rest.is_empty() {
            let (batch, behind) = rest.split_at(self.batch_length(rest));
            let progress = self.batch(block, batch, store)?;
            self.pass_on(store)?;
            if progress == TransformProgress::Stopped {
                return Ok(progress);
            }
            rest = behind;
        }
        self.pass_on(store)?;
        Ok(TransformProgress::Done)
    }

    fn pass_on(&mut self, store: &mut dyn FnMut(&Block) -> Result<()>) -> Result<()> {
        if !self.made.is_empty() {
            store(&self.made)?;
            self.made.clear();
        }
        Ok(())
    }

    /// Returns how many of these entries form the next batch.
    fn batch_length(&self, entries: &[&BlockEntry]) -> usize {
        let mut bytes = 0;
        let fitting = entries.iter().take(self.setup.batch).take_while(|entry| {
            let has_room = bytes < TRANSFORM_BATCH_BYTES;
            bytes += entry.body.len();
            has_room
        });
        fitting.count()
    }

    /// Transforms a batch. If the batch kills the process, sends the remaining replies one at a time.
    fn batch(
        &mut self,
        block: &Block,
        batch: &[&BlockEntry],
        store: &mut dyn FnMut(&Block) -> Result<()>,
    ) -> Result<TransformProgress> {
        let (answered, how) = match self.attempt(block, batch, store)? {
            BatchAttempt::Over(progress) => return Ok(progress),
            BatchAttempt::Died(answered, how) => (answered, how),
        };
        if let [only] = batch {
            self.fail(block, only, &how)?;
            return Ok(TransformProgress::Done);
        }
        for entry in &batch[answered..] {
            match self.attempt(block, &[*entry], store)? {
                BatchAttempt::Over(TransformProgress::Stopped) => return Ok(TransformProgress::Stopped),
                BatchAttempt::Died(0, how) => self.fail(block, entry, &how)?,
                // The process might have answered this reply before it died.
                BatchAttempt::Over(TransformProgress::Done) | BatchAttempt::Died(..) => {}
            }
        }
        Ok(TransformProgress::Done)
    }

    fn attempt(
        &mut self,
        block: &Block,
        batch: &[&BlockEntry],
        store: &mut dyn FnMut(&Block) -> Result<()>,
    ) -> Result<BatchAttempt> {
        if self.setup.control.stop.is_drained() {
            return Ok(BatchAttempt::Over(TransformProgress::Stopped));
        }
        // If the process died while idle, no reply caused this.
        self.process.take_if(TransformProcess::has_ended);
        if self.process.is_none() && self.start()? == TransformProgress::Stopped {
            return Ok(BatchAttempt::Over(TransformProgress::Stopped));
        }
        let Some(mut process) = self.process.take() else {
            return Err(Error::Internal("a transform has no process".into()));
        };
        self.write_request(block, batch)?;
        let mut answered = 0;
        Ok(match self.call(&mut process, block, batch, &mut answered, store)? {
            Ok(()) => {
                self.process = Some(process);
                BatchAttempt::Over(TransformProgress::Done)
            }
            Err(NoTransformReply::Stopped) => BatchAttempt::Over(TransformProgress::Stopped),
            Err(NoTransformReply::Died) => BatchAttempt::Died(answered, process.how_it_ended()),
        })
    }

    /// Sends the request and handles each answer as it arrives.
    fn call(
        &mut self,
        process: &mut TransformProcess,
        block: &Block,
        batch: &[&BlockEntry],
        answered: &mut usize,
        store: &mut dyn FnMut(&Block) -> Result<()>,
    ) -> Result<std::result::Result<(), NoTransformReply>> {
        if let Err(silence) = process.send(&self.request, batch.len()) {
            return Ok(Err(silence));
        }
        for entry in batch {
            let answer = match process.answer(&mut self.columns, &mut self.body, self.setup.max_size)? {
                Ok(answer) => answer,
                Err(silence) => return Ok(Err(silence)),
            };
            self.settle(block, entry, answer)?;
            *answered += 1;
            if self.made.is_full() {
                self.pass_on(store)?;
            }
        }
        Ok(Ok(()))
    }

    fn write_request(&mut self, block: &Block, batch: &[&BlockEntry]) -> Result<()> {
        let mut request = frame::TransformRequest::new(&mut self.request);
        for entry in batch {
            let facts = block.facts(entry);
            let path = match entry.body {
                BlockBody::Spilled(_) => Some(self.setup.stage.path_of(entry.sequence)?),
                BlockBody::Inside(_) | BlockBody::Dropped(_) => None,
            };
            request.add(&ReplyView {
                name: block.name(entry),
                url: &self.setup.url(facts.listed.unwrap_or(block.name(entry)), &facts),
                path: path.as_deref(),
                body: block.body(entry),
                facts,
            });
        }
        request.finish()
    }

    /// Stores the result of the function for a reply.
    fn settle(&mut self, block: &Block, entry: &BlockEntry, answer: TransformAnswer) -> Result<()> {
        match answer {
            TransformAnswer::Stored => match self.setup.wrong_value(&self.columns) {
                Some(detail) => self.fail(block, entry, &detail),
                None => self.store(block, entry),
            },
            TransformAnswer::Dropped => {
                let facts = self.listed_facts(block, entry);
                self.leave(
                    entry,
                    Outcome::Skipped(SkipReason::Dropped),
                    &EntryDescription::fetched(block.name(entry), &facts),
                )
            }
            TransformAnswer::Failed => {
                let detail = frame::one_line(&self.body);
                self.fail(block, entry, &detail)
            }
        }
    }

    fn store(&mut self, block: &Block, entry: &BlockEntry) -> Result<()> {
        self.forget_staged(entry)?;
        let length = self.body.len() as u64;
        let body = if !self.setup.stores_bodies {
            FetchedBody::Dropped(length)
        } else if self.body.len() > BODY_MEMORY_BYTES_MAX {
            self.setup.stage.write(entry.sequence, &self.body, None)?;
            FetchedBody::Spilled(length)
        } else {
            FetchedBody::Bytes(&self.body)
        };
        let name = block.name(entry);
        let facts = block.facts(entry);
        let url = self.setup.url(facts.listed.unwrap_or(name), &facts);
        let is_unchanged = self.body == block.body(entry);
        let stored_type = self.setup.process.images.as_ref().and_then(|_| image_type(&self.body));
        let renamed = stored_type
            .filter(|_| self.setup.has_extension)
            .and_then(|stored_type| with_extension_of(name, stored_type));
        let kept = self.setup.kept(facts.kept, &self.columns);
        let facts = Facts {
            url: if self.setup.is_of_server() && self.setup.stores_url { Some(&*url) } else { facts.url },
            kept: kept.as_deref().or(facts.kept),
            // The head describes the original bytes, so WARC stores a resource record instead.
            head: None,
            content_encoding: facts.content_encoding.filter(|_| is_unchanged),
            content_type: stored_type
                .filter(|_| !is_unchanged)
                .map_or(facts.content_type, |stored_type| Some(stored_type.as_bytes())),
            ..facts
        };
        let name = renamed.as_deref().unwrap_or(name);
        self.made.push_fetched(entry.sequence, entry.attempts, name, body, &facts);
        self.count(Outcome::Fetched, length, entry);
        if self.body.capacity() > BODY_MEMORY_BYTES_MAX {
            self.body = Vec::new();
        }
        Ok(())
    }

    fn fail(&mut self, block: &Block, entry: &BlockEntry, detail: &str) -> Result<()> {
        let facts = self.listed_facts(block, entry);
        let target = EntryDescription {
            detail: Some(detail.as_bytes()),
            ..EntryDescription::fetched(block.name(entry), &facts)
        };
        self.leave(entry, Outcome::Failed(FailureKind::Transform), &target)
    }

    /// Returns the listed facts of a reply. For objects on a server that lists them, the name replaces the URL.
    fn listed_facts<'b>(&self, block: &'b Block, entry: &BlockEntry) -> Facts<'b> {
        let facts = block.facts(entry);
        Facts { url: facts.url.filter(|_| !self.setup.is_of_server()), ..facts }
    }

    /// Finishes a reply without storing anything.
    fn leave(&mut self, entry: &BlockEntry, outcome: Outcome, target: &EntryDescription<'_>) -> Result<()> {
        self.forget_staged(entry)?;
        self.made.push_other(entry.sequence, outcome, entry.status, entry.attempts, target);
        self.count(outcome, 0, entry);
        Ok(())
    }

    fn count(&self, outcome: Outcome, bytes: u64, entry: &BlockEntry) {
        self.setup.control.counters[self.setup.worker].transform(outcome, bytes, entry.body.len());
    }

    fn forget_staged(&self, entry: &BlockEntry) -> Result<()> {
        match entry.body {
            BlockBody::Spilled(_) => self.setup.stage.remove(entry.sequence),
            BlockBody::Inside(_) | BlockBody::Dropped(_) => Ok(()),
        }
    }
}

impl TransformSetup {
    fn is_of_server(&self) -> bool {
        self.server.is_some()
    }

    /// Returns the URL of a reply.
    fn url<'u>(&self, name: &'u [u8], facts: &Facts<'u>) -> Cow<'u, [u8]> {
        match (facts.url, &self.server) {
            (Some(url), _) => Cow::Borrowed(url),
            (None, None) => Cow::Borrowed(name),
            (None, Some((origin, template))) => {
                let mut url = origin.clone().into_bytes();
                template.write_target(name, &mut url);
                Cow::Owned(url)
            }
        }
    }

    /// Checks the values of the function against the types of the columns. Returns a description of the first mismatch.
    fn wrong_value(&self, columns: &[u8]) -> Option<String> {
        let told = self.columns.iter().zip(&self.types).zip(frame::values(columns));
        told.filter_map(|((name, kind), value)| Some((name, kind, value?)))
            .find(|(_, kind, value)| kind.read(value).is_none())
            .map(|(name, kind, value)| {
                format!("column {name} is not of type {}: {}", kind.name(), frame::one_line(value))
            })
    }

    /// Returns the values of all columns: first those of the list, then those of the function. Returns `None` if the
    /// function has no columns.
    fn kept(&self, of_list: Option<&[u8]>, columns: &[u8]) -> Option<Vec<u8>> {
        if self.columns.is_empty() {
            return None;
        }
        let mut kept = Vec::new();
        let known = extra_values(of_list.unwrap_or_default()).chain(std::iter::repeat(None));
        write_extra(known.take(self.list_columns), &mut kept);
        let made =
            frame::values(columns).map(Option::Some).chain(std::iter::repeat(None)).map(Option::flatten);
        write_extra(made.take(self.columns.len()), &mut kept);
        Some(kept)
    }
}
