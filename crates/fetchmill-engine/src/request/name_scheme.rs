//! Naming schemes for the objects of a list (`--names`).

use serde::{Deserialize, Serialize};

use fetchmill_model::error::{Error, Result};
use fetchmill_model::options::words;
use fetchmill_model::source::list::NameTemplate;

/// Naming scheme for the objects of a list.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum NameScheme {
    /// Names from the source.
    #[default]
    Source,
    /// Sequence numbers as names.
    Seq,
    /// Names built from a template.
    Template(NameTemplate),
}

impl NameScheme {
    const SOURCE: &str = "source";
    const SEQ: &str = "seq";

    pub(crate) fn text(&self) -> &str {
        match self {
            NameScheme::Source => Self::SOURCE,
            NameScheme::Seq => Self::SEQ,
            NameScheme::Template(template) => template.text(),
        }
    }

    pub(crate) fn template(&self) -> Option<&NameTemplate> {
        if let NameScheme::Template(template) = self { Some(template) } else { None }
    }
}

impl TryFrom<String> for NameScheme {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        match text.as_str() {
            Self::SOURCE => Ok(NameScheme::Source),
            Self::SEQ => Ok(NameScheme::Seq),
            template => NameTemplate::parse(template).map(NameScheme::Template),
        }
    }
}

impl From<NameScheme> for String {
    fn from(names: NameScheme) -> Self {
        names.text().to_owned()
    }
}

words!(NameScheme);
