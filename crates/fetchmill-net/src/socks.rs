//! SOCKS5 (RFC 1928) with a user name and password (RFC 1929). The proxy forwards bytes to a host and cannot see the
//! content of TLS.

use std::net::IpAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::errno;
use fetchmill_model::outcome::FailureKind;

type SocksResult<T> = Result<T, FailureKind>;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const VERSION_OF_PASSWORDS: u8 = 1;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
/// Maximum length of a name, user name or password. Lengths are stored in one byte.
const TEXT_BYTES_MAX: usize = u8::MAX as usize;

/// User name and password for a SOCKS proxy. They are secret and sent only to the proxy.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SocksUser {
    name: Vec<u8>,
    password: Vec<u8>,
}

impl std::fmt::Debug for SocksUser {
    /// Omits the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SocksUser").finish_non_exhaustive()
    }
}

impl SocksUser {
    /// Creates the credentials. `None` if the user name or password is too long for the protocol.
    pub(super) fn new(name: Vec<u8>, password: Vec<u8>) -> Option<Self> {
        let has_room = !name.is_empty() && name.len().max(password.len()) <= TEXT_BYTES_MAX;
        has_room.then_some(SocksUser { name, password })
    }

    fn message(&self) -> Vec<u8> {
        let mut message = vec![VERSION_OF_PASSWORDS];
        for text in [&self.name, &self.password] {
            message.push(text.len() as u8);
            message.extend_from_slice(text);
        }
        message
    }
}

/// Returns the request to connect to an address, or to a name that the proxy looks up. `None` if `host` is invalid.
fn request_to(host: &str, port: u16) -> Option<Vec<u8>> {
    let mut request = vec![VERSION, CONNECT, 0];
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => {
            request.push(IPV4);
            request.extend(address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            request.push(IPV6);
            request.extend(address.octets());
        }
        Err(_) => {
            let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte));
            if host.is_empty() || host.len() > TEXT_BYTES_MAX || !is_name {
                return None;
            }
            request.extend([NAME, host.len() as u8]);
            request.extend(host.bytes());
        }
    }
    request.extend(port.to_be_bytes());
    Some(request)
}

/// Makes the proxy at the other end of `stream` connect to `host`, which is written without brackets. All later bytes
/// are exchanged with the host.
pub(super) async fn connect(
    stream: &mut TcpStream,
    host: &str,
    port: u16,
    user: Option<&SocksUser>,
) -> SocksResult<()> {
    let request = request_to(host, port).ok_or(FailureKind::ProxyRefused)?;
    let method = if user.is_some() { USER_AND_PASSWORD } else { NO_AUTHENTICATION };
    // Offer only one method. If the user configured credentials, the proxy must use them.
    send(stream, &[VERSION, 1, method]).await?;
    if receive::<2>(stream).await? != [VERSION, method] {
        return Err(FailureKind::ProxyRefused);
    }
    if let Some(user) = user {
        send(stream, &user.message()).await?;
        if receive::<2>(stream).await?[1] != 0 {
            return Err(FailureKind::ProxyRefused);
        }
    }
    send(stream, &request).await?;
    let [version, reply, _, kind] = receive::<4>(stream).await?;
    if version != VERSION {
        return Err(FailureKind::ProxyRefused);
    }
    match reply {
        0 => pass_bound_address(stream, kind).await,
        // Server failure, network or host unreachable, connection refused, or TTL expired.
        1 | 3..=6 => Err(FailureKind::Proxy),
        _ => Err(FailureKind::ProxyRefused),
    }
}

/// Skips the address from which the proxy connects.
async fn pass_bound_address(stream: &mut TcpStream, kind: u8) -> SocksResult<()> {
    match kind {
        IPV4 => receive::<6>(stream).await.map(drop),
        IPV6 => receive::<18>(stream).await.map(drop),
        NAME => {
            let [length] = receive::<1>(stream).await?;
            for _ in 0..usize::from(length) + 2 {
                receive::<1>(stream).await?;
            }
            Ok(())
        }
        _ => Err(FailureKind::ProxyRefused),
    }
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> SocksResult<()> {
    stream.write_all(bytes).await.map_err(|error| errno::of_open(&error))
}

/// Reads exactly `COUNT` bytes, because any later bytes already belong to the target.
async fn receive<const COUNT: usize>(stream: &mut TcpStream) -> SocksResult<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    match stream.read_exact(&mut bytes).await {
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Err(FailureKind::Reset),
        Err(error) => Err(errno::of_open(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_address_or_a_name() {
        for (host, request) in [
            ("127.0.0.1", &b"\x05\x01\x00\x01\x7f\x00\x00\x01\x01\xbb"[..]),
            ("::1", b"\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb"),
            ("a.test", b"\x05\x01\x00\x03\x06a.test\x01\xbb"),
        ] {
            assert_eq!(request_to(host, 443).as_deref(), Some(request), "{host}");
        }
        for none in ["", "a b", "a/b", "a\r\n", "[::1]", &"a".repeat(256)] {
            assert_eq!(request_to(none, 1), None, "{none}");
        }
    }

    #[test]
    fn a_user_has_a_name_and_both_fit() {
        assert!(SocksUser::new(Vec::new(), b"p".to_vec()).is_none());
        assert!(SocksUser::new(b"u".to_vec(), vec![b'p'; 256]).is_none());
        let user = SocksUser::new(b"me".to_vec(), b"canary".to_vec()).unwrap();
        assert_eq!(user.message(), b"\x01\x02me\x06canary");
        assert!(!format!("{user:?}").contains("canary"));
    }
}
