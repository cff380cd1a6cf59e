//! A link between two network namespaces, for tests. It carries IP packets between two TUN devices, and simulates
//! delay, jitter, loss and limited bandwidth. Usage: `wide_area_link NEAR FAR DEVICE SEED`. NEAR and FAR are the files
//! of the namespaces (`/proc/PID/ns/net`). DEVICE is the name of the device in both namespaces.
//!
//! Each line of standard input is a JSON object with changes (`Change`), and may be empty. The answer to each line is a
//! line of counters. The program and its devices end when the input ends.
//!
//! A packet first waits for bandwidth in a queue of limited length. If the queue is full, the packet is dropped, as in
//! a router. After using its share of the bandwidth, the packet may be lost on the way. Otherwise it arrives after its
//! delay, and never overtakes another packet.

use std::collections::VecDeque;
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};

/// Buffer size, which exceeds the size of any packet on a device with the usual MTU of 1,500 bytes.
const PACKET_BYTES_MAX: usize = 2048;
/// Number of packets to take from one side before switching to the other. Taking them requires about 0.1 ms.
const TURN_PACKETS: usize = 64;
/// Maximum number of bytes in transit in one direction, which is 150 ms at 3 Gbit/s. Only a link without a bandwidth
/// limit reaches this.
const ON_THE_WAY_BYTES_MAX: usize = 64 << 20;
/// Length of the queue in seconds of bandwidth. The queue holds at least `QUEUE_BYTES_MIN`.
const QUEUE_SECONDS: f64 = 0.1;
const QUEUE_BYTES_MIN: f64 = 65_536.0;
const NANOS: f64 = 1e9;

/// Settings of the link, which are the same in both directions.
#[derive(Debug, Clone, Copy, Default)]
struct Settings {
    /// Delay of each packet in seconds, which is half of the round trip time.
    delay: f64,
    /// Maximum random delay that is added to each packet, in seconds.
    jitter: f64,
    /// Share of packets that are lost.
    loss: f64,
    /// Bandwidth in bits per second. `None` means unlimited.
    bandwidth: Option<f64>,
}

/// Changes to the settings. Packets that are already in transit are not affected.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Change {
    /// Round trip time in seconds.
    round_trip: Option<f64>,
    /// Maximum jitter in each direction, in seconds.
    jitter: Option<f64>,
    /// Share of packets that are lost in each direction, from 0 to 1.
    loss: Option<f64>,
    /// Bandwidth in each direction, in megabits per second. 0 means unlimited.
    megabits: Option<f64>,
}

impl Change {
    fn apply(&self, settings: &mut Settings) -> Result<(), String> {
        let within = |what, value: f64, max| {
            let is_within = (0.0..=max).contains(&value);
            is_within.then_some(value).ok_or_else(|| format!("{what} must be 0 to {max}, not {value}"))
        };
        if let Some(seconds) = self.round_trip {
            settings.delay = within("round_trip", seconds, 60.0)? / 2.0;
        }
        if let Some(seconds) = self.jitter {
            settings.jitter = within("jitter", seconds, 60.0)?;
        }
        if let Some(share) = self.loss {
            settings.loss = within("loss", share, 1.0)?;
        }
        if let Some(megabits) = self.megabits {
            settings.bandwidth = Some(within("megabits", megabits, 1e6)? * 1e6).filter(|bits| *bits > 0.0);
        }
        Ok(())
    }
}

/// Packets in one direction. Each packet that was sent is also counted by one of the other counters.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Counters {
    sent: u64,
    delivered: u64,
    lost: u64,
    dropped: u64,
    on_the_way: u64,
    sent_bytes: u64,
    delivered_bytes: u64,
    /// Longest delay of a late delivery in seconds. Deliveries are late if the program has to wait for a processor.
    late: f64,
}

/// The splitmix64 generator. The same seed always loses the same packets.
struct Random(u64);

