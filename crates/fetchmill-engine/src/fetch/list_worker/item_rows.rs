//! Converts API items to rows. Each item is both a target and an object.

use fetchmill_model::object::Facts;
use fetchmill_model::outcome::{FailureKind, Outcome};
use fetchmill_model::source::json::ItemColumns;
use fetchmill_model::target::Sequence;
use fetchmill_model::target::entry::{ListEntry, Naming};
use fetchmill_model::target::extra_columns::ExtraColumns;
use fetchmill_store::sink::{Block, EntryDescription, FetchedBody};

/// Converter of items. See the [module documentation](self). A block can exceed its limit by the items of one page,
/// which take up to 16 MiB.
#[derive(Default)]
pub(crate) struct ItemRows {
    columns: ItemColumns,
    kept: Vec<u8>,
    name: Vec<u8>,
}

impl ItemRows {
    /// Creates the converter for a job with these columns.
    pub(crate) fn of(columns: &ExtraColumns) -> Self {
        let typed = columns.typed().map(|(name, kind)| (name.to_owned(), kind));
        ItemRows { columns: ItemColumns::new(typed), ..ItemRows::default() }
    }

    /// Adds a target to the block and returns its outcome. An item that was rejected during listing counts as failed.
    pub(super) fn push(&mut self, sequence: Sequence, entry: &[u8], block: &mut Block) -> Outcome {
        let name = Naming::Item.name_of(sequence, entry, &mut self.name);
        if let Some(reason) = ListEntry::read(entry).reason() {
            let outcome = Outcome::Failed(FailureKind::BodyTooLarge);
            let description = EntryDescription { detail: Some(reason), ..EntryDescription::named(name) };
            block.push_other(sequence, outcome, 0, 0, &description);
            return outcome;
        }
        self.kept.clear();
        if let Ok(item) = std::str::from_utf8(entry) {
            self.columns.write(item, &mut self.kept);
        }
        let facts = Facts { kept: Some(&self.kept), ..Facts::default() };
        block.push_fetched(sequence, 0, name, FetchedBody::Bytes(entry), &facts);
        Outcome::Fetched
    }
}
