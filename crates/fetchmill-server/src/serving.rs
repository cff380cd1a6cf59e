//! Serves a connection from its first request to its end.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use crate::client_stream::ClientStream;
use crate::connection::{AfterScript, AfterTurn, Connection, Turn};
use crate::scripted_reply;
use crate::worker::Worker;

/// Number of times that a waiting connection is checked while the client's timeout runs.
const LOOKS: u32 = 4;

/// Serves a connection until it ends. An error ends the connection and is not reported.
pub(crate) async fn serve(stream: TcpStream, tls: Option<TlsAcceptor>, worker: Arc<Worker>) {
    worker.counters().connections.add(1);
    let stream = match tls {
        None => ClientStream::Plain(stream),
        // Boxed, because only the handshake needs this memory.
        Some(tls) => match Box::pin(timeout(worker.shared.client_timeout, tls.accept(stream))).await {
            Ok(Ok(stream)) => ClientStream::Tls(Box::new(stream)),
            Ok(Err(_)) | Err(_) => return worker.counters().connections_closed.add(1),
        },
    };
    let mut patience = Patience::new(worker.shared.client_timeout);
    let mut connection = Connection::new(stream, worker);
    while let Ok(turn) = next_turn(&mut connection, &mut patience).await {
        let Some(turn) = turn else {
            // The connection ends in any case.
            let _ = Box::pin(connection.time_out()).await;
            break;
        };
        match follow(&mut connection, turn).await {
            Ok(AfterScript::Continue) => connection.turn_sent(),
            Ok(AfterScript::Close) => {
                connection.turn_sent();
                // An error also ends the connection.
                let _ = Box::pin(connection.end()).await;
                break;
            }
            Err(_) => break,
            Ok(AfterScript::Reset) => {
                connection.reset_at_end();
                break;
            }
        }
    }
}

/// Returns the next turn that the fast loop cannot handle. If a stray reply is due before that, sends it. `None` if the
/// client takes longer than its timeout to send a request.
async fn next_turn(connection: &mut Connection, patience: &mut Patience) -> io::Result<Option<Turn>> {
    // Boxed, so that idle connections need no memory for this.
    while let Some(due) = connection.stray_due() {
        if let Some(turn) = Box::pin(turn_before(connection, patience, due)).await {
            return turn;
        }
        Box::pin(connection.send_stray()).await?;
    }
    poll_fn(|context| poll_turn(connection, patience, context)).await
}

/// Returns the next turn if it comes before a given time.
async fn turn_before(
    connection: &mut Connection,
    patience: &mut Patience,
    due: Instant,
) -> Option<io::Result<Option<Turn>>> {
    tokio::select! {
        biased;
        () = sleep_until(due.into()) => None,
        turn = poll_fn(|context| poll_turn(connection, patience, context)) => Some(turn),
    }
}

fn poll_turn(
    connection: &mut Connection,
    patience: &mut Patience,
    context: &mut Context<'_>,
) -> Poll<io::Result<Option<Turn>>> {
    match connection.turns(context) {
        Poll::Ready(turn) => Poll::Ready(turn.map(Some)),
        Poll::Pending if patience.is_over(connection.answered, context) => Poll::Ready(Ok(None)),
        Poll::Pending => Poll::Pending,
    }
}

/// Time limit for the head of a request, and between two requests. A few times during the timeout, the thread checks
/// whether any request was answered since the last check. Reading a clock or setting a timer for each request would
/// account for most of its cost.
struct Patience {
    look: Pin<Box<Sleep>>,
    period: Duration,
    answered: u64,
    quiet: u32,
}

impl Patience {
    fn new(timeout: Duration) -> Self {
        let period = timeout / LOOKS;
        Patience { look: Box::pin(tokio::time::sleep(period)), period, answered: 0, quiet: 0 }
    }

    fn is_over(&mut self, answered: u64, context: &mut Context<'_>) -> bool {
        while self.look.as_mut().poll(context).is_ready() {
            self.quiet = if answered == self.answered { self.quiet + 1 } else { 0 };
            self.answered = answered;
            if self.quiet >= LOOKS {
                return true;
            }
            self.look.as_mut().reset(tokio::time::Instant::now() + self.period);
        }
        false
    }
}

async fn follow(connection: &mut Connection, turn: Turn) -> io::Result<AfterScript> {
    connection.send(&turn.rest).await?;
    drop(turn.rest);
    match turn.then {
        AfterTurn::Continue => Ok(AfterScript::Continue),
        AfterTurn::Close => Ok(AfterScript::Close),
        AfterTurn::Linger => {
            connection.linger().await?;
            Ok(AfterScript::Close)
        }
        // Boxed, so that idle connections do not need the memory of a script.
        AfterTurn::Later(later) => Box::pin(scripted_reply::carry_out(connection, later)).await,
    }
}