impl Random {
    /// Returns a number from 0 to just below 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ (word >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A packet and its arrival time in nanoseconds since the start.
struct Packet {
    at: u64,
    bytes: Box<[u8]>,
}

/// One direction of the link. All times are nanoseconds since the start.
struct Direction {
    random: Random,
    counters: Counters,
    on_the_way: VecDeque<Packet>,
    on_the_way_bytes: usize,
    /// Time at which bandwidth is available again.
    free_at: u64,
    /// Time at which the last packet arrives.
    last_at: u64,
}

impl Direction {
    fn new(seed: u64) -> Self {
        Direction {
            random: Random(seed),
            counters: Counters::default(),
            on_the_way: VecDeque::new(),
            on_the_way_bytes: 0,
            free_at: 0,
            last_at: 0,
        }
    }

    /// Accepts a packet that is being sent now.
    fn send(&mut self, now: u64, packet: &[u8], settings: &Settings) {
        self.counters.sent += 1;
        self.counters.sent_bytes += packet.len() as u64;
        // Draw both numbers for each packet, so that a change to the settings does not affect which later packets are
        // lost.
        let (is_lost, jitter) = (self.random.unit() < settings.loss, self.random.unit() * settings.jitter);
        let mut left_at = now;
        if let Some(bandwidth) = settings.bandwidth {
            let starts_at = now.max(self.free_at);
            let queued = (starts_at - now) as f64 / NANOS * bandwidth / 8.0;
            if queued + packet.len() as f64 > (bandwidth / 8.0 * QUEUE_SECONDS).max(QUEUE_BYTES_MIN) {
                self.counters.dropped += 1;
                return;
            }
            left_at = starts_at + (packet.len() as f64 * 8.0 / bandwidth * NANOS).ceil() as u64;
            self.free_at = left_at;
        }
        if self.on_the_way_bytes + packet.len() > ON_THE_WAY_BYTES_MAX {
            self.counters.dropped += 1;
        } else if is_lost {
            self.counters.lost += 1;
        } else {
            let at = left_at + ((settings.delay + jitter) * NANOS) as u64;
            self.last_at = self.last_at.max(at);
            self.on_the_way_bytes += packet.len();
            self.on_the_way.push_back(Packet { at: self.last_at, bytes: packet.into() });
        }
    }

    /// Takes the next packet that has arrived.
    fn arrived(&mut self, now: u64) -> Option<Packet> {
        if self.on_the_way.front()?.at > now {
            return None;
        }
        let packet = self.on_the_way.pop_front()?;
        self.on_the_way_bytes -= packet.bytes.len();
        Some(packet)
    }

    /// Adapts the waiting time in the queue to a new bandwidth.
    fn rescale(&mut self, now: u64, old: &Settings, new: &Settings) {
        let waits = self.free_at.saturating_sub(now) as f64;
        self.free_at = match (old.bandwidth, new.bandwidth) {
            (Some(old), Some(new)) => now + (waits * old / new) as u64,
            _ => now,
        };
    }

