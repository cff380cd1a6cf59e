//! A store's error document, and its meaning.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::limits::XML_DEPTH_MAX;
use crate::name;
use crate::text::dates::parse_utc_to_the_second;

/// Maximum number of bytes that are read from the text of an element. The longest messages from AWS are a few hundred
/// characters long.
const VALUE_BYTES_MAX: usize = 1024;

/// Contents of an error document. The texts are short and safe to display.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ErrorDocument {
    /// Error code, such as `AccessDenied`. Empty if there is none.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// Region of the bucket, or the region for which requests must be signed.
    pub region: Option<String>,
    /// Host to which requests must be sent.
    pub endpoint: Option<String>,
    /// The store's time in seconds since 1970 UTC.
    pub server_time: Option<u64>,
}

/// Error from a store. The comment on each variant states the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreError {
    /// Send fewer requests.
    Throttled,
    /// Sign with the time of the store's clock.
    Skewed,
    /// Use new credentials.
    Expired,
    /// Use another region.
    WrongRegion,
    /// Use credentials with more permissions.
    Denied,
    /// Use a bucket that exists.
    NoBucket,
    /// Use a key that exists.
    NoKey,
    /// Restore the object from the archive.
    Archived,
    /// Use the right credentials.
    BadCredentials,
    /// Try again.
    Transient,
    /// No remedy is known, so a person must read the message.
    Other,
}

impl ErrorDocument {
    /// Reads a body, which can be truncated. Returns `None` if it is not an error document.
    pub fn read(body: &[u8]) -> Option<Self> {
        if !Self::is_document(body) {
            return None;
        }
        let text = body.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let mut reading = ErrorDocumentReader::default();
        let mut reader = Reader::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
        // Reading stops at the end or at the first error. Everything read so far is used.
        while let Ok(event) = reader.read_event() {
            match event {
                Event::Start(start) if !reading.open(start.local_name().as_ref()) => break,
                Event::End(_) if !reading.close() => break,
                Event::Text(text) => reading.add(&text),
                Event::CData(text) => reading.add(&text),
                Event::GeneralRef(reference) => {
                    if let Ok(Some(character)) = reference.resolve_char_ref() {
                        reading.add(character.encode_utf8(&mut [0; 4]));
                    } else {
                        reading.add(quick_xml::escape::resolve_xml_entity(&reference).unwrap_or_default());
                    }
                }
                Event::DocType(_) | Event::Eof => break,
                _ => {}
            }
        }
        Some(reading.fault)
    }

    /// Returns whether a body that begins with `start` is an error document.
    pub fn is_document(start: &[u8]) -> bool {
        let mut rest = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
        while let Some(behind) = behind_note(rest) {
            rest = behind.trim_ascii_start();
        }
        rest.strip_prefix(b"<Error")
            .is_some_and(|rest| matches!(rest, [] | [b'>' | b'/' | b' ' | b'\t' | b'\r' | b'\n', ..]))
    }

    /// Returns the meaning of the error code, or the meaning of the status if the code is unknown.
    pub fn meaning(&self, status: u16) -> StoreError {
        match self.code.as_str() {
            "SlowDown"
            | "ServiceUnavailable"
            | "RequestLimitExceeded"
            | "TooManyRequests"
            | "BandwidthLimitExceeded" => StoreError::Throttled,
            code if code.starts_with("Throttling") => StoreError::Throttled,
            "RequestTimeTooSkewed" | "RequestExpired" => StoreError::Skewed,
            "ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" => StoreError::Expired,
            "PermanentRedirect" | "TemporaryRedirect" | "IllegalLocationConstraintException" => {
                StoreError::WrongRegion
            }
            "AuthorizationHeaderMalformed" if self.region.is_some() => StoreError::WrongRegion,
            // versitygw uses the second code.
            "InvalidAccessKeyId"
            | "XAdminUserNotFound"
            | "SignatureDoesNotMatch"
            | "InvalidToken"
            | "InvalidTokenId"
            | "InvalidSecurity"
            | "AuthorizationHeaderMalformed" => StoreError::BadCredentials,
            "AccessDenied" | "AllAccessDisabled" => StoreError::Denied,
            "NoSuchBucket" => StoreError::NoBucket,
            "NoSuchKey" => StoreError::NoKey,
            "InvalidObjectState" => StoreError::Archived,
            "InternalError" | "RequestTimeout" | "OperationAborted" => StoreError::Transient,
            _ => StoreError::of_status(status),
        }
    }

