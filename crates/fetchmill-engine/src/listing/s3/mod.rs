//! Lists a bucket. Its keys are listed in as many parallel ranges as needed to stay ahead of fetching ([`ranges`]). If
//! the keys turn out not to be in byte order, the listing follows the store's tokens page by page ([`tokens`]).

mod order;
mod pages;
mod ranges;
mod tokens;

use std::rc::Rc;
use std::sync::Arc;

use self::pages::BucketPages;
use self::ranges::RangesEnd;
use self::tokens::TokenWalk;
use super::relisting::Relisting;
use crate::control::Control;
use crate::control::journal_link::TokenStart;
use crate::event_queues::network_runtime;
use fetchmill_model::error::Result;
use fetchmill_model::planner::origin::Millis;
use fetchmill_model::s3::{BucketName, Disorder, Selection};
use fetchmill_model::source::BucketCursor;
use fetchmill_net::PoolSettings;

/// Parts of a bucket lister that can be moved to another thread.
pub(crate) struct BucketListerSetup {
    pub(crate) control: Arc<Control>,
    pub(crate) pool: PoolSettings,
    pub(crate) bucket: BucketName,
    pub(crate) prefix: String,
    /// Selection of the keys to fetch.
    pub(crate) selection: Selection,
    /// Part of the bucket that has not been listed yet.
    pub(crate) cursor: BucketCursor,
    /// State for restarting the listing. `None` if the job does not have the names of its targets.
    pub(crate) relisting: Option<Relisting>,
    /// Whether a restarted listing was unfinished when an earlier run ended.
    pub(crate) is_relisting: bool,
    /// Time in milliseconds after which a failing page ends the job.
    pub(crate) give_up_after: Millis,
}

/// Lists all remaining keys. Stops early if the job is ending.
pub(super) fn list(setup: BucketListerSetup) -> Result<()> {
    let BucketListerSetup {
        control,
        pool,
        bucket,
        prefix,
        selection,
        cursor,
        relisting,
        is_relisting,
        give_up_after,
    } = setup;
    let pages = Rc::new(BucketPages::new(control, pool, (bucket, prefix), selection, give_up_after));
    network_runtime()?.block_on(async {
        let walk = match cursor {
            BucketCursor::Token(token) => TokenWalk::resume(&pages, relisting, token, is_relisting)?,
            BucketCursor::Ranges(ranges) => match ranges::list(&pages, ranges).await? {
                RangesEnd::Over => return Ok(()),
                RangesEnd::Disordered(disorder, start) => {
                    notice_disorder(&pages, &disorder, &start);
                    TokenWalk::begin(&pages, relisting, start, &disorder)?
                }
            },
        };
        walk.list().await
    })
}

fn notice_disorder(pages: &BucketPages, Disorder { key, after }: &Disorder, start: &TokenStart) {
    let [key, after] = [key, after].map(|key| fetchmill_model::name::for_display(key));
    let again = if *start == TokenStart::Again { ", starting again with the first page" } else { "" };
    pages.control.notice(&format!(
        "the keys of the bucket {} are not in ascending order ({key} comes after {after}), so its pages are \
         listed one after the other{again}",
        pages.bucket.text()
    ));
}
