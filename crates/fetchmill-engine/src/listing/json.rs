//! A server whose API returns JSON pages, each of which leads to the next one.

use std::sync::Arc;

use super::hand_over::hand_over;
use super::page_body::FetchedPage;
use super::server::{PageFrom, ServerLister, ServerListerSetup};
use fetchmill_model::error::Result;
use fetchmill_model::http1::field_values;
use fetchmill_model::source::json::{JsonPage, JsonPages, PageReply};
use fetchmill_model::source::{BadPage, PageCursor};

/// Lists everything after `from`. Stops early if the job is ending.
pub(super) fn list(setup: ServerListerSetup, pages: &JsonPages, mut from: Option<String>) -> Result<()> {
    let mut lister = ServerLister::new(setup)?;
    let control = Arc::clone(&lister.control);
    if lister.resumes_restart() {
        from = None;
    }
    let (mut empty_pages, mut is_of_earlier_run) = (0, from.is_some());
    while control.wait_for_room() && !lister.is_over() {
        let url = pages.url(from.as_deref())?;
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let asked = match lister.first_page.take() {
            Some(page) => PageFrom::Here(page),
            None => lister.fetch_page_from(path, is_of_earlier_run)?,
        };
        let fetched = match asked {
            PageFrom::Here(page) => page,
            PageFrom::Start => {
                (from, is_of_earlier_run) = (None, false);
                continue;
            }
            PageFrom::Nowhere => return Ok(()),
        };
        is_of_earlier_run = false;
        let JsonPage { page, items, is_without_urls, has_no_lead } =
            read_page(&lister, pages, from.as_deref(), &fetched)?;
        if !lister.has_listed && is_without_urls {
            let bad = BadPage("no item has the field given with --url-field".to_owned());
            return Err(lister.unreadable(path, &bad));
        }
        empty_pages = lister.count_empty(items == 0, empty_pages, path)?;
        let PageCursor::Json { next, .. } = &page.cursor else { return Ok(()) };
        if from.is_none() && has_no_lead {
            control.notice(&format!(
                "the listing has only one page: {} has no link to a next page; if there are more pages, set \
                 --next-page or --next-field",
                lister.url(path)
            ));
        }
        from.clone_from(next);
        lister.has_listed = true;
        let page = lister.without_known(page)?;
        if !pages.stores_items() {
            control.note_origins(page.names.iter());
        }
        hand_over(&control, page);
        if from.is_none() {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads the page that `from` leads to.
pub(super) fn read_page(
    lister: &ServerLister,
    pages: &JsonPages,
    from: Option<&str>,
    fetched: &FetchedPage,
) -> Result<JsonPage> {
    let url = pages.url(from)?;
    let links = field_values(&fetched.head, "link");
    let links: Vec<&[u8]> = links.iter().map(AsRef::as_ref).collect();
    // Links on a page are relative to the URL that the page has after redirects.
    let base = url::Url::parse(&fetched.url).unwrap_or_else(|_| url.clone());
    let reply = PageReply { from, url: &base, body: &fetched.bytes, links: &links };
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    pages.read(reply, &lister.filters)?.map_err(|bad| lister.unreadable(path, &bad))
}