    /// Returns advice for the user as a single clause. Returns `None` if there is no advice, or if the message already
    /// contains it.
    pub fn advice(&self, status: u16, is_signed: bool, bucket: &str) -> Option<String> {
        let text = match self.meaning(status) {
            StoreError::Denied if is_signed => {
                format!(
                    "check that the credentials allow s3:ListBucket and s3:GetObject on {bucket}; if the \
                     bucket charges its readers, add --requester-pays"
                )
            }
            StoreError::Denied => {
                format!(
                    "{bucket} does not seem to be public; give credentials (AWS_ACCESS_KEY_ID, --profile) \
                     without --no-sign-request"
                )
            }
            StoreError::NoBucket => {
                format!("check the bucket name {bucket} and the endpoint (--endpoint-url)")
            }
            StoreError::BadCredentials => match self.code.as_str() {
                "InvalidAccessKeyId" | "XAdminUserNotFound" => {
                    "the store does not know the access key; check that AWS_ACCESS_KEY_ID, or the profile's \
                     key, belongs to this store"
                        .into()
                }
                "SignatureDoesNotMatch" => {
                    "check that AWS_SECRET_ACCESS_KEY, or the profile's secret, belongs to this access key"
                        .into()
                }
                // MinIO uses the second code.
                "InvalidToken" | "InvalidTokenId" => {
                    "check that the session token is complete and belongs to this access key".into()
                }
                _ => "check the access key and the secret key".into(),
            },
            StoreError::WrongRegion => match (&self.region, &self.endpoint) {
                (Some(region), _) => format!("{bucket} is in another region; use --region {region}"),
                (None, Some(endpoint)) => {
                    format!("{bucket} is at {endpoint}; set its region with --region")
                }
                (None, None) => format!("{bucket} is in another region; set its region with --region"),
            },
            StoreError::Expired => "the credentials have expired; get new ones".into(),
            StoreError::Skewed => "correct this machine's clock".into(),
            StoreError::Throttled => {
                "the store is throttling requests; try again later or with a lower --concurrency".into()
            }
            StoreError::Transient => "try again later".into(),
            StoreError::NoKey | StoreError::Archived | StoreError::Other => return None,
        };
        Some(text)
    }
}

impl StoreError {
    /// Returns the meaning of a status. Used if the error code is unknown or the document is missing.
    pub fn of_status(status: u16) -> Self {
        match status {
            429 | 503 => StoreError::Throttled,
            301 | 307 => StoreError::WrongRegion,
            401 | 403 => StoreError::Denied,
            408 | 500 | 502 | 504 => StoreError::Transient,
            _ => StoreError::Other,
        }
    }
}

/// Returns the text that follows a declaration, an instruction or a comment.
fn behind_note(text: &[u8]) -> Option<&[u8]> {
    let end: &[u8] = match text {
        [b'<', b'?', ..] => b"?>",
        [b'<', b'!', b'-', b'-', ..] => b"-->",
        _ => return None,
    };
    memchr::memmem::find(text, end).map(|at| &text[at + end.len()..])
}

/// The error document read so far.
#[derive(Default)]
struct ErrorDocumentReader {
    fault: ErrorDocument,
    depth: usize,
    element: String,
    text: String,
}

impl ErrorDocumentReader {
    /// Begins an element. Returns whether to continue reading.
    fn open(&mut self, element: &str) -> bool {
        self.depth += 1;
        if self.depth == 2 {
            element.clone_into(&mut self.element);
            self.text.clear();
        }
        self.depth <= XML_DEPTH_MAX
    }

    fn add(&mut self, text: &str) {
        let space = VALUE_BYTES_MAX.saturating_sub(self.text.len());
        if self.depth == 2 {
            self.text.push_str(&text[..text.floor_char_boundary(space)]);
        }
    }

    /// Ends an element. Returns whether to continue reading.
    fn close(&mut self) -> bool {
        if self.depth == 2 {
            self.take();
        }
        self.depth = self.depth.saturating_sub(1);
        self.depth > 0
    }

