//! A sealed shard written again without some of its objects: the new one takes its place by a seal that names it.

use super::parquet::Open;
use super::shard::ShardFile;
use super::{Format, Shelf, new_encoder};
use crate::error::{Error, Result};
use crate::kept::Columns;
use crate::manifest::{ManifestWriter, Row};
use crate::object::Object;
use crate::outcome::SealedShard;
use crate::pack::Encoder;

/// See the module.
#[derive(Debug)]
pub struct Rewrite(Kind);

#[derive(Debug)]
enum Kind {
    Rows(Box<Open>),
    Records { file: Box<ShardFile>, manifest: Box<ManifestWriter>, encoder: Box<dyn Encoder>, bytes: u64 },
}

impl Rewrite {
    /// Starts a shard among the open ones, of objects that have these columns.
    pub fn create(shelf: &Shelf, format: Format, columns: &Columns) -> Result<Self> {
        shelf.prepare()?;
        if format == Format::Parquet {
            return Ok(Rewrite(Kind::Rows(Box::new(Open::create(shelf, 0, 1, columns)?))));
        }
        let mut encoder = new_encoder(format, columns, None)?;
        let (data, manifest) = super::shard_names(0);
        let mut file = Box::new(ShardFile::create(shelf, data)?);
        encoder.start(file.buffer());
        let manifest = Box::new(ManifestWriter::new(&shelf.open_path(), manifest, shelf.is_durable()));
        Ok(Rewrite(Kind::Records { file, manifest, encoder, bytes: 0 }))
    }

    /// Appends a record as it stood in the other shard; its row says whose it is.
    pub fn push_record(&mut self, row: &Row<'_>, record: &[u8]) -> Result<()> {
        let Kind::Records { file, manifest, bytes, .. } = &mut self.0 else {
            return Err(Error::Internal("a record for a format that has rows".into()));
        };
        manifest.add(&Row { place: file.end(), ..*row })?;
        file.buffer().extend_from_slice(record);
        *bytes = bytes.saturating_add(row.length);
        file.relieve()
    }

    /// Appends an object as a row.
    pub fn push_object(&mut self, object: &Object<'_>) -> Result<()> {
        match &mut self.0 {
            Kind::Rows(open) => open.push(object),
            Kind::Records { .. } => Err(Error::Internal("a row for a format that has records".into())),
        }
    }

    /// Ends the shard and makes it durable.
    pub fn seal(self) -> Result<SealedShard> {
        match self.0 {
            Kind::Rows(open) => open.seal(Vec::new()),
            Kind::Records { mut file, manifest, mut encoder, bytes } => {
                encoder.finish(file.buffer());
                let objects = manifest.rows();
                let (data, manifest) = (file.checkpoint()?, manifest.seal()?);
                Ok(SealedShard { data, manifest, objects, bytes, replaces: Vec::new() })
            }
        }
    }
}
