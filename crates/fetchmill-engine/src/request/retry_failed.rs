//! Targets to retry (`--retry-failed`).

use serde::Deserialize;
use serde_json::Value;

use fetchmill_model::error::{Error, Result};
use fetchmill_model::options::OptionValue;
use fetchmill_model::outcome::answer_pattern::AnswerPattern;

/// Failed and absent targets to retry.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(try_from = "RetryRequest")]
pub enum RetryFailed {
    /// No targets.
    #[default]
    Nothing,
    /// All failed or absent targets.
    All,
    /// Targets with one of these answers.
    Only(Vec<AnswerPattern>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RetryRequest {
    All(bool),
    Only(Vec<String>),
}

impl TryFrom<RetryRequest> for RetryFailed {
    type Error = Error;

    fn try_from(asked: RetryRequest) -> Result<Self> {
        match asked {
            RetryRequest::All(true) => Ok(RetryFailed::All),
            RetryRequest::All(false) => Ok(RetryFailed::Nothing),
            RetryRequest::Only(texts) => texts
                .iter()
                .map(|text| AnswerPattern::parse(text))
                .collect::<Result<_>>()
                .map(RetryFailed::Only),
        }
    }
}

impl OptionValue for RetryFailed {
    fn json(&self) -> Value {
        self.is_some().into()
    }
}

impl RetryFailed {
    /// Returns whether any targets are retried.
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, RetryFailed::Nothing)
    }

    /// Returns whether targets with this failure kind or status are included.
    pub(crate) fn means(&self, kind: Option<&str>, status: Option<u16>) -> bool {
        match self {
            RetryFailed::Nothing => false,
            RetryFailed::All => true,
            RetryFailed::Only(patterns) => patterns.iter().any(|pattern| pattern.matches(kind, status)),
        }
    }
}
