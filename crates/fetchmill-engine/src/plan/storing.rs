//! Settings for storing objects and rows: the sinks and the results file.

use super::job_plan::JobPlan;
use fetchmill_model::error::Result;
use fetchmill_store::pack::WarcOrigin;
use fetchmill_store::results::ResultsTarget;
use fetchmill_store::sink::{SinkSetup, UnfetchedSetup, Validators};

impl JobPlan {
    /// Returns the setup that the sinks of `workers` workers share.
    pub(crate) fn sink_setup(&self, workers: usize) -> Result<SinkSetup> {
        let request = &self.request;
        Ok(SinkSetup {
            format: request.format,
            dest: self.place.dest.clone(),
            manifests: self.place.manifests_path(),
            is_durable: request.is_durable(),
            shard_bytes: request.shard_size.unwrap_or_else(|| request.format.shard_bytes()),
            seal_after: request.seal_after,
            server_times: request.server_times,
            workers,
            columns: self.stored_columns(),
            sidecars: self.sidecars()?,
            is_hashed: request.hash.is_some(),
            validators: match request.pass {
                Some(_) => Validators::InManifests,
                None => Validators::InRecords,
            },
            unfetched: UnfetchedSetup {
                // A sync itself reports the failures of its passes.
                tells_failures: request.pass.is_none(),
                keeps_replies: request.keeps_replies(),
                is_indexed: self.is_indexed,
            },
            origin: Some(self.warc_origin()?),
            upload_queue: None,
        })
    }

    /// Returns how the URLs of objects are derived in WARC.
    fn warc_origin(&self) -> Result<WarcOrigin> {
        match self.server()?.filter(|_| !self.naming().has_url()) {
            Some((key, template)) => {
                Ok(WarcOrigin { template, uri_start: key.text().to_owned(), names_are_urls: false })
            }
            None => WarcOrigin::of_list(&self.fields()?.open()),
        }
    }

    /// Returns the destination of the rows, if they go to a file.
    pub(crate) fn results(&self) -> Option<ResultsTarget<'_>> {
        let rows = self.request.rows.as_ref()?;
        Some(ResultsTarget {
            path: rows.results.as_deref()?,
            rows: rows.kind,
            format: rows.format,
            kept: &self.columns,
            is_durable: self.request.is_durable(),
        })
    }
}
