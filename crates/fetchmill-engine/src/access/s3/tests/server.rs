//! Server that sends one answer per connection and records the requests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Function that returns the status and body of the answer. Its argument is the head and body of the request, as text.
type Answer = dyn Fn(&str) -> (u16, String) + Send + Sync;

pub(super) struct Server {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server that answers every request until the tests end.
    pub(super) fn start(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (answer, kept): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
                std::thread::spawn(move || serve(stream.unwrap(), &*answer, &kept));
            }
        });
        Server { url, asked }
    }

    /// Returns the requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, answer: &Answer, asked: &Mutex<Vec<String>>) {
    let request = read(&mut stream);
    asked.lock().unwrap().push(request.clone());
    let (status, body) = answer(&request);
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // The client might have stopped waiting and closed the connection.
    let _ = stream.write_all((head + &body).as_bytes());
}

fn read(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// Returns credentials in the format that containers and machines receive.
pub(super) fn document(access_key: &str, expiration: &str) -> String {
    format!(
        r#"{{"Code": "Success", "AccessKeyId": "{access_key}", "SecretAccessKey": "secret", "Token": "token",
            "Expiration": "{expiration}"}}"#
    )
}

/// Returns credentials in the format of STS.
pub(super) fn assumed(action: &str, access_key: &str) -> String {
    format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result><Credentials>\
         <AccessKeyId>{access_key}</AccessKeyId><SecretAccessKey>a+b/c</SecretAccessKey>\
         <SessionToken>t==</SessionToken><Expiration>2030-01-01T00:00:00Z</Expiration></Credentials>\
         </{action}Result></{action}Response>"
    )
}
