//! Identifies the S3 operation of a request.

use super::failure::Failure;
use super::head::RequestHead;
use super::uri::Query;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    List,
    ListUploads,
    ListParts,
    Location,
    Get,
    Head,
    HeadBucket,
    Put,
    PutPart,
    Create,
    Complete,
    Abort,
    Delete,
}

/// Parameters that request something other than the bytes of an object.
const OTHER: [&str; 9] =
    ["acl", "attributes", "legal-hold", "policy", "retention", "select", "tagging", "torrent", "versionId"];

impl Operation {
    pub(crate) fn of(head: &RequestHead<'_>, has_key: bool, query: &Query) -> Result<Operation, Failure> {
        if let Some(other) = OTHER.into_iter().find(|name| query.has(name)) {
            return Err(Failure::not_implemented(other));
        }
        match (head.method, has_key) {
            (b"GET", false) if query.get("list-type") == Some(b"2") => Ok(Operation::List),
            (b"GET", false) if query.has("uploads") => Ok(Operation::ListUploads),
            (b"GET", false) if query.has("location") => Ok(Operation::Location),
            (b"GET", false) => Err(Failure::not_implemented("list-type")),
            (b"GET", true) if query.has("uploadId") => Ok(Operation::ListParts),
            (b"GET", true) => Ok(Operation::Get),
            (b"HEAD", false) => Ok(Operation::HeadBucket),
            (b"HEAD", true) => Ok(Operation::Head),
            (b"PUT", true) if head.field("x-amz-copy-source").is_some() => {
                Err(Failure::not_implemented("x-amz-copy-source"))
            }
            (b"PUT", true) if query.has("uploadId") => Ok(Operation::PutPart),
            (b"PUT", true) => Ok(Operation::Put),
            (b"POST", true) if query.has("uploads") => Ok(Operation::Create),
            (b"POST", true) if query.has("uploadId") => Ok(Operation::Complete),
            (b"DELETE", true) if query.has("uploadId") => Ok(Operation::Abort),
            (b"DELETE", true) => Ok(Operation::Delete),
            (b"PUT" | b"POST" | b"DELETE", _) => Err(Failure::not_implemented("method")),
            _ => Err(Failure::new(
                405,
                "MethodNotAllowed",
                "The specified method is not allowed against this resource.",
            )),
        }
    }

    /// Returns whether the operation only reads. If so, a public bucket allows it to everyone.
    pub(crate) fn reads(self) -> bool {
        matches!(self, Operation::List | Operation::Get | Operation::Head | Operation::HeadBucket)
    }
}
