//! Replies of hosts over HTTP/2. Every request is answered with a page.

use std::io;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};

use super::behaviour::Host;
use super::http::{Site, body_for};

/// Answers requests until the connection ends.
pub(super) async fn serve<S>(stream: S, site: &Site<'_>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = h2::server::handshake(stream).await.map_err(io::Error::other)?;
    while let Some(request) = connection.accept().await {
        let (request, response) = request.map_err(io::Error::other)?;
        answer(&request, response, site).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Queues the reply. The connection sends it when it is polled the next time.
fn answer(
    request: &Request<RecvStream>,
    mut response: SendResponse<Bytes>,
    site: &Site<'_>,
) -> Result<(), h2::Error> {
    let name = request.uri().host().unwrap_or_default();
    site.shared.counters.request(site.behaviour, Host::parse(name));
    let is_bodiless = request.method() == http::Method::HEAD;
    let mut head = Response::new(());
    head.headers_mut().insert("content-type", http::HeaderValue::from_static("text/html"));
    let mut stream = response.send_response(head, is_bodiless)?;
    if !is_bodiless {
        stream.send_data(Bytes::from(body_for(name)), true)?;
    }
    Ok(())
}
