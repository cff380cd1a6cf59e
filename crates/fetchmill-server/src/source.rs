//! The body of a reply, split into pieces to send. It comes from memory or from a stream, and can be chunked.

use std::io;

use crate::content::Stream;

/// Maximum size of a chunk in bytes. A small body is split into three chunks.
const CHUNK_BYTES_MAX: usize = 16 * 1024;

/// A body that is sent piece by piece, in chunks if required.
pub(crate) struct Source {
    body: Vec<u8>,
    at: usize,
    stream: Option<Box<dyn Stream>>,
    left: u64,
    pub(crate) chunked: bool,
    /// Bytes to send together with the end of the body.
    pub(crate) behind: Vec<u8>,
}

impl Source {
    pub(crate) fn new(body: Vec<u8>, left: u64, stream: Option<Box<dyn Stream>>) -> Self {
        Source { body, at: 0, stream, left, chunked: false, behind: Vec::new() }
    }

    /// Appends the next piece. Returns `false` if this was the last one.
    pub(crate) fn piece(&mut self, limit: usize, out: &mut Vec<u8>) -> io::Result<bool> {
        if self.chunked {
            self.chunks(limit, out)?;
        } else if self.left > 0 {
            self.raw(limit, out)?;
        }
        if self.left > 0 {
            return Ok(true);
        }
        if self.chunked {
            out.extend_from_slice(b"0\r\n\r\n");
        }
        out.append(&mut self.behind);
        Ok(false)
    }

    fn chunks(&mut self, limit: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let chunk = (self.body.len() / 3 + 1).min(CHUNK_BYTES_MAX);
        let end = out.len() + limit;
        while self.left > 0 && out.len() < end {
            let mut data = Vec::new();
            self.raw(chunk, &mut data)?;
            out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
            out.extend_from_slice(&data);
            out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Appends up to `limit` bytes of the body. If the body ends before its announced size, this is an error.
    fn raw(&mut self, limit: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let limit = usize::try_from(self.left).unwrap_or(usize::MAX).min(limit);
        let read = if let Some(stream) = &mut self.stream {
            stream.read(limit, out)?
        } else {
            let end = self.body.len().min(self.at + limit);
            out.extend_from_slice(&self.body[self.at..end]);
            end - std::mem::replace(&mut self.at, end)
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(())
    }
}
