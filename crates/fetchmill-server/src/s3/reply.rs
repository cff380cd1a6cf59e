//! S3 replies. Each reply contains a date and a number.

use super::clock;
use super::failure::Failure;
use super::xml;
use crate::reply::{number, reason};

pub(crate) const XML: &str = "application/xml";
pub(crate) const BINARY: &str = "binary/octet-stream";

/// A date in seconds, cached as text. Most replies have the same date as the previous reply.
#[derive(Debug, Default)]
pub(crate) struct Date {
    second: i64,
    text: String,
}

impl Date {
    pub(crate) fn at(&mut self, milliseconds: i64) -> &str {
        let second = milliseconds.div_euclid(1000);
        if self.text.is_empty() || second != self.second {
            *self = Date { second, text: clock::http(milliseconds) };
        }
        &self.text
    }
}

/// A reply that is being written.
pub(crate) struct Reply<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) date: &'a str,
    /// Cached modification date of the previous object.
    pub(crate) modified: &'a mut Date,
    /// Number of the reply.
    pub(crate) id: u64,
    /// Whether the reply ends with its head.
    pub(crate) head_only: bool,
    pub(crate) keep_alive: bool,
}

impl Reply<'_> {
    /// Starts the head.
    pub(crate) fn status(&mut self, status: u16) {
        self.out.extend_from_slice(b"HTTP/1.1 ");
        number(u64::from(status), self.out);
        self.out.push(b' ');
        self.out.extend_from_slice(reason(status).as_bytes());
        let id = self.id;
        self.out.extend_from_slice(b"\r\nx-amz-request-id: ");
        self.out.extend_from_slice(&id_text(id));
        self.field("\r\nDate", self.date.as_bytes());
    }

    /// Adds a field to the head.
    pub(crate) fn field(&mut self, name: &str, value: &[u8]) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Adds the modification time of the object.
    pub(crate) fn last_modified(&mut self, milliseconds: i64) {
        self.out.extend_from_slice(b"Last-Modified: ");
        self.out.extend_from_slice(self.modified.at(milliseconds).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Adds the `ETag`.
    pub(crate) fn etag(&mut self, etag: &[u8]) {
        self.out.extend_from_slice(b"ETag: \"");
        self.out.extend_from_slice(etag);
        self.out.extend_from_slice(b"\"\r\n");
    }

    /// Ends the head and adds the body.
    pub(crate) fn body(&mut self, content_type: &str, body: &[u8]) {
        self.field("Content-Type", content_type.as_bytes());
        self.out.extend_from_slice(b"Content-Length: ");
        number(body.len() as u64, self.out);
        self.out.extend_from_slice(b"\r\n");
        self.end();
        if !self.head_only {
            self.out.extend_from_slice(body);
        }
    }

    /// Ends the head of a reply without a body.
    pub(crate) fn empty(&mut self, status: u16) {
        // A reply with status 204 must not have a length.
        if status != 204 {
            self.out.extend_from_slice(b"Content-Length: 0\r\n");
        }
        self.end();
    }

    fn end(&mut self) {
        if !self.keep_alive {
            self.out.extend_from_slice(b"Connection: close\r\n");
        }
        self.out.extend_from_slice(b"Server: AmazonS3\r\n\r\n");
    }

    /// Writes a complete reply that contains a document.
    pub(crate) fn document(&mut self, body: &[u8]) {
        self.status(200);
        self.body(XML, body);
    }

    /// Writes a complete reply that contains a failure.
    pub(crate) fn failure(&mut self, failure: &Failure) {
        self.status(failure.status);
        if let Some(region) = &failure.bucket_region {
            self.field("x-amz-bucket-region", region.as_bytes());
        }
        let mut body = xml::DECLARATION.to_vec();
        xml::open("Error", &mut body);
        xml::element("Code", failure.code.as_bytes(), &mut body);
        xml::element("Message", failure.message.as_bytes(), &mut body);
        for (name, value) in &failure.details {
            xml::element(name, value, &mut body);
        }
        xml::element("RequestId", id_text(self.id), &mut body);
        xml::close("Error", &mut body);
        self.body(XML, &body);
    }
}

/// Returns a number as sixteen hexadecimal digits.
fn id_text(id: u64) -> [u8; 16] {
    let mut text = [0; 16];
    for (position, digit) in text.iter_mut().enumerate() {
        *digit = b"0123456789ABCDEF"[(id >> (60 - 4 * position) & 15) as usize];
    }
    text
}
