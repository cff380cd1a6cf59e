//! What a task holds: a connection of its own, or its share of one that carries many requests at a time.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::HeaderMap;
use http::uri::Authority;

use super::http2::{self, Http2};
use super::known::Origin;
use super::phases::Moments;
use super::{Broken, Connection, Phases, Reach, Replied, Unused, Watch};
use crate::error::{Error, Result};
use crate::http1::{BodySink, Call, Version};
use crate::outcome::FailureKind;

/// The field that asks for a part of an object, as this crate writes it.
pub const RANGE: &str = "Range";

/// What an origin is asked for.
#[derive(Debug, Clone, Copy)]
pub enum Asked<'a> {
    /// The object with this name: the origin's template says where it is.
    Name(&'a [u8]),
    /// Path and query, encoded.
    Path(&'a str),
    /// Anything else.
    Call(&'a Call<'a>),
}

/// Counts as an open connection while it lives.
#[derive(Debug)]
pub(super) struct Counted(Rc<Cell<usize>>);

impl Counted {
    pub(super) fn new(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Counted(Rc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A connection of HTTP/2, of all that have a share of it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) http2: Http2,
    /// None through a proxy.
    pub(super) address: Option<SocketAddr>,
    pub(super) _counted: Counted,
}

/// A connection of one task.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) connection: Connection,
    /// None through a proxy.
    pub(super) address: Option<SocketAddr>,
    pub(super) _counted: Counted,
}

/// A connection, or a share of one.
#[derive(Debug)]
pub(super) enum Link {
    Http1(Box<Own>),
    Http2(Rc<Shared>),
}

impl Link {
    pub(super) fn look(&self) -> Unused {
        match self {
            Link::Http1(own) => own.connection.look(),
            Link::Http2(shared) if shared.http2.is_closed() => Unused::Closed,
            Link::Http2(_) => Unused::Quiet,
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        match self {
            Link::Http1(own) => own.address,
            Link::Http2(shared) => shared.address,
        }
    }
}

/// What requests to an origin say over HTTP/2.
#[derive(Debug)]
pub(super) struct Http2Parts {
    authority: Authority,
    fields: HeaderMap,
}

impl Http2Parts {
    pub(super) fn new(authority: &str, fields: &[(&str, &str)]) -> Result<Self> {
        let authority = Authority::try_from(authority)
            .map_err(|_| Error::Usage(format!("{authority} is no host that HTTP/2 can carry")))?;
        Ok(Http2Parts { authority, fields: Http2::fields(fields)? })
    }

    /// With the fields of one request instead of those of the same name.
    fn fields_with(&self, own: &[(String, String)]) -> std::result::Result<HeaderMap, Broken> {
        let refused = || Broken::new(FailureKind::Framing, "a header field cannot be sent over HTTP/2");
        let mut fields = self.fields.clone();
        for (name, _) in own {
            fields.remove(name.as_str());
        }
        for (name, value) in own {
            let name = http::HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
            fields.append(name, http::HeaderValue::from_str(value).map_err(|_| refused())?);
        }
        Ok(fields)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Lane {
    pub(super) origin: Option<Rc<Origin>>,
    pub(super) link: Option<Link>,
    /// Of the last connection here.
    address: Option<SocketAddr>,
    /// Of the last reply.
    version: Option<Version>,
    phases: Phases,
    is_timed: bool,
    /// The connection was opened for the request that follows: its phases belong to the same attempt.
    is_fresh: bool,
}

/// Memory that the tasks of a thread share: for a request that is written, and for what is read.
#[derive(Debug)]
pub struct Buffers {
    /// A request of HTTP/1.1.
    pub request: RefCell<Vec<u8>>,
    /// What is read into.
    pub scratch: RefCell<Vec<u8>>,
}

impl Default for Buffers {
    fn default() -> Self {
        Buffers { request: RefCell::default(), scratch: RefCell::new(vec![0; crate::limits::READ_BYTES]) }
    }
}

impl Lane {
    /// It comes to an origin; without a connection yet.
    pub(super) fn come_to(&mut self, origin: &Rc<Origin>, is_timed: bool) {
        *self = Lane { origin: Some(Rc::clone(origin)), is_timed, ..Lane::default() };
    }

    /// It gets a connection that waited here.
    pub(super) fn take(&mut self, link: Link) {
        self.address = link.address();
        self.link = Some(link);
    }

    /// A connection was opened for it, or was not.
    pub(super) fn opened(&mut self, link: Option<Link>, phases: Phases) {
        self.phases = phases;
        self.is_fresh = link.is_some();
        self.version = None;
        self.address = link.as_ref().and_then(Link::address);
        self.link = link;
    }

    /// The other end of the last connection here, also once that is closed; none through a proxy.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The version of HTTP of the last reply; none when no head came.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// What the last attempt took, with [`PoolSettings::times_phases`](super::PoolSettings): opening a connection and
    /// the exchange on it, or an exchange on a kept one.
    pub fn phases(&self) -> Phases {
        self.phases
    }

    /// Whether the open connection leads no farther than this. The caller closes one that does: another is opened only
    /// as far as it may lead.
    pub fn may_be_reused(&self, reach: Reach) -> bool {
        match (&self.origin, &self.link) {
            (Some(origin), Some(link)) => origin.is_within(reach, link.address()),
            _ => true,
        }
    }

    /// Its origin has sent a reply that nobody asked for.
    pub fn suspect_origin(&self) {
        self.origin.iter().for_each(|origin| origin.is_suspicious.set(true));
    }

    /// Whether it has.
    pub fn is_suspicious(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.is_suspicious.get())
    }

    /// Whether there is a connection.
    pub fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Whether other requests are on the connection at the same time: replies are told apart by their stream.
    pub fn is_shared(&self) -> bool {
        matches!(self.link, Some(Link::Http2(_)))
    }

    /// Whether it is at this origin, with or without an open connection.
    pub fn is_at(&self, origin: &Rc<Origin>) -> bool {
        self.origin.as_ref().is_some_and(|own| Rc::ptr_eq(own, origin))
    }

    /// Complete replies on the connection.
    pub fn replies(&self) -> u64 {
        match &self.link {
            None => 0,
            Some(Link::Http1(own)) => own.connection.replies(),
            Some(Link::Http2(shared)) => shared.http2.replies(),
        }
    }

    /// Closes the connection; of one that is shared, gives back the share.
    pub fn close(&mut self) {
        self.link = None;
    }

    /// The same after a request that failed: nobody else is to share a connection that may be dead.
    pub fn abandon(&mut self) {
        if let (Some(origin), Some(Link::Http2(shared))) = (&self.origin, &self.link) {
            origin.forget_http2(shared);
        }
        self.close();
    }

    /// What a look at the connection tells; without one there is nothing to tell.
    pub fn look(&self) -> Unused {
        self.link.as_ref().map_or(Unused::Quiet, Link::look)
    }

    /// Waits for something to come, or for the watch.
    pub async fn listen(&self, watch: &Watch) {
        if let Some(Link::Http1(own)) = &self.link {
            own.connection.listen(watch).await;
        }
    }

    /// Ready when something comes while the connection is unused.
    pub fn poll_input(&self, context: &mut Context<'_>) -> Poll<()> {
        match &self.link {
            Some(Link::Http1(own)) => own.connection.poll_input(context),
            // It is read by a task of its own, and looked at before it is used.
            Some(Link::Http2(_)) | None => Poll::Pending,
        }
    }

    /// Sends a request on the open connection and awaits the reply to its end.
    pub async fn exchange(
        &mut self,
        asked: Asked<'_>,
        buffers: &Buffers,
        body: &mut impl BodySink,
        watch: &Watch,
        max_body: u64,
    ) -> std::result::Result<Replied, Broken> {
        self.begin();
        let (Some(origin), Some(link)) = (&self.origin, &mut self.link) else {
            return Err(Broken::unconnected());
        };
        watch.start();
        let (replied, first_byte) = match link {
            Link::Http1(own) => {
                let replied = exchange_http1(origin, &mut own.connection, asked, buffers, body, watch).await;
                self.version = own.connection.head().map(|head| head.version);
                (replied, own.connection.moments.first_byte())
            }
            Link::Http2(shared) => {
                let mut moments = Moments::new(self.is_timed);
                let replied =
                    exchange_http2(origin, &shared.http2, asked, body, watch, max_body, &mut moments).await;
                self.version = moments.has_come().then_some(Version::Http2);
                (replied, moments.first_byte())
            }
        };
        watch.rest();
        self.phases.first_byte = first_byte;
        if !self.is_shared() && replied.is_ok_and(|replied| replied.is_cut) {
            // The rest of the body is on its way.
            self.close();
        }
        replied
    }

    /// An exchange begins: with the connection that was opened for it, or on a kept one as an attempt of its own.
    fn begin(&mut self) {
        self.version = None;
        if !self.is_timed {
            return;
        }
        if !std::mem::take(&mut self.is_fresh) {
            self.phases = Phases::default();
        }
        self.phases.started.get_or_insert_with(Instant::now);
    }

    /// The open connection of HTTP/1.1, for who moves its bytes himself: then [`Lane::phases`] ends with the connecting,
    /// and [`Lane::version`] is none.
    pub fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.link {
            Some(Link::Http1(own)) => Some(&mut own.connection),
            Some(Link::Http2(_)) | None => None,
        }
    }
}

async fn exchange_http1(
    origin: &Origin,
    connection: &mut Connection,
    asked: Asked<'_>,
    buffers: &Buffers,
    body: &mut impl BodySink,
    watch: &Watch,
) -> std::result::Result<Replied, Broken> {
    {
        let mut request = buffers.request.borrow_mut();
        request.clear();
        origin.write(asked, &mut request);
        let has_range =
            matches!(asked, Asked::Call(call) if call.fields.iter().any(|(name, _)| name == RANGE));
        if has_range { connection.send_range(&request) } else { connection.send(&request) }?;
    }
    connection.receive(body, &buffers.scratch, watch).await
}

async fn exchange_http2(
    origin: &Origin,
    http2: &Http2,
    asked: Asked<'_>,
    body: &mut impl BodySink,
    watch: &Watch,
    max_body: u64,
    moments: &mut Moments,
) -> std::result::Result<Replied, Broken> {
    let parts = origin.http2_parts().map_err(|_| Broken::unconnected())?;
    let mut target = Vec::new();
    let mut own = None;
    let (method, path, content) = match asked {
        Asked::Name(name) => {
            origin.template.write_target(name, &mut target);
            ("GET", String::from_utf8_lossy(&target), None)
        }
        Asked::Path(path) => ("GET", path.into(), None),
        Asked::Call(call) => {
            own = (!call.fields.is_empty()).then(|| parts.fields_with(call.fields)).transpose()?;
            (call.method, call.path.into(), call.body)
        }
    };
    let call = http2::Call {
        method,
        is_tls: origin.key.is_tls(),
        authority: &parts.authority,
        path: &path,
        fields: own.as_ref().unwrap_or(&parts.fields),
        body: content.unwrap_or_default(),
    };
    http2.exchange(&call, body, watch, max_body, moments).await
}
