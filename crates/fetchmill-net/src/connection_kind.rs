//! An open connection, which one task owns or several requests share.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::HeaderMap;
use http::uri::Authority;

use super::http2::Http2Connection;
use super::{BrokenExchange, Http1Connection, IdleState};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::http1::RequestParts;
use fetchmill_model::outcome::FailureKind;
use fetchmill_model::reply::certainty::ConnectionReplies;
use fetchmill_model::target::TargetList;

/// Name of the header field that requests part of an object, spelled as this crate sends it.
pub const RANGE: &str = "Range";
/// Name of the header field with the version that the requested part must belong to.
pub const IF_RANGE: &str = "If-Range";

/// The target of a request.
#[derive(Debug, Clone, Copy)]
pub enum RequestTarget<'a> {
    /// An object's name, from which the origin's template derives the URL.
    Name(&'a [u8]),
    /// Encoded path and query.
    Path(&'a str),
    /// Any other request.
    Call(&'a RequestParts<'a>),
}

impl RequestTarget<'_> {
    /// Returns whether the request is for a part of an object. If it is not, the reply must not be a part.
    pub(super) fn has_range(&self) -> bool {
        matches!(self, RequestTarget::Call(call) if call.fields.iter().any(|(name, _)| name == RANGE))
    }
}

/// Counts as one open connection while this value exists.
#[derive(Debug)]
pub(super) struct ConnectionCount(Rc<Cell<usize>>);

impl ConnectionCount {
    pub(super) fn new(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        ConnectionCount(Rc::clone(open))
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// An HTTP/2 connection, owned jointly by the tasks that share it.
#[derive(Debug)]
pub(super) struct SharedHttp2 {
    pub(super) http2: Http2Connection,
    /// Remote address. `None` through a proxy.
    pub(super) address: Option<SocketAddr>,
    pub(super) _counted: ConnectionCount,
}

/// A connection owned by one task.
#[derive(Debug)]
pub(super) struct OwnHttp1 {
    pub(super) connection: Http1Connection,
    /// Remote address. `None` through a proxy.
    pub(super) address: Option<SocketAddr>,
    pub(super) replies: ConnectionReplies,
    /// Targets of the replies that most recently became certain.
    pub(super) last_certain: RefCell<TargetList>,
    _counted: ConnectionCount,
}

impl OwnHttp1 {
    pub(super) fn new(
        connection: Http1Connection,
        address: Option<SocketAddr>,
        counted: ConnectionCount,
    ) -> Self {
        OwnHttp1 {
            connection,
            address,
            replies: ConnectionReplies::default(),
            last_certain: RefCell::default(),
            _counted: counted,
        }
    }
}

/// A connection, or a share of one.
#[derive(Debug)]
pub(super) enum ConnectionKind {
    Http1(Box<OwnHttp1>),
    Http2(Rc<SharedHttp2>),
}

impl ConnectionKind {
    pub(super) fn look(&self) -> IdleState {
        match self {
            ConnectionKind::Http1(own) => own.connection.look(),
            ConnectionKind::Http2(shared) if shared.http2.is_closed() => IdleState::Closed,
            ConnectionKind::Http2(_) => IdleState::Quiet,
        }
    }

    /// Returns `Ready` once bytes have arrived on the unused connection. An HTTP/2 connection never returns `Ready`:
    /// its own task reads it, and it is checked before use.
    pub(super) fn poll_input(&self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            ConnectionKind::Http1(own) => own.connection.poll_input(context),
            ConnectionKind::Http2(_) => Poll::Pending,
        }
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            ConnectionKind::Http1(own) => own.address,
            ConnectionKind::Http2(shared) => shared.address,
        }
    }
}

/// Parts shared by all HTTP/2 requests to an origin.
#[derive(Debug)]
pub(super) struct Http2Parts {
    pub(super) authority: Authority,
    pub(super) fields: HeaderMap,
}

impl Http2Parts {
    pub(super) fn new(authority: &str, fields: &[(&str, &str)]) -> Result<Self> {
        let authority = Authority::try_from(authority)
            .map_err(|_| Error::Usage(format!("{authority} is not a valid host for HTTP/2")))?;
        Ok(Http2Parts { authority, fields: Http2Connection::fields(fields)? })
    }

    /// Returns the common fields merged with those of a request. The fields of the request replace common fields of the
    /// same name.
    pub(super) fn fields_with(
        &self,
        own: &[(String, String)],
    ) -> std::result::Result<HeaderMap, BrokenExchange> {
        let refused =
            || BrokenExchange::new(FailureKind::Framing, "a header field cannot be sent over HTTP/2");
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

/// Adds cookies to the header fields. They follow any cookies that the user set.
pub(super) fn add_cookies(fields: &mut HeaderMap, cookies: &str) -> std::result::Result<(), BrokenExchange> {
    let refused = |_| BrokenExchange::new(FailureKind::Framing, "a cookie cannot be sent over HTTP/2");
    let own = fields.get(http::header::COOKIE).map(|own| [own.as_bytes(), b"; "].concat());
    let value = [own.unwrap_or_default().as_slice(), cookies.as_bytes()].concat();
    let mut value = http::HeaderValue::from_bytes(&value).map_err(refused)?;
    // Keeps sensitive values out of the connection's header table.
    value.set_sensitive(true);
    fields.insert(http::header::COOKIE, value);
    Ok(())
}
