//! Prints its address and serves until standard input ends: `serve '{"content": {"folder": "/some/folder"}}'`.

use std::io::Read;

use fetchmill_server::{Options, Server};

#[expect(clippy::print_stdout, reason = "the caller needs to know the address")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let json = std::env::args().nth(1).unwrap_or_else(|| "{}".to_owned());
    let options: Options = serde_json::from_str(&json)?;
    let server = Server::start(&options)?;
    println!("{}", server.address());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{}", serde_json::to_string(&server.stats())?);
    server.stop();
    Ok(())
}
