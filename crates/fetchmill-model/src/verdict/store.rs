//! Replies that have a special meaning if they come from an S3 store.

use std::fmt::Write as _;

use super::facts::{Correction, StoreReply};
use crate::error::Error;
use crate::outcome::FailureKind;
use crate::s3::{ErrorDocument, StoreError, is_region};
use crate::text::dates::parse_http_date;

/// Maximum number of characters of a store's message in an outcome.
const DETAIL_CHARS_MAX: usize = 300;

impl StoreReply<'_> {
    /// Returns the problem with the request if the store reports a problem that can be corrected.
    pub(super) fn correction(
        &self,
        meaning: Option<StoreError>,
        document: Option<&ErrorDocument>,
        status: u16,
    ) -> Option<Correction> {
        match meaning {
            Some(StoreError::Skewed) => {
                let said = document.and_then(|document| document.server_time);
                said.or_else(|| self.date.and_then(parse_http_date)).map(Correction::Clock)
            }
            Some(StoreError::Expired) => Some(Correction::Credentials),
            Some(StoreError::WrongRegion) => self.region_of(document).map(Correction::Region),
            None if matches!(status, 301 | 307) => self.region_of(document).map(Correction::Region),
            // Some stores report only the bucket's region. If the request has already used this region, there is no
            // correction.
            None | Some(StoreError::Other | StoreError::Denied) => {
                let signed_for = self.signed_for?;
                self.region_of(document).filter(|region| region != signed_for).map(Correction::Region)
            }
            Some(_) => None,
        }
    }

    fn region_of(&self, document: Option<&ErrorDocument>) -> Option<String> {
        let region = self.region.map(|region| String::from_utf8_lossy(region).into_owned());
        let region = region.or_else(|| document.and_then(|document| document.region.clone()));
        // The region becomes part of the next request.
        region.filter(|region| is_region(region))
    }

    /// Returns the failure if the reply contains an error in place of an object, or `None` if there is no error.
    pub(super) fn error_in_place(&self) -> Option<FailureKind> {
        let document = ErrorDocument::read(self.start)?;
        let is_throttled = document.meaning(200) == StoreError::Throttled;
        Some(if is_throttled { FailureKind::Throttled } else { FailureKind::ServerError })
    }
}

/// Returns the code and the message of the error, and the number of corrections that were tried.
pub(super) fn detail_of(document: &ErrorDocument, corrections: u32) -> Box<str> {
    let mut text = format!("{}: {}", document.code, document.message);
    if let Some((end, _)) = text.char_indices().nth(DETAIL_CHARS_MAX) {
        text.truncate(end);
    }
    if corrections > 0 {
        let _ = write!(text, " (after {corrections} requests with another region, clock or credentials)");
    }
    text.into()
}

/// Returns the error that ends a job if a store does not recognise the credentials.
pub(super) fn no_credentials(document: Option<&ErrorDocument>) -> Error {
    let why =
        document.map_or_else(String::new, |document| format!("{}: {}", document.code, document.message));
    Error::Temporary(format!(
        "the store refused the credentials ({why}); give other credentials (AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY, --profile) and run the same command again"
    ))
}
