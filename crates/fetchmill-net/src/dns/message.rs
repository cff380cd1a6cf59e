//! Encodes DNS queries and decodes answers, without I/O or a clock. No part of an answer is trusted until it has been
//! checked.

use std::net::IpAddr;
use std::time::Duration;

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::name::ParsedName;
use domain::base::record::ParsedRecord;
use domain::base::wire::ParseError;
use domain::base::{Message, MessageBuilder, Name, Ttl};
use domain::rdata::{A, Aaaa, Cname, Soa};

use super::candidates::WireName;
use super::random::QueryRandom;
use fetchmill_model::limits;
use fetchmill_model::outcome::FailureKind;

const HEADER_BYTES: usize = 12;
/// Size of a question's type and class.
const QUESTION_TAIL_BYTES: usize = 4;
/// The bit in which upper-case and lower-case letters differ.
const CASE_BIT: u8 = 0x20;

/// Address family of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V6,
    V4,
}

impl Family {
    fn rtype(self) -> Rtype {
        match self {
            Family::V6 => Rtype::AAAA,
            Family::V4 => Rtype::A,
        }
    }
}

/// Optional features of the queries to a server. All of them are used until the server turns out not to support one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueryForm {
    /// Whether letters have random case. A genuine answer repeats the case, and a forger would have to guess it.
    pub(super) has_mixed_case: bool,
    /// Whether the query announces that answers may exceed 512 bytes.
    pub(super) has_edns: bool,
}

impl QueryForm {
    pub(super) const FULL: QueryForm = QueryForm { has_mixed_case: true, has_edns: true };
}

/// Properties of a query that the answer must repeat in addition to the name.
#[derive(Debug, Clone, Copy)]
pub(super) struct DnsQuery {
    pub(super) id: u16,
    pub(super) family: Family,
    pub(super) form: QueryForm,
    /// One bit per byte of the name, which is 1 for an upper-case letter.
    capitals: [u8; 32],
}

/// A server's answer about a name. Also used as the final answer of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NameAnswer {
    /// Addresses of the name, up to the maximum number that is ever tried.
    Addresses { addresses: Vec<IpAddr>, ttl: Duration },
    /// The name does not exist.
    NoName { ttl: Duration },
    /// The name exists but has no address of this family.
    Empty { ttl: Duration },
    /// This server has no answer, but other servers may have one.
    Failed(FailureKind),
}

/// Reply to a query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DnsReply {
    Found(NameAnswer),
    /// The answer is too long for a datagram.
    Truncated,
    /// The server must be queried in this simpler form.
    Simpler(QueryForm),
    /// The message does not answer this query.
    Foreign,
}

impl DnsQuery {
    /// Creates an unpredictable query.
    pub(super) fn new(
        id: u16,
        family: Family,
        form: QueryForm,
        name: &WireName,
        random: &mut QueryRandom,
    ) -> Self {
        let mut capitals = [0; 32];
        if form.has_mixed_case {
            random.fill(&mut capitals[..name.len().div_ceil(8)]);
        }
        DnsQuery { id, family, form, capitals }
    }

    /// Writes the query. Returns `None` if it does not fit, which cannot happen for a valid name.
    pub(super) fn write(&self, name: &WireName, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        let mut builder = MessageBuilder::from_target(std::mem::take(out)).ok()?;
        builder.header_mut().set_id(self.id);
        builder.header_mut().set_rd(true);
        let mut cased = [0; Name::MAX_LEN];
        let cased = self.cased(name, &mut cased);
        let mut question = builder.question();
        question.push((Name::from_slice(cased).ok()?, self.family.rtype())).ok()?;
        let mut additional = question.additional();
        if self.form.has_edns {
            let opt = additional.opt(|opt| {
                opt.set_udp_payload_size(limits::DNS_UDP_PAYLOAD);
                Ok(())
            });
            opt.ok()?;
        }
        *out = additional.finish();
        Some(())
    }

