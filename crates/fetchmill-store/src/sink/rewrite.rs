//! Rewrites sealed shards without some of their objects. The seal of the new shard lists the shards that it replaces.

use super::parquet::{OpenParquet, ShardRows};
use super::shard::ShardFile;
use super::{Format, ShardFolder, Validators, new_encoder};
use crate::manifest::{ManifestRow, ManifestWriter};
use crate::pack::Encoder;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::object::Object;
use fetchmill_model::outcome::{SealedShard, ShardNumber};
use fetchmill_model::target::extra_columns::ExtraColumns;

/// See the [module documentation](self).
#[derive(Debug)]
pub struct Rewrite(RewriteOutput);

#[derive(Debug)]
enum RewriteOutput {
    Rows(Box<OpenParquet>),
    Records { file: Box<ShardFile>, manifest: Box<ManifestWriter>, encoder: Box<dyn Encoder>, bytes: u64 },
}

impl Rewrite {
    /// Creates an open shard for objects with these columns.
    pub fn create(shard_folder: &ShardFolder, format: Format, columns: &ExtraColumns) -> Result<Self> {
        shard_folder.prepare()?;
        if format == Format::Parquet {
            let rows = ShardRows { workers: 1, columns, validators: Validators::InRecords };
            let open = OpenParquet::create(shard_folder, 0, &rows)?;
            return Ok(Rewrite(RewriteOutput::Rows(Box::new(open))));
        }
        let mut encoder = new_encoder(format, columns, None)?;
        let (data, manifest) = super::shard_names(0);
        let mut file = Box::new(ShardFile::create(shard_folder, data)?);
        encoder.start(file.buffer());
        let manifest =
            Box::new(ManifestWriter::new(&shard_folder.open_path(), manifest, shard_folder.is_durable()));
        Ok(Rewrite(RewriteOutput::Records { file, manifest, encoder, bytes: 0 }))
    }

    /// Appends a record of the old shard unchanged. `row` describes its object.
    pub fn push_record(&mut self, row: &ManifestRow<'_>, record: &[u8]) -> Result<()> {
        let RewriteOutput::Records { file, manifest, bytes, .. } = &mut self.0 else {
            return Err(Error::Internal("a record in a format that has rows".into()));
        };
        manifest.add(&ManifestRow { place: file.end(), ..*row })?;
        file.buffer().extend_from_slice(record);
        *bytes = bytes.saturating_add(row.length);
        file.flush_if_full()
    }

    /// Appends an object as a row.
    pub fn push_object(&mut self, object: &Object<'_>) -> Result<()> {
        match &mut self.0 {
            RewriteOutput::Rows(open) => open.push(object),
            RewriteOutput::Records { .. } => {
                Err(Error::Internal("a row in a format that has records".into()))
            }
        }
    }

    /// Seals the shard and makes it durable. It replaces the shards in `replaces`.
    pub fn seal(self, replaces: Vec<ShardNumber>) -> Result<SealedShard> {
        match self.0 {
            RewriteOutput::Rows(open) => open.seal(replaces),
            RewriteOutput::Records { mut file, manifest, mut encoder, bytes } => {
                encoder.finish(file.buffer());
                let objects = manifest.rows();
                let (data, manifest) = (file.checkpoint()?, manifest.seal()?);
                Ok(SealedShard { data, manifest, objects, bytes, replaces })
            }
        }
    }
}
