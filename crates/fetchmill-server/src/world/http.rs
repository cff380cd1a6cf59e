//! Replies of hosts over HTTP/1.1.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::addresses::PRIVATE;
use super::behaviour::{Behaviour, Host};
use super::head::{RequestReader, SiteRequest};
use super::state::{Scheme, WorldState};
use super::stats::CountedConnection;

/// Number of redirects of a `faraway` host.
const HOPS: u32 = 30;
/// Length in bytes that `trickling` and `truncated` hosts announce.
const ANNOUNCED: usize = 1000;
const HUGE_HEAD: usize = 1 << 20;
const BIG_BODY: usize = 10 << 20;
const PIECE: [u8; 16 * 1024] = [b'.'; 16 * 1024];
const TRICKLE: Duration = Duration::from_secs(1);

/// Ways in which a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionEnd {
    /// TCP and TLS are closed normally.
    Closed,
    /// The connection is reset.
    Reset,
}

/// Next step of a connection after a reply.
enum AfterReply {
    Request,
    Close,
    Reset,
}

/// The place at which a request arrived.
pub(super) struct Site<'a> {
    pub(super) shared: &'a WorldState,
    pub(super) behaviour: Behaviour,
    pub(super) scheme: Scheme,
}

impl Site<'_> {
    /// Answers requests until the connection ends.
    pub(super) async fn serve<S>(
        &self,
        stream: &mut S,
        visit: &mut CountedConnection,
    ) -> io::Result<ConnectionEnd>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if self.behaviour == Behaviour::Garbage {
            send(stream, b"SSH-2.0-OpenSSH_9.9\r\n").await?;
            return wait(stream).await;
        }
        let mut requests = RequestReader::default();
        while let Some(head) = requests.next(stream).await? {
            let host = head.host();
            visit.enter(host);
            self.shared.counters.request(self.behaviour, host);
            match self.answer(stream, &head, host).await? {
                AfterReply::Request if !head.is_last => {}
                AfterReply::Request | AfterReply::Close => break,
                AfterReply::Reset => return Ok(ConnectionEnd::Reset),
            }
        }
        Ok(ConnectionEnd::Closed)
    }

    async fn answer<S>(
        &self,
        stream: &mut S,
        head: &SiteRequest,
        host: Option<Host>,
    ) -> io::Result<AfterReply>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        match self.behaviour {
            Behaviour::Resetting => return Ok(AfterReply::Reset),
            Behaviour::Stalling => {}
            Behaviour::Halfhead => send(stream, b"HTTP/1.1 200 OK\r\nContent-Type: text/h").await?,
            Behaviour::Trickling => trickle(stream).await?,
            Behaviour::Slow => {
                tokio::time::sleep(self.shared.slowness(host)).await;
                return whole(stream, &page(head, "200 OK", "")).await;
            }
            Behaviour::Huge => return huge(stream, head).await,
            Behaviour::Big => return big(stream, head).await,
            Behaviour::Nolength => {
                let text = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", body(head));
                send(stream, text.as_bytes()).await?;
                return Ok(AfterReply::Close);
            }
            Behaviour::Truncated => {
                let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {ANNOUNCED}\r\n\r\n{}", body(head));
                send(stream, text.as_bytes()).await?;
                return Ok(AfterReply::Close);
            }
            _ => return whole(stream, &self.reply(head, host)).await,
        }
        // The reply has started but never ends.
        wait(stream).await.map(|_| AfterReply::Close)
    }

    /// Returns a complete reply.
    fn reply(&self, head: &SiteRequest, host: Option<Host>) -> String {
        match self.behaviour {
            Behaviour::NotFound => page(head, "404 Not Found", ""),
            Behaviour::Error => page(head, "500 Internal Server Error", ""),
            Behaviour::Busy if self.shared.is_first(host) => {
                let field = format!("Retry-After: {}\r\n", self.shared.retry_after);
                page(head, "429 Too Many Requests", &field)
            }
            Behaviour::Chunked => {
                let text = if head.is_bodiless { String::new() } else { chunks(&body(head)) };
                format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{text}")
            }
            Behaviour::Upgrade => {
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n".to_owned()
            }
            _ => match self.location(head, host) {
                Some((status, location)) => page(head, status, &format!("Location: {location}\r\n")),
                None => page(head, "200 OK", ""),
            },
        }
    }

    /// Returns the redirect target of a host.
    fn location(&self, head: &SiteRequest, host: Option<Host>) -> Option<(&'static str, String)> {
        let (http, https) = (self.shared.http_port, self.shared.https_port);
        let found = |location: String| Some(("302 Found", location));
        match (self.behaviour, self.scheme) {
            (Behaviour::Redirecting, Scheme::Http) => {
                Some(("301 Moved Permanently", format!("https://{}:{https}{}", head.name, head.path)))
            }
            (Behaviour::Redirecting, Scheme::Https) => {
                let good = Host { behaviour: Behaviour::Good, number: host.map_or(0, |host| host.number) };
                found(format!("https://{good}:{https}/"))
            }
            (Behaviour::Looping, _) => found(if head.path == "/a" { "/b" } else { "/a" }.to_owned()),
            (Behaviour::Faraway, _) => {
                let hop: u32 = head.path.strip_prefix("/hop/").and_then(|hop| hop.parse().ok()).unwrap_or(0);
                if hop < HOPS { found(format!("/hop/{}", hop + 1)) } else { None }
            }
            (Behaviour::Downgrade, Scheme::Https) => found(format!("http://{}:{http}/", head.name)),
            (Behaviour::Private, scheme) => found(format!("{}://{PRIVATE}/", scheme.name())),
            _ => None,
        }
    }
}

