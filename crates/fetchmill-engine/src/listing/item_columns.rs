//! The columns of a table of items, found out from the first page of the listing.

use super::json::read_page;
use super::page_body::FetchedPage;
use super::server::{PageFrom, ServerLister, ServerListerSetup};
use fetchmill_model::error::Result;
use fetchmill_model::source::json::{ItemTypes, JsonPages};
use fetchmill_model::target::extra_columns::{ExtraColumns, TypesByName};

/// Asks for the first page. Returns the columns of its items, of which some types may be given, and the page, so that it is
/// not asked for again; `None` if the job is to end.
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
