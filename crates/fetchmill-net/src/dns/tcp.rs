//! Queries over TCP, used if an answer does not fit into a datagram.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a query and reads one answer, whose size is limited by its 2-byte length prefix. The caller sets the deadline.
pub(super) async fn ask(server: SocketAddr, query: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let mut framed = (query.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(&query);
    stream.write_all(&framed).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}
