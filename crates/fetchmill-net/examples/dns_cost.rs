//! Measures how much CPU time a lookup costs the resolving thread, in microseconds. A single server on loopback answers
//! for every name.
//!
//! Run `cargo run --release -p fetchmill-net --example dns_cost` on a quiet machine, and take the best of several
//! rounds.
#![allow(clippy::print_stdout)]

use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fetchmill_model::limits;
use fetchmill_net::dns::{Dns, DnsSetup, Families, LookUpKind, LookUpStart, SlotLimits};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 5;
const NAMES: u64 = 40_000;

fn main() -> std::io::Result<()> {
    let server = answer_all()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())?;
    for families in [Families::V4, Families::Both] {
        let mut setup = DnsSetup::of("", "", families).with_upstreams(vec![server]);
        setup.spreads = false;
        let setup = Arc::new(setup);
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            best = best.min(runtime.block_on(round(&setup)));
        }
        println!("{families:?}: {best:.2} us a lookup");
    }
    Ok(())
}

/// Looks up all names, with as many slots as each of two threads would get.
async fn round(setup: &Arc<DnsSetup>) -> f64 {
    let clock = Rc::new(Cell::new(0));
    let dns = Dns::new(Arc::clone(setup), SlotLimits::of(2), Rc::clone(&clock));
    let mut tick = tokio::time::interval(limits::TICK);
    let (started, before) = (Instant::now(), cpu());
    let (mut asked, mut answered) = (0, 0);
    while answered < NAMES {
        while asked < NAMES
            && dns.ask(&format!("www.host-{asked}.example"), asked, LookUpKind::Usual) != LookUpStart::Full
        {
            asked += 1;
        }
        tokio::select! {
            () = dns.answered() => answered += dns.take_answered().len() as u64,
            _ = tick.tick() => {
                clock.set(started.elapsed().as_millis() as u64);
                dns.tick();
            }
        }
    }
    let micros = cpu().saturating_sub(before).as_secs_f64() * 1e6 / NAMES as f64;
    println!(
        "  {micros:.2} us, {:.0} names a second, {:?}",
        NAMES as f64 / started.elapsed().as_secs_f64(),
        dns.counts()
    );
    micros
}

/// Returns the user and system CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Starts a thread that answers every query with the same address.
fn answer_all() -> std::io::Result<SocketAddr> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    std::thread::spawn(move || {
        let mut message = [0; 1500];
        while let Ok((length, source)) = socket.recv_from(&mut message) {
            // Replace the EDNS record at the end with an address.
            let question_end = length - 11;
            let is_v4 = message[question_end - 3] == 1;
            message[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            let data_bytes = if is_v4 { 4 } else { 16 };
            let record = [0xc0, 12, 0, message[question_end - 3], 0, 1, 0, 0, 0, 60, 0, data_bytes];
            message[question_end..question_end + 12].copy_from_slice(&record);
            message[question_end + 12..question_end + 28].fill(1);
            let end = question_end + 12 + usize::from(data_bytes);
            if socket.send_to(&message[..end], source).is_err() {
                return;
            }
        }
    });
    Ok(address)
}
