//! An origin as a thread knows it: how it is asked, its unused connections, and those that many requests share.

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

/// See the module.
#[derive(Debug)]
pub struct OriginConnections {
    /// Which one.
    pub key: OriginKey,
    /// How it is asked.
    pub template: RequestTemplate,
    /// At most so many requests a second.
    pub pace: Option<Arc<Pace>>,
    /// What its replies were like: how long connections must be silent before their replies are certain.
    pub replies: RefCell<OriginReplies>,
    /// How long a reply is waited for before its request is made again.
    pub patience: Rc<RefCell<Patience>>,
    /// Connections that late replies to abandoned requests are awaited on.
    pub(super) late_replies: Cell<usize>,
    /// Who signs requests to it, if somebody does. They go over HTTP/1.1.
    pub(super) authorize: Option<Rc<dyn Authorize>>,
    /// The user has named it: it may be anywhere.
    pub(super) is_named: bool,
    /// Memory for what they sign, of one request after the other.
    pub(super) signed: RefCell<Vec<u8>>,
    pub(super) fields: OriginFields,
    /// Cookies of a file that it gets, some of them for some paths only.
    pub(super) file_cookies: Vec<Cookie>,
    pub(super) addresses: Option<Arc<[SocketAddr]>>,
    /// Open and unused, the warmest last, with the time since when.
    pub(super) idle: RefCell<VecDeque<(ConnectionKind, Millis)>>,
    /// What the server has chosen the last time.
    pub(super) protocol: Cell<Option<Alpn>>,
    /// The server requires HTTP/1.1, although it takes HTTP/2 in TLS: it is not offered again.
    pub(super) needs_http1: Cell<bool>,
    /// Connections that many requests share.
    pub(super) shared: RefCell<Vec<Weak<SharedHttp2>>>,
    /// Requests that its last connection allowed at a time: a new one has not said it yet.
    pub(super) streams: Cell<usize>,
    pub(super) parts: RefCell<Option<Rc<Http2Parts>>>,
    /// One task makes a connection that others may share: they wait.
    pub(super) is_connecting: Cell<bool>,
    pub(super) connected: Notify,
}

impl OriginConnections {
    /// Appends a request of HTTP/1.1.
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

    /// Returns all cookies of a request for a path after replies have set some; they may be none.
    pub fn cookies_after(&self, chain: &ChainCookies, path: &str) -> String {
        chain.field(&RequestPlace::at(&self.key, path), &self.file_cookies).unwrap_or_default()
    }

    /// Returns the cookies that go with a request, if there are any: a call may say itself which.
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

    /// Puts what is signed now between the fields of a request and its body.
    fn sign(&self, authorize: &dyn Authorize, method: &str, body: &[u8], out: &mut Vec<u8>) {
        let line_end = memchr::memchr(b'\r', out).unwrap_or(out.len());
        let start = method.len() + 1;
        let target = out.get(start..line_end.saturating_sub(HTTP_VERSION.len())).unwrap_or_default();
        // To a proxy it is asked for in absolute form.
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

    /// Whether what is reached at `address` is within `reach`. Without one a proxy has reached it, which is told the
    /// host's name or address.
    pub(super) fn is_within(&self, reach: AddressPolicy, address: Option<SocketAddr>) -> bool {
        match address {
            Some(address) => reach.allows(address.ip()),
            None => reach.allows_host(self.key.host()),
        }
    }

    /// A share of a connection that is open and leads no farther than this.
    pub(super) fn share(&self, reach: AddressPolicy) -> Option<ConnectionKind> {
        let mut all = self.shared.borrow_mut();
        all.retain(|shared| shared.upgrade().is_some_and(|shared| !shared.http2.is_closed()));
        let mut open = all.iter().filter_map(Weak::upgrade);
        // One share is this look's own.
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

    /// From now on connections are opened for HTTP/1.1. Requests that share one end there.
    pub(super) fn fall_back_to_http1(&self) {
        self.needs_http1.set(true);
        self.protocol.set(Some(Alpn::Http1));
        self.shared.borrow_mut().clear();
    }

    /// Whether it is asked over HTTP/1.1 only: each of its requests is signed, or its server requires that.
    pub(super) fn wants_http1(&self) -> bool {
        self.authorize.is_some() || self.needs_http1.get()
    }

    /// Whether a connection to it may be shared, so that one is enough for the time being.
    pub(super) fn may_share(&self, offers_http2: bool) -> bool {
        self.key.is_tls() && offers_http2 && !self.wants_http1() && self.protocol.get() != Some(Alpn::Http1)
    }
}

/// Tells those who wait when a connection was made, or was not.
pub(super) struct ConnectGuard<'o>(pub(super) &'o OriginConnections);

impl Drop for ConnectGuard<'_> {
    fn drop(&mut self) {
        self.0.is_connecting.set(false);
        self.0.connected.notify_waiters();
    }
}
