//! Sidecars: members of a tar shard that follow an object and contain values of its columns. Readers such as webdataset
//! group members by the part of the file name before the first dot: `7.jpg`, `7.json`, `7.txt`.

use super::Damage;
use super::jsonl::JsonColumns;
use super::member_name::{SampleKeys, is_sidecar};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits::SIDECARS_MAX;
use fetchmill_model::object::Object;
use fetchmill_model::target::extra_columns::{ExtraColumns, extra_values};

/// Maximum length of an extension.
const EXTENSION_BYTES_MAX: usize = 16;

/// The sidecars that each object of a job has.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Sidecars {
    /// Writes all columns as one JSON object. `None` if there is no such sidecar.
    json: Option<JsonColumns>,
    /// Extensions, each with the position of the column that provides the content.
    values: Vec<(String, usize)>,
    /// Whether an object without a separate URL uses its name as its URL.
    names_are_urls: bool,
    keys: SampleKeys,
}

impl Sidecars {
    /// Name and extension of the sidecar that contains all columns.
    pub const JSON: &str = "json";

    /// Parses the sidecars of objects with these columns. Each text is `json` or `EXTENSION=COLUMN`, and none may be
    /// repeated.
    pub fn parse(texts: &[String], columns: &ExtraColumns, names_are_urls: bool) -> Result<Self> {
        let mut made = Sidecars { names_are_urls, ..Sidecars::default() };
        let mut seen: Vec<&str> = Vec::new();
        for text in texts {
            let refuse = |why: &str| Err(Error::Usage(format!("--sidecar {text} {why}")));
            let (extension, column) = match text.split_once('=') {
                Some((extension, column)) => (extension, Some(column)),
                None => (text.as_str(), None),
            };
            if seen.contains(&extension) {
                return refuse("is given twice; an object can have only one sidecar per extension");
            }
            seen.push(extension);
            match column {
                None if extension == Self::JSON => made.json = Some(JsonColumns::new(columns.typed())),
                None => return refuse("has no column; write EXTENSION=COLUMN, such as txt=caption, or json"),
                Some(_) if extension == Self::JSON => {
                    return refuse("names a column, but json stores all columns; write json alone");
                }
                Some(_) if !is_extension(extension) => {
                    return refuse("must have an extension of lowercase letters and digits before the =");
                }
                Some(column) => match columns.kept().iter().position(|name| name == column) {
                    Some(position) => made.values.push((extension.to_owned(), position)),
                    None => {
                        return refuse("names a column that is not kept; add the column to --keep-columns");
                    }
                },
            }
        }
        if texts.len() > SIDECARS_MAX {
            return Err(Error::Usage(format!(
                "--sidecar: too many sidecars ({}); give at most {SIDECARS_MAX}",
                texts.len()
            )));
        }
        Ok(made)
    }

    /// Returns the same sidecars with a different rule for keys.
    #[must_use]
    pub fn with_keys(self, keys: SampleKeys) -> Self {
        Sidecars { keys, ..self }
    }

    /// Returns the rule for keys. `None` if objects have no sidecars.
    pub(super) fn keys(&self) -> Option<SampleKeys> {
        (self.json.is_some() || !self.values.is_empty()).then_some(self.keys)
    }

    /// Calls `each` with the extension and content of each sidecar of an object. A missing value becomes an empty file.
    pub(super) fn for_each(
        &self,
        object: &Object<'_>,
        content: &mut Vec<u8>,
        mut each: impl FnMut(&str, &[u8]),
    ) {
        if let Some(columns) = &self.json {
            content.clear();
            let url = object.facts.url.or(self.names_are_urls.then_some(object.name));
            columns.write(url, object.facts.kept, content);
            each(Self::JSON, content);
        }
        for (extension, position) in &self.values {
            let mut values = extra_values(object.facts.kept.unwrap_or_default());
            each(extension, values.nth(*position).flatten().unwrap_or_default());
        }
    }
}

fn is_extension(text: &str) -> bool {
    (1..=EXTENSION_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Facts about an object that its sidecars contain.
#[derive(Debug, Default)]
pub(super) struct ReadSidecars {
    pub(super) url: Option<Vec<u8>>,
    pub(super) kept: Option<Vec<u8>>,
}

impl ReadSidecars {
    /// Reads the member that follows an object's member. `name` is the object's member name.
    pub(super) fn read(
        &mut self,
        (object, name): (&[u8], &[u8]),
        sidecar: &[u8],
        content: &[u8],
    ) -> std::result::Result<(), Damage> {
        const FOREIGN: Damage = Damage("there is another member after it");
        let dot = memchr::memrchr(b'.', sidecar).ok_or(FOREIGN)?;
        let extension = std::str::from_utf8(&sidecar[dot + 1..]).ok();
        let extension = extension.filter(|text| is_extension(text)).ok_or(FOREIGN)?;
        if !is_sidecar(sidecar, (object, name), extension) {
            return Err(FOREIGN);
        }
        if extension == Sidecars::JSON {
            let (url, kept) =
                JsonColumns::read(content).ok_or(Damage("its columns are not JSON written by fetchmill"))?;
            (self.url, self.kept) = (url.filter(|url| url != name), Some(kept));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_makes_no_sidecar_is_refused() {
        let kept = ExtraColumns::of_list(columns(&["caption"])).unwrap();
        for texts in [
            &["txt"][..],
            &["json=caption"],
            &["txt=other"],
            &["=caption"],
            &["t/x=caption"],
            &["TXT=caption"],
            &["json", "json"],
            &["txt=caption", "txt=caption"],
        ] {
            assert_eq!(
                Sidecars::parse(&columns(texts), &kept, false).unwrap_err().exit_code(),
                2,
                "{texts:?}"
            );
        }
        let many: Vec<String> = (0..=SIDECARS_MAX).map(|number| format!("t{number}=caption")).collect();
        assert!(Sidecars::parse(&many, &kept, false).is_err());
        assert!(Sidecars::parse(&many[1..], &kept, false).is_ok());
    }
}
