//! Error replies of S3: a status, a code and a message.

use std::borrow::Cow;

/// A reply that consists of an `<Error>` document.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: Cow<'static, str>,
    /// Additional elements of the document.
    pub(crate) details: Vec<(&'static str, String)>,
    /// Region of the bucket, to be sent in a field of the head.
    pub(crate) bucket_region: Option<Box<str>>,
}

impl Failure {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Failure {
            status,
            code: Cow::Borrowed(code),
            message: message.into(),
            details: Vec::new(),
            bucket_region: None,
        }
    }

    /// Adds an element to the document.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.details.push((name, value.into()));
        self
    }

    pub(crate) fn access_denied() -> Self {
        Failure::new(403, "AccessDenied", "Access Denied")
    }

    pub(crate) fn invalid_argument(message: &'static str) -> Self {
        Failure::new(400, "InvalidArgument", message)
    }

    pub(crate) fn no_such_bucket(bucket: &str) -> Self {
        Failure::new(404, "NoSuchBucket", "The specified bucket does not exist").with("BucketName", bucket)
    }

    pub(crate) fn no_such_key(key: &str) -> Self {
        Failure::new(404, "NoSuchKey", "The specified key does not exist.").with("Key", key)
    }

    pub(crate) fn no_such_upload(id: &str) -> Self {
        let message = "The specified upload does not exist. The upload ID may be invalid, or the upload may have \
                       been aborted or completed.";
        Failure::new(404, "NoSuchUpload", message).with("UploadId", id)
    }

    pub(crate) fn slow_down() -> Self {
        Failure::new(503, "SlowDown", "Please reduce your request rate.")
    }

    pub(crate) fn not_implemented(what: &'static str) -> Self {
        Failure::new(
            501,
            "NotImplemented",
            "A header or query you provided requests a function that is not implemented.",
        )
        .with("Header", what)
    }

    pub(crate) fn precondition(which: &'static str) -> Self {
        Failure::new(
            412,
            "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold",
        )
        .with("Condition", which)
    }

    pub(crate) fn too_large(message: &'static str) -> Self {
        Failure::new(400, "EntityTooLarge", message)
    }
}
