//! A bucket as a destination: the keys of its shards, and the job's local folder.

use std::path::{Path, PathBuf};

use super::BucketName;
use crate::error::{Error, Result};
use crate::name::{self, STATE_FOLDER};

/// Prefix of a destination that is a bucket.
const SCHEME: &str = "s3://";
/// Folder for manifests below the prefix. A local destination has the same folder. Programs that read all files below a
/// prefix as one table skip names that start with a dot.
const MANIFESTS: &str = ".fetchmill/index/";
/// Maximum length of a prefix in bytes. Within S3's limit for keys, it leaves room for a shard name of at most 80
/// bytes.
const PREFIX_BYTES_MAX: usize = 900;

/// The bucket and the prefix to which a job uploads its shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadDestination {
    /// The bucket.
    pub bucket: BucketName,
    /// Prefix of all keys of the job. The prefix is empty or ends with `/`.
    pub prefix: String,
}

impl UploadDestination {
    /// Parses a destination as users write it. Returns `None` for a folder.
    pub fn of(dest: &Path) -> Result<Option<Self>> {
        let Some(text) = dest.to_str() else { return Ok(None) };
        text.strip_prefix(SCHEME).map(Self::parse).transpose()
    }

    fn parse(text: &str) -> Result<Self> {
        let (bucket, prefix) = text.split_once('/').unwrap_or((text, ""));
        let bucket = BucketName::parse(bucket)?;
        let is_bad = |segment: &str| matches!(segment, "." | "..") || segment.contains('\0');
        if prefix.split('/').any(is_bad) || prefix.len() > PREFIX_BYTES_MAX {
            return Err(Error::Usage(format!(
                "{SCHEME}{} cannot hold shards; the segments of the prefix must be names, and the prefix \
                 must have at most {PREFIX_BYTES_MAX} bytes",
                name::for_display(text.as_bytes())
            )));
        }
        let is_whole = prefix.is_empty() || prefix.ends_with('/');
        let prefix = if is_whole { prefix.to_owned() } else { format!("{prefix}/") };
        Ok(UploadDestination { bucket, prefix })
    }

    /// Returns the destination as users write it.
    pub fn text(&self) -> String {
        format!("{SCHEME}{}/{}", self.bucket.text(), self.prefix)
    }

    /// Returns the URL of a key, as users write it.
    pub fn text_of(&self, key: &str) -> String {
        format!("{SCHEME}{}/{key}", self.bucket.text())
    }

    /// Returns the default state folder: a folder in the current directory, named after the last segment of the prefix.
    pub fn state_folder(&self) -> PathBuf {
        let last = self.prefix.trim_end_matches('/').rsplit('/').next();
        let last = last.filter(|last| !last.is_empty() && last.len() <= 200);
        PathBuf::from(format!("{}{STATE_FOLDER}", last.unwrap_or(self.bucket.text())))
    }

    /// Returns the folder, inside the job's state folder, in which shards wait for their upload.
    pub fn shards_folder(state: &Path) -> PathBuf {
        state.join("shards")
    }

    /// Returns the key of a shard with this name.
    pub fn shard_key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns the key of a manifest with this name.
    pub fn manifest_key(&self, name: &str) -> String {
        format!("{}{MANIFESTS}{name}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_a_folder_and_names_the_state() {
        for (dest, prefix, state) in [
            ("s3://bucket", "", "bucket.fetchmill"),
            ("s3://bucket/", "", "bucket.fetchmill"),
            ("s3://bucket/run", "run/", "run.fetchmill"),
            ("s3://bucket/run/", "run/", "run.fetchmill"),
            ("s3://bucket/a b/c%/", "a b/c%/", "c%.fetchmill"),
        ] {
            let upload = UploadDestination::of(Path::new(dest)).unwrap().unwrap();
            assert_eq!(
                (upload.prefix.as_str(), upload.state_folder()),
                (prefix, PathBuf::from(state)),
                "{dest}"
            );
            assert_eq!(upload.text(), format!("s3://bucket/{prefix}"));
        }
        assert_eq!(UploadDestination::of(Path::new("out/")).unwrap(), None);
    }

    #[test]
    fn what_is_no_place_for_shards_is_refused() {
        for dest in ["s3://", "s3:///run/", "s3://a b/run/", "s3://bucket/../run/", "s3://bucket/./"] {
            assert_eq!(UploadDestination::of(Path::new(dest)).unwrap_err().exit_code(), 2, "{dest}");
        }
        let long = format!("s3://bucket/{}", "x".repeat(PREFIX_BYTES_MAX + 1));
        assert_eq!(UploadDestination::of(Path::new(&long)).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn manifests_are_where_readers_of_a_prefix_do_not_look() {
        let upload = UploadDestination::of(Path::new("s3://bucket/run/")).unwrap().unwrap();

        assert_eq!(upload.shard_key("shard-000000.tar"), "run/shard-000000.tar");
        assert_eq!(
            upload.manifest_key("shard-000000.manifest"),
            "run/.fetchmill/index/shard-000000.manifest"
        );
    }
}
