//! The slow path of a reply, for large bodies, delays and scripted faults.
//!
//! A reply consists of a head and a body. A [`ReplyShape`] determines how they are sent: with different framing,
//! truncated, byte by byte, or followed by more bytes. `after_bytes` counts from the first byte of the head.

use std::io;
use std::time::Duration;

use crate::call::{Call, CallKind, CallResult, Continuation, LargeReply, ReplyParts, Script};
use crate::connection::{AfterScript, Connection};
use crate::hash;
use crate::reply::{self, Framing, Persistence};
use crate::rules::{Action, Fault};
use crate::source::Source;
use crate::worker::Worker;

/// Size of the pieces of a large body.
const PIECE_BYTES: usize = 256 * 1024;
/// Body of an unsolicited reply if there is no second object.
const UNSOLICITED: &[u8] = b"nobody asked for this\n";

/// Completes a reply that the fast path could not complete.
pub(crate) async fn carry_out(connection: &mut Connection, later: Continuation) -> io::Result<AfterScript> {
    match later {
        Continuation::Large(large) => large_body(connection, large).await,
        Continuation::Script(script) => {
            if let Some(delay) = script.delay {
                connection.worker.counters().delayed.add(1);
                connection.wait_for_turn(delay).await?;
            }
            match script.fault {
                None => plain(connection, &script).await,
                Some(fault) => faulty(connection, &script, fault).await,
            }
        }
    }
}

/// Sends a reply without faults.
async fn plain(connection: &mut Connection, script: &Script) -> io::Result<AfterScript> {
    let mut out = Vec::new();
    let answer = connection.worker.carry_out(script.call(), &mut Vec::new(), &mut out);
    connection.send(&out).await?;
    match answer {
        CallResult::Later(Continuation::Large(large)) => large_body(connection, large).await,
        CallResult::Last => Ok(AfterScript::Close),
        CallResult::Done | CallResult::Later(Continuation::Script(_)) => Ok(AfterScript::Continue),
    }
}

async fn large_body(connection: &mut Connection, large: LargeReply) -> io::Result<AfterScript> {
    let mut source = Source::new(Vec::new(), large.size, Some(large.stream));
    let mut piece = Vec::new();
    let mut more = true;
    while more {
        piece.clear();
        let result = source.piece(PIECE_BYTES, &mut piece);
        more = result.inspect_err(|_| connection.worker.counters().errors.add(1))?;
        connection.send(&piece).await?;
    }
    Ok(if large.keep_alive { AfterScript::Continue } else { AfterScript::Close })
}

async fn faulty(connection: &mut Connection, script: &Script, fault: Fault) -> io::Result<AfterScript> {
    connection.worker.counters().faults[fault.name as usize].add(1);
    let call = script.call();
    let action = fault.action;
    let parts = match action {
        Action::Status { status, retry_after } => with_status(&connection.worker, status, retry_after),
        _ => connection.worker.parts(call, action),
    };
    let mut shape = ReplyShape::of(call, &parts);
    match action {
        Action::Reset { after } | Action::Stall { after, .. } => shape.cut = CutPoint::At(after),
        Action::Truncate { after } => shape.cut = after.map_or(CutPoint::HalfBody, CutPoint::At),
        Action::WrongLength { delta } => {
            shape.framing = Framing::Length(parts.size.saturating_add_signed(delta));
        }
        Action::Trickle { after, time } => shape.pace = Some((after, time)),
        Action::Unsolicited { time } if time.is_zero() => {
            shape.behind = unsolicited(&connection.worker, call);
        }
        Action::Close => shape.persistence = Persistence::Close,
        Action::Chunked if !call.old => shape.framing = Framing::Chunked,
        Action::Chunked | Action::Eof => {
            shape.framing = Framing::Nothing;
            shape.persistence = Persistence::Close;
        }
        // These faults are already in the parts, or come after the reply.
        Action::Status { .. }
        | Action::RepeatMarker { .. }
        | Action::Unsolicited { .. }
        | Action::Stray { .. } => {}
    }
    let persistence = shape.persistence;
    send(connection, parts, shape).await?;
    match action {
        Action::Reset { .. } => return Ok(AfterScript::Reset),
        Action::Truncate { .. } => {
            connection.linger().await?;
            return Ok(AfterScript::Close);
        }
        Action::Stall { time, .. } => {
            connection.wait(time).await?;
            return Ok(AfterScript::Close);
        }
        Action::Unsolicited { time } if !time.is_zero() => {
            connection.wait(time).await?;
            let second = unsolicited(&connection.worker, call);
            connection.send(&second).await?;
        }
        _ => {}
    }
    if persistence == Persistence::Close {
        connection.linger().await?;
        return Ok(AfterScript::Close);
    }
    Ok(AfterScript::Continue)
}

