//! Answers of the name server. Converts the bytes of a query to the bytes of the answer, without I/O.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use domain::base::iana::{Class, Rcode};
use domain::base::message_builder::{AnswerBuilder, PushError};
use domain::base::name::{ParsedName, ToName};
use domain::base::{Message, MessageBuilder, Name, Rtype, Serial, StaticCompressor, Ttl};
use domain::rdata::{A, Aaaa, Cname, Soa};

use super::addresses::{self, PRIVATE};
use super::behaviour::{Behaviour, Host, ZONE};
use super::stats::WorldCounters;
use crate::hash;

/// Time to live of answers in seconds.
const TTL: u32 = 300;
/// Time to live of negative answers and of answers that change, in seconds.
const SHORT_TTL: u32 = 1;
/// Maximum size of a datagram if the client does not announce one (RFC 1035). If it does, this is the upper limit (RFC
/// 9715).
const DATAGRAM: usize = 512;
const DATAGRAM_MAX: usize = 1232;
/// Maximum number of hosts with changing addresses that are remembered. At 8 bytes each, with spare capacity, they take
/// 32 MiB.
const REBIND_MAX: usize = 1 << 21;
/// Names between an alias and its host.
const ALIASES: [&str; 2] = ["first", "second"];

type AnswerBuffer = StaticCompressor<Vec<u8>>;

/// Transport of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryTransport {
    Datagram,
    Stream,
}

/// An answer and its delay.
#[derive(Debug)]
pub(super) struct DnsAnswer {
    pub(super) bytes: Vec<u8>,
    pub(super) delay: Duration,
}

/// All names of the world.
#[derive(Debug)]
pub(super) struct WorldNames {
    counters: Arc<WorldCounters>,
    addresses: u8,
    delay: Duration,
    seed: u64,
    /// Numbers of the hosts whose next address is not public.
    rebound: HashSet<u64>,
}

impl WorldNames {
    pub(super) fn new(counters: &Arc<WorldCounters>, addresses: u8, delay: Duration, seed: u64) -> Self {
        WorldNames { counters: Arc::clone(counters), addresses, delay, seed, rebound: HashSet::new() }
    }

    /// Answers a query. `None` if the query is not to be answered.
    pub(super) fn answer(&mut self, query: &[u8], way: QueryTransport) -> Option<DnsAnswer> {
        let query = Message::from_slice(query).ok().filter(|query| !query.header().qr())?;
        let question = query.sole_question().ok()?;
        let host = Host::parse(&question.qname().to_string());
        if let Some(host) = host {
            self.counters.query(host);
        }
        let room = match way {
            QueryTransport::Stream => usize::from(u16::MAX),
            QueryTransport::Datagram => query
                .opt()
                .map_or(DATAGRAM, |opt| usize::from(opt.udp_payload_size()).clamp(DATAGRAM, DATAGRAM_MAX)),
        };
        let said = match host.map(|host| host.behaviour) {
            Some(Behaviour::Nodns) => return None,
            Some(Behaviour::Tc) if way == QueryTransport::Datagram => truncated(query),
            _ => self.say(query, question.qname(), question.qtype(), host, room),
        };
        Some(DnsAnswer { bytes: said.ok()?, delay: self.delay + self.slowness(host) })
    }

    fn say(
        &mut self,
        query: &Message<[u8]>,
        name: &ParsedName<&[u8]>,
        rtype: Rtype,
        host: Option<Host>,
        room: usize,
    ) -> Result<Vec<u8>, PushError> {
        let rcode = match host.map(|host| host.behaviour) {
            None | Some(Behaviour::Nxdomain) => Rcode::NXDOMAIN,
            Some(Behaviour::Servfail) => Rcode::SERVFAIL,
            Some(_) => Rcode::NOERROR,
        };
        let mut builder = start(query, rcode)?;
        builder.set_push_limit(room);
        let found = match host {
            Some(host) if rcode == Rcode::NOERROR => self.records(&mut builder, name, rtype, host),
            _ => Ok(0),
        };
        match found {
            Ok(0) if rcode != Rcode::SERVFAIL => end(query, builder, true),
            Ok(_) => end(query, builder, false),
            Err(_) => truncated(query),
        }
    }

    /// Adds the records of a host to an answer. Returns the number of addresses.
    fn records(
        &mut self,
        builder: &mut AnswerBuilder<AnswerBuffer>,
        name: &ParsedName<&[u8]>,
        rtype: Rtype,
        host: Host,
    ) -> Result<usize, PushError> {
        if host.behaviour == Behaviour::Cname {
            let good = Host { behaviour: Behaviour::Good, number: host.number };
            let last = aliases(builder, name, host, good)?;
            return self.addresses_of(builder, &last, rtype, good);
        }
        self.addresses_of(builder, name, rtype, host)
    }

