//! Heads of requests, parsed as far as the hosts need. Requests have no body here.

use std::io;

use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::behaviour::Host;

/// Maximum size of a head in bytes. A larger head ends the connection.
const HEAD_MAX: usize = 32 * 1024;
const READ_SIZE: usize = 2 * 1024;

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SiteRequest {
    /// Whether the reply must not have a body, because the method is HEAD.
    pub(super) is_bodiless: bool,
    pub(super) path: String,
    /// The name in `Host`, without the port.
    pub(super) name: String,
    pub(super) is_last: bool,
}

impl SiteRequest {
    /// Parses the bytes before the empty line.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(bytes).ok()?.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path, version) = (words.next()?, words.next()?, words.next()?);
        let mut head = SiteRequest {
            is_bodiless: method == "HEAD",
            path: path.to_owned(),
            name: String::new(),
            is_last: version != "HTTP/1.1",
        };
        for (field, value) in lines.filter_map(|line| line.split_once(':')) {
            if field.eq_ignore_ascii_case("host") {
                value.trim().split(':').next()?.clone_into(&mut head.name);
            } else if field.eq_ignore_ascii_case("connection") {
                head.is_last |= value.trim().eq_ignore_ascii_case("close");
            }
        }
        Some(head)
    }

    /// Returns the requested host. `None` if the name does not belong to a host.
    pub(super) fn host(&self) -> Option<Host> {
        Host::parse(&self.name)
    }
}

/// Bytes that a connection has received but not parsed yet.
#[derive(Debug, Default)]
pub(super) struct RequestReader {
    bytes: Vec<u8>,
}

impl RequestReader {
    /// Returns the next request. `None` at the end of the connection, or if the bytes are not a request.
    pub(super) async fn next(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Option<SiteRequest>> {
        loop {
            if let Some(end) = memmem::find(&self.bytes, b"\r\n\r\n") {
                let head = SiteRequest::parse(&self.bytes[..end]);
                self.bytes.drain(..end + 4);
                return Ok(head);
            }
            if self.bytes.len() > HEAD_MAX {
                return Ok(None);
            }
            self.bytes.reserve(READ_SIZE);
            if stream.read_buf(&mut self.bytes).await? == 0 {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_who_is_asked_for_what() {
        let head = SiteRequest::parse(b"GET /a HTTP/1.1\r\nHOST: good-1.test:8080\r\nAccept: */*").unwrap();

        assert_eq!((head.path.as_str(), head.name.as_str()), ("/a", "good-1.test"));
        assert!(!head.is_bodiless && !head.is_last);
    }

    #[test]
    fn the_last_request_says_so() {
        assert!(SiteRequest::parse(b"GET / HTTP/1.1\r\nConnection: Close").unwrap().is_last);
        assert!(SiteRequest::parse(b"GET / HTTP/1.0").unwrap().is_last);
    }

    #[test]
    fn other_bytes_are_no_request() {
        assert_eq!(SiteRequest::parse(b""), None);
        assert_eq!(SiteRequest::parse(b"\x16\x03\x01\x02\x00"), None);
    }
}