fn with_status(worker: &Worker, status: u16, retry_after: Option<[u64; 2]>) -> ReplyParts {
    let mut parts = ReplyParts::text(status);
    if let Some([min, max]) = retry_after {
        let seconds = min + hash::below(worker.random(), max - min + 1);
        parts.extra = format!("Retry-After: {seconds}\r\n").into_bytes();
    }
    if matches!(status, 204 | 304) {
        parts.body = Vec::new();
        parts.size = 0;
    }
    parts
}

/// Returns a second reply. Its body is the body of another object, if another object exists.
fn unsolicited(worker: &Worker, call: Call<'_>) -> Vec<u8> {
    let name = if let CallKind::Get(name) = call.what { name } else { "" };
    let body = another_name(worker, name)
        .map(|other| worker.parts(Call { what: CallKind::Get(&other), ..call }, Action::Close))
        .filter(|parts| parts.stream.is_none())
        .map_or_else(|| UNSOLICITED.to_vec(), |parts| parts.body);
    let mut out = Vec::new();
    let content_type = worker.shared.content.content_type();
    reply::head(200, content_type, Framing::Length(body.len() as u64), Persistence::Keep, b"", &mut out);
    out.extend_from_slice(&body);
    out
}

fn another_name(worker: &Worker, name: &str) -> Option<String> {
    let mut page = Vec::new();
    worker.page(None, None, &mut page).ok()?;
    let page: serde_json::Value = serde_json::from_slice(&page).ok()?;
    let mut names = page.get("FileNames")?.as_array()?.iter().filter_map(serde_json::Value::as_str);
    names.find(|other| *other != name).map(str::to_owned)
}

/// Plan for sending the parts of a reply.
struct ReplyShape {
    framing: Framing,
    persistence: Persistence,
    /// Whether the reply ends with its head.
    head_only: bool,
    cut: CutPoint,
    /// Number of bytes after which the reply is sent byte by byte, and the interval between these bytes.
    pace: Option<(u64, Duration)>,
    /// Bytes to send together with the end of the reply.
    behind: Vec<u8>,
}

enum CutPoint {
    Never,
    At(u64),
    HalfBody,
}

impl ReplyShape {
    /// Returns the shape of a correct reply.
    fn of(call: Call<'_>, parts: &ReplyParts) -> Self {
        let bodyless = matches!(parts.status, 204 | 304);
        ReplyShape {
            framing: if bodyless { Framing::Nothing } else { Framing::Length(parts.size) },
            persistence: call.persistence,
            head_only: call.head,
            cut: CutPoint::Never,
            pace: None,
            behind: Vec::new(),
        }
    }
}

async fn send(connection: &mut Connection, parts: ReplyParts, shape: ReplyShape) -> io::Result<()> {
    let mut piece = Vec::new();
    reply::head(parts.status, parts.content_type, shape.framing, shape.persistence, &parts.extra, &mut piece);
    let mut left = match shape.cut {
        CutPoint::Never => u64::MAX,
        CutPoint::At(bytes) => bytes,
        CutPoint::HalfBody => piece.len() as u64 + parts.size / 2,
    };
    let size = if shape.head_only { 0 } else { parts.size };
    let mut source = Source::new(parts.body, size, parts.stream.filter(|_| !shape.head_only));
    source.behind = shape.behind;
    source.chunked = shape.framing == Framing::Chunked && !shape.head_only;
    let mut paced_from = shape.pace.map(|(after, _)| after);
    loop {
        // The first piece contains the head and the start of the body, so that a client receives both in one segment.
        let more = source.piece(PIECE_BYTES, &mut piece)?;
        piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        left -= piece.len() as u64;
        match (&mut paced_from, shape.pace) {
            (Some(after), Some((_, time))) => {
                let at_once = usize::try_from(*after).unwrap_or(usize::MAX).min(piece.len());
                *after -= at_once as u64;
                trickle(connection, &piece, at_once, time).await?;
            }
            _ => connection.send(&piece).await?,
        }
        if !more || left == 0 {
            return Ok(());
        }
        piece.clear();
    }
}

async fn trickle(
    connection: &mut Connection,
    piece: &[u8],
    at_once: usize,
    time: Duration,
) -> io::Result<()> {
    connection.send(&piece[..at_once]).await?;
    for byte in &piece[at_once..] {
        connection.wait(time).await?;
        connection.send(&[*byte]).await?;
    }
    Ok(())
}