    fn cased<'b>(&self, name: &WireName, buffer: &'b mut [u8; Name::MAX_LEN]) -> &'b [u8] {
        let cased = &mut buffer[..name.len()];
        cased.copy_from_slice(name.as_slice());
        for (position, byte) in cased.iter_mut().enumerate() {
            // The length bytes of labels are smaller than any letter, so this never changes them.
            if byte.is_ascii_lowercase() && self.capitals[position / 8] & (1 << (position % 8)) != 0 {
                *byte ^= CASE_BIT;
            }
        }
        cased
    }

    /// Parses the answer about a name.
    pub(super) fn read(&self, bytes: &[u8], name: &WireName) -> DnsReply {
        let Ok(message) = Message::from_slice(bytes) else { return DnsReply::Foreign };
        let header = message.header();
        if header.id() != self.id || !header.qr() || header.opcode() != Opcode::QUERY {
            return DnsReply::Foreign;
        }
        let has_no_edns = self.form.has_edns && matches!(header.rcode(), Rcode::FORMERR | Rcode::NOTIMP);
        let without_edns = DnsReply::Simpler(QueryForm { has_edns: false, ..self.form });
        match message.header_counts().qdcount() {
            // A server that did not understand the query does not have to repeat its question.
            0 if has_no_edns => return without_edns,
            1 => {}
            _ => return DnsReply::Foreign,
        }
        match self.repeats(bytes, name) {
            QuestionEcho::Nothing => return DnsReply::Foreign,
            QuestionEcho::OtherCase => {
                return DnsReply::Simpler(QueryForm { has_mixed_case: false, ..self.form });
            }
            QuestionEcho::All => {}
        }
        DnsReply::Found(match header.rcode() {
            Rcode::NOERROR if header.tc() => return DnsReply::Truncated,
            Rcode::NOERROR => self.read_answer(message).unwrap_or(NameAnswer::Failed(FailureKind::Dns)),
            Rcode::NXDOMAIN => NameAnswer::NoName { ttl: absent_ttl(message) },
            Rcode::SERVFAIL => NameAnswer::Failed(FailureKind::DnsServfail),
            _ if has_no_edns => return without_edns,
            _ => NameAnswer::Failed(FailureKind::Dns),
        })
    }

    /// Compares the question in the answer with the query, byte by byte.
    fn repeats(&self, bytes: &[u8], name: &WireName) -> QuestionEcho {
        let name_end = HEADER_BYTES + name.len();
        let Some(question) = bytes.get(HEADER_BYTES..name_end + QUESTION_TAIL_BYTES) else {
            return QuestionEcho::Nothing;
        };
        let (repeated, tail) = question.split_at(name.len());
        let [rtype, class] = [self.family.rtype().to_int(), Class::IN.to_int()].map(u16::to_be_bytes);
        if tail != [rtype, class].concat() || !repeated.eq_ignore_ascii_case(name.as_slice()) {
            return QuestionEcho::Nothing;
        }
        let mut cased = [0; Name::MAX_LEN];
        if self.form.has_mixed_case && repeated != self.cased(name, &mut cased) {
            return QuestionEcho::OtherCase;
        }
        QuestionEcho::All
    }

    fn read_answer(&self, message: &Message<[u8]>) -> Result<NameAnswer, ParseError> {
        let mut chain = CnameChain::new(self.family, message.sole_question()?.into_qname());
        loop {
            let links = chain.links;
            for record in message.answer()? {
                chain.take(&record?)?;
            }
            if chain.links > limits::DNS_CHAIN_MAX {
                return Ok(NameAnswer::Failed(FailureKind::Dns));
            }
            // CNAME records may come in any order, so search again until no more links are found.
            if !chain.addresses.is_empty() || chain.links == links {
                break;
            }
        }
        if !chain.addresses.is_empty() {
            let ttl = chain.ttl.clamp(limits::DNS_TTL_MIN, limits::DNS_TTL_MAX);
            return Ok(NameAnswer::Addresses { addresses: chain.addresses, ttl });
        }
        let header = message.header();
        // Reject EDNS errors, which have codes of their own. Also reject the answer of a server that is not
        // authoritative for the name and offers no recursion.
        if message.opt_rcode().to_int() != 0 || !(header.ra() || header.aa()) {
            return Ok(NameAnswer::Failed(FailureKind::Dns));
        }
        Ok(NameAnswer::Empty { ttl: absent_ttl(message) })
    }
}

/// Result of comparing the question in an answer with the query.
enum QuestionEcho {
    All,
    OtherCase,
    Nothing,
}

/// Follows CNAME records from the requested name to its addresses. Ignores records outside this chain.
struct CnameChain<'m> {
    family: Family,
    current: ParsedName<&'m [u8]>,
    links: usize,
    addresses: Vec<IpAddr>,
    ttl: Duration,
}

impl<'m> CnameChain<'m> {
    fn new(family: Family, current: ParsedName<&'m [u8]>) -> Self {
        CnameChain { family, current, links: 0, addresses: Vec::new(), ttl: limits::DNS_TTL_MAX }
    }

    fn take(&mut self, record: &ParsedRecord<'m, [u8]>) -> Result<(), ParseError> {
        if record.class() != Class::IN || self.links > limits::DNS_CHAIN_MAX || record.owner() != self.current
        {
            return Ok(());
        }
        match (record.rtype(), self.family) {
            (Rtype::A, Family::V4) => {
                let address = record.to_record::<A>()?.map(|record| record.data().addr().into());
                self.add(address, record.ttl());
            }
            (Rtype::AAAA, Family::V6) => {
                let address = record.to_record::<Aaaa>()?.map(|record| record.data().addr().into());
                self.add(address, record.ttl());
            }
            (Rtype::CNAME, _) if self.addresses.is_empty() => {
                if let Some(link) = record.to_record::<Cname<ParsedName<&'m [u8]>>>()? {
                    self.current = *link.data().cname();
                    self.links += 1;
                    self.ttl = self.ttl.min(seconds(record.ttl()));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add(&mut self, address: Option<IpAddr>, ttl: Ttl) {
        self.ttl = self.ttl.min(seconds(ttl));
        self.addresses.extend(address.filter(|_| self.addresses.len() < limits::DNS_ADDRESSES_MAX));
    }
}

/// Returns how long a negative answer may be cached (RFC 2308, section 5). If the message does not specify a time, the
/// result is short.
fn absent_ttl(message: &Message<[u8]>) -> Duration {
    let soa = message
        .authority()
        .ok()
        .and_then(|records| records.limit_to_in::<Soa<ParsedName<&[u8]>>>().find_map(Result::ok));
    let ttl = soa.map(|soa| seconds(soa.ttl()).min(seconds(soa.data().minimum())));
    ttl.unwrap_or(limits::DNS_NEGATIVE_TTL).clamp(limits::DNS_TTL_MIN, limits::DNS_ABSENT_TTL_MAX)
}

/// Converts a TTL to a duration. A TTL with the highest bit set counts as 0 (RFC 2181, section 8).
fn seconds(ttl: Ttl) -> Duration {
    let seconds = ttl.as_secs();
    Duration::from_secs(if seconds > i32::MAX as u32 { 0 } else { seconds.into() })
}
