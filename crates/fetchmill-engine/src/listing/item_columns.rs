//! Columns of a table of items, derived from the first page of the listing.

use super::json::read_page;
use super::page_body::FetchedPage;
use super::server::{PageFrom, ServerLister, ServerListerSetup};
use fetchmill_model::error::Result;
use fetchmill_model::source::json::{ItemTypes, JsonPages};
use fetchmill_model::target::extra_columns::{ExtraColumns, TypesByName};

/// Fetches the first page and returns the columns of its items. The user might have set the types of some columns. Also
/// returns the page, so that it is not fetched again. Returns `None` if the job is ending.
pub(crate) fn find_columns(
    setup: ServerListerSetup,
    pages: &JsonPages,
    given: &TypesByName,
) -> Result<Option<(ExtraColumns, FetchedPage)>> {
    let mut lister = ServerLister::new(setup)?;
    let url = pages.url(None)?;
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let PageFrom::Here(fetched) = lister.fetch_page_from(path, false)? else { return Ok(None) };
    let read = read_page(&lister, pages, None, &fetched)?;
    let mut types = ItemTypes::given(given);
    for item in read.page.names.iter().filter_map(|item| std::str::from_utf8(item).ok()) {
        types.add(item, given);
    }
    Ok(Some((ExtraColumns::of_items(types.into_columns()), fetched)))
}