    fn addresses_of(
        &mut self,
        builder: &mut AnswerBuilder<AnswerBuffer>,
        name: &impl ToName,
        rtype: Rtype,
        host: Host,
    ) -> Result<usize, PushError> {
        if rtype == Rtype::AAAA && host.behaviour == Behaviour::Dual {
            builder.push((name, Class::IN, TTL, Aaaa::new(Ipv6Addr::LOCALHOST)))?;
            return Ok(1);
        }
        if rtype != Rtype::A {
            return Ok(0);
        }
        let (found, ttl) = match host.behaviour {
            Behaviour::Nodata => (Vec::new(), TTL),
            Behaviour::Many => (addresses::all(Behaviour::Many, self.addresses).collect(), TTL),
            Behaviour::Rebind => (vec![self.rebound(host)], SHORT_TTL),
            _ => (vec![host.address(self.addresses)], TTL),
        };
        for address in &found {
            builder.push((name, Class::IN, ttl, A::new(*address)))?;
        }
        Ok(found.len())
    }

    /// Alternates between the good address and the private one, starting with the good one.
    fn rebound(&mut self, host: Host) -> Ipv4Addr {
        if self.rebound.remove(&host.number) {
            return PRIVATE;
        }
        if self.rebound.len() < REBIND_MAX {
            self.rebound.insert(host.number);
        }
        host.address(self.addresses)
    }

    fn slowness(&self, host: Option<Host>) -> Duration {
        match host {
            Some(Host { behaviour: Behaviour::Slowdns, number }) => Duration::from_millis(
                100 + hash::below(hash::of_bytes(self.seed, &number.to_le_bytes()), 301),
            ),
            _ => Duration::ZERO,
        }
    }
}

fn start(query: &Message<[u8]>, rcode: Rcode) -> Result<AnswerBuilder<AnswerBuffer>, PushError> {
    let target = StaticCompressor::new(Vec::with_capacity(DATAGRAM));
    let builder = MessageBuilder::from_target(target).map_err(|_| PushError::ShortBuf)?;
    let mut builder = builder.start_answer(query, rcode)?;
    builder.header_mut().set_aa(true);
    builder.header_mut().set_ra(true);
    Ok(builder)
}

/// Adds the record with the lifetime of a negative answer. Also adds an EDNS record if the client sent one.
fn end(
    query: &Message<[u8]>,
    builder: AnswerBuilder<AnswerBuffer>,
    is_negative: bool,
) -> Result<Vec<u8>, PushError> {
    let mut builder = builder.authority();
    if is_negative {
        let zone = name_of(ZONE)?;
        let (hour, short) = (Ttl::from_secs(3600), Ttl::from_secs(SHORT_TTL));
        let soa = Soa::new(&zone, &zone, Serial(1), hour, hour, hour, short);
        builder.push((&zone, Class::IN, SHORT_TTL, soa))?;
    }
    let mut builder = builder.additional();
    if query.opt().is_some() {
        builder.opt(|opt| {
            opt.set_udp_payload_size(DATAGRAM_MAX as u16);
            Ok(())
        })?;
    }
    Ok(builder.finish().into_target())
}

/// Returns a truncated answer, which makes the client retry over TCP.
fn truncated(query: &Message<[u8]>) -> Result<Vec<u8>, PushError> {
    let mut builder = start(query, Rcode::NOERROR)?;
    builder.header_mut().set_tc(true);
    end(query, builder, false)
}

/// Adds three aliases to an answer. Returns the name that the last alias points to.
fn aliases(
    builder: &mut AnswerBuilder<AnswerBuffer>,
    name: &ParsedName<&[u8]>,
    host: Host,
    good: Host,
) -> Result<Name<Vec<u8>>, PushError> {
    let mut at: Name<Vec<u8>> = name.to_name();
    for next in [format!("{}.{host}", ALIASES[0]), format!("{}.{host}", ALIASES[1]), good.to_string()] {
        let next = name_of(&next)?;
        builder.push((&at, Class::IN, TTL, Cname::new(&next)))?;
        at = next;
    }
    Ok(at)
}

fn name_of(text: &str) -> Result<Name<Vec<u8>>, PushError> {
    Name::vec_from_str(text).map_err(|_| PushError::ShortBuf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> WorldNames {
        WorldNames::new(&Arc::new(WorldCounters::new(&[])), 16, Duration::ZERO, 0)
    }

    fn query(name: &str) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec().question();
        builder.push((name_of(name).unwrap(), Rtype::A)).unwrap();
        builder.finish()
    }

    #[test]
    fn an_answer_has_the_hosts_address() {
        let answer = names().answer(&query("good-000002.test"), QueryTransport::Datagram).unwrap();

        assert!(answer.bytes.ends_with(&[127, 77, 1, 3]));
    }

    #[test]
    fn damaged_queries_are_answered_or_not_but_never_harm() {
        let (mut names, whole) = (names(), query("cname-000002.test"));
        for seed in 0..20_000_u64 {
            let random = hash::mix(seed);
            let mut damaged = whole.clone();
            let place = hash::below(random, whole.len() as u64) as usize;
            damaged[place] = random as u8;
            damaged.truncate(whole.len() - (random >> 8) as usize % 3);

            if let Some(answer) = names.answer(&damaged, QueryTransport::Datagram) {
                assert!(answer.bytes.len() <= DATAGRAM_MAX, "seed {seed}");
            }
        }
    }
}
