//! A row of a check: a site's answer, or the reason why there is no answer.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::object::Micros;
use crate::outcome::FailureKind;

/// The result for one target of a check. Fields that do not apply or are unknown are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckRow<'a> {
    /// URL from the list. `None` for a line without a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Cow<'a, str>>,
    /// Key from the list. For a line without a URL, it identifies the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Cow<'a, str>>,
    /// The status of the last final reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Reason why there is no complete reply. `None` if there is one, regardless of its status.
    #[serde(skip_serializing_if = "Option::is_none", with = "kind_name")]
    pub kind: Option<FailureKind>,
    /// Reason why the line has no URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// Final URL after redirects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_url: Option<Cow<'a, str>>,
    /// URLs of the redirects, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub redirects: Vec<Cow<'a, str>>,
    /// Address and port of the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Cow<'a, str>>,
    /// HTTP version: `1.0`, `1.1` or `2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_version: Option<Cow<'a, str>>,
    /// The `Content-Type` field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<Cow<'a, str>>,
    /// The `Content-Length` field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_length: Option<u64>,
    /// Number of bytes of the body that were read.
    pub body_bytes: u64,
    /// Number of attempts.
    pub attempts: u32,
    /// Start of the last attempt. 0 if there was none.
    pub started_at: Micros,
    /// Time spent in the queue, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_ms: Option<f32>,
    /// Duration of the name lookup in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_ms: Option<f32>,
    /// Time taken to connect, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_ms: Option<f32>,
    /// Duration of the TLS handshake in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_ms: Option<f32>,
    /// Time from the request to the first byte of the reply, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_byte_ms: Option<f32>,
    /// Time from the start of the last attempt to its end, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_ms: Option<f32>,
    /// Whether this is the result of a recheck.
    #[serde(skip_serializing_if = "is_false")]
    pub second_look: bool,
    /// Whether the cause may be this machine rather than the site.
    #[serde(skip_serializing_if = "is_false")]
    pub suspect: bool,
    /// Values of the kept columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Option<Cow<'a, str>>>,
}

/// Answer of a row as a single word, used to count answers and to compare checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CheckAnswer {
    /// A complete reply with this status.
    Status(u16),
    /// No complete reply was received, because of this failure.
    Kind(FailureKind),
}

impl CheckAnswer {
    /// Returns the displayed form, such as `200` or `dns-not-found`.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            CheckAnswer::Status(status) => status.to_string().into(),
            CheckAnswer::Kind(kind) => kind.name().into(),
        }
    }

    /// Returns whether the answer counts as a failure of the site: no complete reply, or a 4xx or 5xx status.
    pub fn is_failure(self) -> bool {
        match self {
            CheckAnswer::Status(status) => status >= 400,
            CheckAnswer::Kind(_) => true,
        }
    }
}

impl<'a> CheckRow<'a> {
    /// Appends the row as JSON, without a line ending.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        // Writing text and numbers to memory cannot fail.
        let _ = serde_json::to_writer(out, self);
    }

    /// Reads the output of [`CheckRow::write_line`]. Returns `None` for a line that `write_line` does not produce.
    pub fn read_line(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// Returns the failure kind if there is one, and otherwise the status.
    pub fn answer(&self) -> CheckAnswer {
        match (self.kind, self.status) {
            (None, Some(status)) => CheckAnswer::Status(status),
            (kind, _) => CheckAnswer::Kind(kind.unwrap_or(FailureKind::Url)),
        }
    }
}

/// Converts a duration to milliseconds, with the microseconds as decimals.
pub fn millis(duration: Duration) -> f32 {
    (duration.as_micros() as f64 / 1000.0) as f32
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Writes a failure kind as its name, and reads it back.
mod kind_name {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::outcome::FailureKind;

    #[expect(clippy::ref_option, clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
    pub(super) fn serialize<S: Serializer>(kind: &Option<FailureKind>, to: S) -> Result<S::Ok, S::Error> {
        match kind {
            Some(kind) => to.serialize_str(kind.name()),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FailureKind>, D::Error> {
        let name = Option::<std::borrow::Cow<'de, str>>::deserialize(from)?;
        let kind = |name: &str| {
            FailureKind::from_name(name).ok_or_else(|| D::Error::custom(format!("unknown kind {name}")))
        };
        name.as_deref().map(kind).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(row: &CheckRow<'_>) -> Vec<u8> {
        let mut line = Vec::new();
        row.write_line(&mut line);
        line
    }

    #[test]
    fn a_row_is_one_line_and_comes_back_as_it_was() {
        let row = CheckRow {
            url: Some("https://a.test/\u{e9}".into()),
            key: Some("two\nlines \"quoted\"".into()),
            status: Some(301),
            kind: Some(FailureKind::RedirectLimit),
            final_url: Some("https://b.test/".into()),
            redirects: vec!["https://a.test/1".into(), "https://b.test/".into()],
            address: Some("127.0.0.1:443".into()),
            content_length: Some(u64::MAX),
            body_bytes: 7,
            attempts: 2,
            started_at: 1_795_000_000_123_456,
            connect_ms: Some(millis(Duration::from_micros(1_234_567))),
            suspect: true,
            kept: vec![Some("1".into()), None, Some("".into())],
            ..CheckRow::default()
        };

        let line = written(&row);

        assert_eq!(memchr::memchr(b'\n', &line), None);
        assert!(String::from_utf8_lossy(&line).contains("\"connect_ms\":1234.567,"));
        assert_eq!(CheckRow::read_line(&line), Some(row));
        assert_eq!(CheckRow::read_line(&line[..line.len() - 1]), None);
    }

    #[test]
    fn what_does_not_apply_takes_no_byte() {
        let line = written(&CheckRow { status: Some(200), ..CheckRow::default() });

        assert_eq!(line, br#"{"status":200,"body_bytes":0,"attempts":0,"started_at":0}"#);
    }

    #[test]
    fn a_complete_reply_answers_with_its_status_whatever_it_is() {
        let of = |status, kind| CheckRow { status, kind, ..CheckRow::default() }.answer();

        assert_eq!(of(Some(500), None).name(), "500");
        assert_eq!(of(Some(200), Some(FailureKind::Truncated)).name(), "truncated");
        assert_eq!(of(None, Some(FailureKind::DnsNotFound)).name(), "dns-not-found");
        assert_eq!([301, 404, 200].map(|status| of(Some(status), None).is_failure()), [false, true, false]);
    }

    #[test]
    fn a_kind_that_there_is_not_is_no_row() {
        assert_eq!(CheckRow::read_line(br#"{"kind":"sunshine"}"#), None);
    }
}