    fn counters(&self) -> Counters {
        Counters { on_the_way: self.on_the_way.len() as u64, ..self.counters }
    }
}

/// The link: the devices of both sides, and the packets that each side has sent.
struct Link {
    devices: [File; 2],
    directions: [Direction; 2],
    settings: Settings,
    start: Instant,
}

impl Link {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Takes the packets that both sides have sent.
    fn take(&mut self) -> std::io::Result<()> {
        let mut packet = [0; PACKET_BYTES_MAX];
        for side in 0..2 {
            for _ in 0..TURN_PACKETS {
                match (&self.devices[side]).read(&mut packet) {
                    Ok(length) => {
                        let now = self.now();
                        self.directions[side].send(now, &packet[..length], &self.settings);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Delivers the packets that have arrived.
    fn deliver(&mut self) -> std::io::Result<()> {
        let now = self.now();
        for side in 0..2 {
            while let Some(packet) = self.directions[side].arrived(now) {
                let counters = &mut self.directions[side].counters;
                match (&self.devices[1 - side]).write(&packet.bytes) {
                    Ok(length) => {
                        counters.late = counters.late.max((now - packet.at) as f64 / NANOS);
                        counters.delivered += 1;
                        counters.delivered_bytes += length as u64;
                    }
                    // The device is not up yet.
                    Err(error) if error.raw_os_error() == Some(libc::EIO) => counters.dropped += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Waits until a packet arrives or is sent, or a change can be read. Returns whether there is a change.
    fn wait(&self) -> rustix::io::Result<bool> {
        let next =
            self.directions.iter().filter_map(|direction| Some(direction.on_the_way.front()?.at)).min();
        let left = next.map(|at| Duration::from_nanos(at.saturating_sub(self.now())));
        let left =
            left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        let input = std::io::stdin();
        let mut files = [
            PollFd::new(&self.devices[0], PollFlags::IN),
            PollFd::new(&self.devices[1], PollFlags::IN),
            PollFd::new(&input, PollFlags::IN),
        ];
        match rustix::event::poll(&mut files, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!files[2].revents().is_empty()),
            Err(error) => Err(error),
        }
    }

    /// Applies a change. Returns the counters of both directions.
    fn change(&mut self, line: &str) -> Result<String, Box<dyn Error>> {
        let old = self.settings;
        serde_json::from_str::<Change>(line)?.apply(&mut self.settings)?;
        let now = self.now();
        for direction in &mut self.directions {
            direction.rescale(now, &old, &self.settings);
        }
        Ok(serde_json::to_string(&self.directions.each_ref().map(Direction::counters))?)
    }
}

/// Enters a network namespace and opens a TUN device in it. The device exists until the file is closed.
fn open_device(namespace: &str, name: &str) -> std::io::Result<File> {
    let namespace = File::open(namespace)?;
    #[expect(unsafe_code, reason = "no library in use offers the call")]
    // SAFETY: the descriptor is open, and the call takes no other argument.
    let entered = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    if entered != 0 {
        return Err(std::io::Error::last_os_error());
    }
    let device =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = [0_u8; size_of::<libc::ifreq>()];
    request[..name.len()].copy_from_slice(name.as_bytes());
    let flags = (libc::IFF_TUN | libc::IFF_NO_PI) as i16;
    request[libc::IFNAMSIZ..libc::IFNAMSIZ + 2].copy_from_slice(&flags.to_ne_bytes());
    #[expect(unsafe_code, reason = "no library in use offers the call")]
    // SAFETY: the kernel reads and writes one `ifreq`. Its name is shorter than the field, and the buffer has the right
    // size.
    let made = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, request.as_mut_ptr()) };
    if made < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(device)
}

#[expect(clippy::print_stdout, reason = "the caller waits for the answers")]
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [near, far, device, seed] = arguments.as_slice() else {
        return Err("usage: wide_area_link NEAR FAR DEVICE SEED".into());
    };
    if device.len() >= libc::IFNAMSIZ {
        return Err(format!("{device}: a device name must be shorter than {} bytes", libc::IFNAMSIZ).into());
    }
    let seed: u64 = seed.parse()?;
    let mut link = Link {
        devices: [open_device(near, device)?, open_device(far, device)?],
        directions: [Direction::new(seed), Direction::new(!seed)],
        settings: Settings::default(),
        start: Instant::now(),
    };
    std::fs::write("/proc/self/timerslack_ns", "1")?;
    println!("up");
    let mut input = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if link.wait()? {
            match rustix::io::read(std::io::stdin(), &mut piece)? {
                0 => return Ok(()),
                length => input.extend_from_slice(&piece[..length]),
            }
            while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = input.drain(..=end).collect();
                println!("{}", link.change(std::str::from_utf8(&line)?)?);
            }
        }
        link.take()?;
        link.deliver()?;
    }
}
