//! An origin, as seen by a thread: how to send requests to it, and its unused and shared connections.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use tokio::sync::Notify;

use super::connection_kind::{ConnectionKind, Http2Parts, SharedHttp2};
use super::http2::Http2Connection;
use super::{AddressPolicy, Alpn, Millis, RequestTarget};
use fetchmill_model::cookies::{ChainCookies, Cookie, RequestPlace};
use fetchmill_model::error::Result;
use fetchmill_model::http1::{RequestParts, RequestTemplate, add_cookies};
use fetchmill_model::origin::{Authorize, OriginFields, OriginKey};
use fetchmill_model::planner::pace::Pace;
use fetchmill_model::reply::certainty::OriginReplies;
use fetchmill_model::reply::patience::Patience;

const HTTP_VERSION: &[u8] = b" HTTP/1.1";
const LINE_END: &[u8] = b"\r\n";

/// An origin with its connections.
#[derive(Debug)]
pub struct OriginConnections {
    /// Key of the origin.
    pub key: OriginKey,
    /// Template for requests to the origin.
    pub template: RequestTemplate,
    /// Rate limit, if any.
    pub pace: Option<Arc<Pace>>,
    /// Statistics of the origin's replies. They determine how long a connection must stay silent before its replies are
    /// certain.
    pub replies: RefCell<OriginReplies>,
    /// How long to wait for a reply before the request is repeated.
    pub patience: Rc<RefCell<Patience>>,
    /// Number of connections waiting for late replies to abandoned requests.
    pub(super) late_replies: Cell<usize>,
    /// Signs requests, if they need a signature. Signed requests use HTTP/1.1.
    pub(super) authorize: Option<Rc<dyn Authorize>>,
    /// Whether the user named the origin. Such an origin may have any address.
    pub(super) is_named: bool,
    /// Buffer for the signed fields of a request.
    pub(super) signed: RefCell<Vec<u8>>,
    pub(super) fields: OriginFields,
    /// Cookies from the user's file for this origin. Some of them apply only to certain paths.
    pub(super) file_cookies: Vec<Cookie>,
    pub(super) addresses: Option<Arc<[SocketAddr]>>,
    /// Unused connections, most recently used last. Each is stored with the time when it became unused.
    pub(super) idle: RefCell<VecDeque<(ConnectionKind, Millis)>>,
    /// Protocol that the server selected last time.
    pub(super) protocol: Cell<Option<Alpn>>,
    /// Whether the server requires HTTP/1.1 although it selects HTTP/2 during the TLS handshake. If so, HTTP/2 is not
    /// offered again.
    pub(super) needs_http1: Cell<bool>,
    /// Connections shared by several requests.
    pub(super) shared: RefCell<Vec<Weak<SharedHttp2>>>,
    /// Maximum number of concurrent requests on the last connection. It also applies to a new connection whose server
    /// has not announced its limit yet.
    pub(super) streams: Cell<usize>,
    pub(super) parts: RefCell<Option<Rc<Http2Parts>>>,
    /// Whether a task is opening a connection that others may share. The other tasks wait for it.
    pub(super) is_connecting: Cell<bool>,
    pub(super) connected: Notify,
}

impl OriginConnections {
    /// Appends an HTTP/1.1 request.
    pub fn write(&self, asked: RequestTarget<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        match asked {
            RequestTarget::Name(name) => self.template.write(name, out),
            RequestTarget::Path(path) => self.template.write_path(path, out),
            RequestTarget::Call(call) => self.template.write_call(call, out),
        }
        if let Some(cookies) = self.cookies_with(asked) {
            add_cookies(out, start, &cookies);
        }
        if let Some(authorize) = &self.authorize {
            let (method, body) = match asked {
                RequestTarget::Call(call) => (call.method, call.body.unwrap_or_default()),
                RequestTarget::Name(_) | RequestTarget::Path(_) => ("GET", &[][..]),
            };
            self.sign(&**authorize, method, body, out);
        }
    }

    /// Returns the cookies for a path, including those set by earlier replies. The result is empty if there are none.
    pub fn cookies_after(&self, chain: &ChainCookies, path: &str) -> String {
        chain.field(&RequestPlace::at(&self.key, path), &self.file_cookies).unwrap_or_default()
    }