    /// Stores the value of an element that has ended. If an element occurs twice, the first occurrence applies.
    fn take(&mut self) {
        let value = name::for_display(self.text.trim().as_bytes());
        let fault = &mut self.fault;
        match self.element.as_str() {
            _ if value.is_empty() => {}
            "Code" if fault.code.is_empty() => fault.code = value,
            "Message" if fault.message.is_empty() => fault.message = value,
            "Region" => _ = fault.region.get_or_insert(value),
            "Endpoint" => _ = fault.endpoint.get_or_insert(value),
            "ServerTime" => fault.server_time = parse_utc_to_the_second(value.as_bytes()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fault(inner: &str) -> ErrorDocument {
        ErrorDocument::read(format!("<?xml version=\"1.0\"?>\n<Error>{inner}</Error>").as_bytes()).unwrap()
    }

    fn coded(code: &str) -> ErrorDocument {
        fault(&format!("<Code>{code}</Code>"))
    }

    #[test]
    fn a_document_says_what_is_wrong() {
        let found = fault(
            "<Code>RequestTimeTooSkewed</Code><Message>It&apos;s &lt;old&gt;</Message>\
             <RequestTime>20261120T200800Z</RequestTime><ServerTime>2026-11-20T21:08:00Z</ServerTime>\
             <Region>eu-central-1</Region><Endpoint>b.s3.test</Endpoint><Details><Code>x</Code></Details>",
        );

        let expected = ErrorDocument {
            code: "RequestTimeTooSkewed".into(),
            message: "It's <old>".into(),
            region: Some("eu-central-1".into()),
            endpoint: Some("b.s3.test".into()),
            server_time: Some(1_795_208_880),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_cut_document_says_what_it_has() {
        let body = b"<Error><Code>SlowDown</Code><Message>Please red";

        assert_eq!(
            ErrorDocument::read(body).unwrap(),
            ErrorDocument { code: "SlowDown".into(), ..ErrorDocument::default() }
        );
        assert_eq!(ErrorDocument::read(b"<Error"), Some(ErrorDocument::default()));
        assert_eq!(ErrorDocument::read(b"<Error><Code>A</Code>\xff</Error>").unwrap().code, "A");
    }

    #[test]
    fn a_session_token_has_advice_of_its_own() {
        let token = fault("<Code>InvalidTokenId</Code>").advice(403, true, "bkt").unwrap();
        assert!(token.contains("session token"), "{token}");
    }

    #[test]
    fn its_texts_are_short_and_can_be_shown() {
        let found =
            fault(&format!("<Code>a\u{1b}[2J\u{202e}</Code><Message>{}</Message>", "\u{e9}".repeat(100_000)));

        assert_eq!(found.code, "a\\u{1b}[2J\\u{202e}");
        assert!(found.message.len() < 300);
    }

    #[test]
    fn only_an_error_document_is_one() {
        for start in [
            "<Error>",
            "<Error",
            "<Error/>",
            "<Error xmlns='x'>",
            "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\n<Error><Code>",
            "<?xml version='1.0'?><!-- a --><Error>",
        ] {
            assert!(ErrorDocument::is_document(start.as_bytes()), "{start}");
        }
        for start in [
            "",
            "<",
            "<Erro",
            "<ErrorResponse>",
            "<error>",
            "x<Error>",
            "<?xml <Error>",
            "<a><Error>",
            "<!-- <Error>",
        ] {
            assert!(!ErrorDocument::is_document(start.as_bytes()), "{start}");
            assert_eq!(ErrorDocument::read(start.as_bytes()), None, "{start}");
        }
    }

    #[test]
    fn a_code_has_its_meaning_whatever_the_status() {
        for (code, meaning) in [
            ("SlowDown", StoreError::Throttled),
            ("ThrottlingException", StoreError::Throttled),
            ("RequestTimeTooSkewed", StoreError::Skewed),
            ("RequestExpired", StoreError::Skewed),
            ("ExpiredToken", StoreError::Expired),
            ("PermanentRedirect", StoreError::WrongRegion),
            ("AuthorizationHeaderMalformed", StoreError::BadCredentials),
            ("SignatureDoesNotMatch", StoreError::BadCredentials),
            ("AccessDenied", StoreError::Denied),
            ("NoSuchBucket", StoreError::NoBucket),
            ("NoSuchKey", StoreError::NoKey),
            ("InternalError", StoreError::Transient),
        ] {
            for status in [200, 400, 403, 503] {
                assert_eq!(coded(code).meaning(status), meaning, "{code} {status}");
            }
        }
        let malformed = fault("<Code>AuthorizationHeaderMalformed</Code><Region>x</Region>");
        assert_eq!(malformed.meaning(400), StoreError::WrongRegion);
    }

    #[test]
    fn an_unknown_code_has_the_meaning_of_the_status() {
        for (status, meaning) in [
            (503, StoreError::Throttled),
            (429, StoreError::Throttled),
            (500, StoreError::Transient),
            (403, StoreError::Denied),
            (301, StoreError::WrongRegion),
            (400, StoreError::Other),
            (404, StoreError::Other),
            (200, StoreError::Other),
        ] {
            assert_eq!(coded("Strange").meaning(status), meaning, "{status}");
            assert_eq!(fault("").meaning(status), meaning, "{status}");
        }
    }

    #[test]
    fn advice_says_what_to_do() {
        let moved = fault("<Code>PermanentRedirect</Code><Endpoint>b.s3.test</Endpoint>");
        let elsewhere = fault("<Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region>");
        for (fault, is_signed, part) in [
            (coded("AccessDenied"), false, "give credentials"),
            (coded("AccessDenied"), true, "s3:ListBucket"),
            (coded("NoSuchBucket"), true, "--endpoint-url"),
            (coded("InvalidAccessKeyId"), true, "access key"),
            (coded("SignatureDoesNotMatch"), true, "AWS_SECRET_ACCESS_KEY"),
            (moved, true, "b.s3.test"),
            (elsewhere, true, "--region eu-west-3"),
            (coded("ExpiredToken"), true, "expired"),
            (coded("RequestTimeTooSkewed"), true, "clock"),
            (coded("SlowDown"), true, "throttling requests"),
        ] {
            let advice = fault.advice(400, is_signed, "bkt").unwrap();
            assert!(advice.contains(part), "{advice}");
        }
        assert_eq!(coded("NoSuchKey").advice(404, true, "bkt"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_read(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let document = [b"<Error>", body.as_slice()].concat();
            prop_assert!(ErrorDocument::read(&document).is_some());
            let _ = ErrorDocument::read(&body);
        }
    }
}