/// Returns a page that contains the host's name.
pub(super) fn body_for(name: &str) -> String {
    format!("<!doctype html>\n<title>{name}</title>\n<p>This is {name}.</p>\n")
}

fn body(head: &SiteRequest) -> String {
    body_for(&head.name)
}

fn page(head: &SiteRequest, status: &str, fields: &str) -> String {
    let body = body(head);
    let length = body.len();
    let sent = if head.is_bodiless { "" } else { body.as_str() };
    format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n{fields}\r\n{sent}")
}

fn chunks(body: &str) -> String {
    let (first, rest) = body.split_at(body.len() / 2);
    format!("{:x}\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n", first.len(), rest.len())
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn whole(stream: &mut (impl AsyncWrite + Unpin), reply: &str) -> io::Result<AfterReply> {
    send(stream, reply.as_bytes()).await?;
    Ok(AfterReply::Request)
}

async fn huge(stream: &mut (impl AsyncWrite + Unpin), head: &SiteRequest) -> io::Result<AfterReply> {
    let line = format!("X-Filler: {}\r\n", ".".repeat(1000));
    stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
    for _ in 0..=HUGE_HEAD / line.len() {
        stream.write_all(line.as_bytes()).await?;
    }
    send(stream, format!("Content-Length: 0\r\nX-Host: {}\r\n\r\n", head.name).as_bytes()).await?;
    Ok(AfterReply::Request)
}

async fn big(stream: &mut (impl AsyncWrite + Unpin), head: &SiteRequest) -> io::Result<AfterReply> {
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {BIG_BODY}\r\n\r\n");
    stream.write_all(text.as_bytes()).await?;
    let pieces = if head.is_bodiless { 0 } else { BIG_BODY / PIECE.len() };
    for _ in 0..pieces {
        stream.write_all(&PIECE).await?;
    }
    stream.flush().await?;
    Ok(AfterReply::Request)
}

/// Sends one byte per second, but never sends the last one.
async fn trickle(stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    send(stream, format!("HTTP/1.1 200 OK\r\nContent-Length: {ANNOUNCED}\r\n\r\n").as_bytes()).await?;
    for _ in 1..ANNOUNCED {
        tokio::time::sleep(TRICKLE).await;
        send(stream, b".").await?;
    }
    Ok(())
}

/// Reads until the client closes the connection.
pub(super) async fn wait(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<ConnectionEnd> {
    let mut bytes = [0; 512];
    while stream.read(&mut bytes).await? > 0 {}
    Ok(ConnectionEnd::Closed)
}