    /// Returns the cookies of a request, if any. A call can provide its own cookies.
    pub(super) fn cookies_with<'a>(&self, asked: RequestTarget<'a>) -> Option<Cow<'a, str>> {
        if let RequestTarget::Call(RequestParts { cookies: Some(cookies), .. }) = asked {
            return Some(Cow::Borrowed(*cookies)).filter(|cookies| !cookies.is_empty());
        }
        if self.file_cookies.is_empty() {
            return None;
        }
        let mut target = Vec::new();
        let path = match asked {
            RequestTarget::Name(name) => {
                self.template.write_target(name, &mut target);
                String::from_utf8_lossy(&target)
            }
            RequestTarget::Path(path) => path.into(),
            RequestTarget::Call(call) => call.path.into(),
        };
        Some(self.cookies_after(&ChainCookies::default(), &path))
            .filter(|cookies| !cookies.is_empty())
            .map(Cow::Owned)
    }

    /// Inserts the signed header fields after a request's other fields.
    fn sign(&self, authorize: &dyn Authorize, method: &str, body: &[u8], out: &mut Vec<u8>) {
        let line_end = memchr::memchr(b'\r', out).unwrap_or(out.len());
        let start = method.len() + 1;
        let target = out.get(start..line_end.saturating_sub(HTTP_VERSION.len())).unwrap_or_default();
        // In a request to a proxy, the target has absolute form.
        let target = target.strip_prefix(self.key.text().as_bytes()).unwrap_or(target);
        let mut fields = std::mem::take(&mut *self.signed.borrow_mut());
        fields.clear();
        authorize.write_fields(method, target, body, &mut fields);
        out.truncate(out.len() - body.len() - LINE_END.len());
        out.extend_from_slice(&fields);
        out.extend_from_slice(LINE_END);
        out.extend_from_slice(body);
        *self.signed.borrow_mut() = fields;
    }

    pub(super) fn http2_parts(&self) -> Result<Rc<Http2Parts>> {
        let mut parts = self.parts.borrow_mut();
        if let Some(parts) = &*parts {
            return Ok(Rc::clone(parts));
        }
        let made = Rc::new(Http2Parts::new(self.key.authority(), &self.fields.of(&self.key))?);
        *parts = Some(Rc::clone(&made));
        Ok(made)
    }

    /// Returns whether `reach` allows `address`. `None` means that a proxy made the connection. In that case, the
    /// host's name or literal address is checked.
    pub(super) fn is_within(&self, reach: AddressPolicy, address: Option<SocketAddr>) -> bool {
        match address {
            Some(address) => reach.allows(address.ip()),
            None => reach.allows_host(self.key.host()),
        }
    }

    /// Returns a share of an open connection that `reach` allows.
    pub(super) fn share(&self, reach: AddressPolicy) -> Option<ConnectionKind> {
        let mut all = self.shared.borrow_mut();
        all.retain(|shared| shared.upgrade().is_some_and(|shared| !shared.http2.is_closed()));
        let mut open = all.iter().filter_map(Weak::upgrade);
        // The count includes the reference that this search holds.
        let has_room = |shared: &Rc<SharedHttp2>| self.streams_of(&shared.http2) >= Rc::strong_count(shared);
        open.find(|shared| has_room(shared) && self.is_within(reach, shared.address))
            .map(ConnectionKind::Http2)
    }

    fn streams_of(&self, http2: &Http2Connection) -> usize {
        if http2.replies() > 0 {
            self.streams.set(http2.streams());
        }
        http2.streams().min(self.streams.get())
    }

    pub(super) fn forget_http2(&self, shared: &Rc<SharedHttp2>) {
        self.shared.borrow_mut().retain(|other| !std::ptr::eq(other.as_ptr(), Rc::as_ptr(shared)));
    }

    /// Opens only HTTP/1.1 connections from now on, and stops sharing HTTP/2 connections.
    pub(super) fn fall_back_to_http1(&self) {
        self.needs_http1.set(true);
        self.protocol.set(Some(Alpn::Http1));
        self.shared.borrow_mut().clear();
    }

    /// Returns whether only HTTP/1.1 may be used, because requests are signed or the server requires it.
    pub(super) fn wants_http1(&self) -> bool {
        self.authorize.is_some() || self.needs_http1.get()
    }

    /// Returns whether the next connection can turn out to be shareable. If so, one connection is enough for now.
    pub(super) fn may_share(&self, offers_http2: bool) -> bool {
        self.key.is_tls() && offers_http2 && !self.wants_http1() && self.protocol.get() != Some(Alpn::Http1)
    }
}

/// Wakes the waiting tasks once a connection was opened or could not be opened.
pub(super) struct ConnectGuard<'o>(pub(super) &'o OriginConnections);

impl Drop for ConnectGuard<'_> {
    fn drop(&mut self) {
        self.0.is_connecting.set(false);
        self.0.connected.notify_waiters();
    }
}
