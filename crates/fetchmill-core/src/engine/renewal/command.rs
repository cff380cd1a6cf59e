//! A command that writes credentials: the `credential_process` of a profile, `--bearer-command`.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::refresher::stopped;
use crate::error::{Error, Result};
use crate::limits;
use crate::name::for_display;
use crate::panics;

/// How often a command is looked at.
const POLL: Duration = Duration::from_millis(10);
/// What a command has written is here soon after its end, unless it has left somebody behind who may still write.
const REST: Duration = Duration::from_millis(500);

/// What a command writes, run by a shell as other programs do it. It ends with the job. `what` it is, for people; an error
/// has the first line that it complains with, and never what it writes.
pub(in crate::engine) fn run_command(
    command: &str,
    what: &str,
    patience: Duration,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<u8>> {
    let failed =
        |why: &str| Error::Temporary(format!("the {what} {why}; run it by hand to see what is wrong"));
    let mut running =
        CommandProcess::start(command).map_err(|error| failed(&format!("cannot be started ({error})")))?;
    let (output, complaints) = (running.output(), running.complaints());
    let end = Instant::now() + patience;
    let status = loop {
        if let Some(status) = running.ended().map_err(|error| failed(&format!("is lost ({error})")))? {
            break status;
        }
        if is_over() {
            return Err(stopped());
        }
        if Instant::now() > end {
            return Err(failed(&format!("takes over {} s", patience.as_secs())));
        }
        std::thread::sleep(POLL);
    };
    if !status.success() {
        let said = complaints.recv_timeout(REST).unwrap_or_default();
        let line = String::from_utf8_lossy(&said).lines().next().map(|line| for_display(line.as_bytes()));
        return Err(failed(&format!("ends with {status}: {}", line.unwrap_or_default())));
    }
    Ok(output.recv_timeout(REST).unwrap_or_default())
}

/// A command and all that it starts: they end when this is dropped.
struct CommandProcess(Child);

impl CommandProcess {
    fn start(command: &str) -> std::io::Result<Self> {
        let child = Command::new("/bin/sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(CommandProcess(child))
    }

    fn output(&mut self) -> Receiver<Vec<u8>> {
        read(self.0.stdout.take())
    }

    fn complaints(&mut self) -> Receiver<Vec<u8>> {
        read(self.0.stderr.take())
    }

    fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }
}

impl Drop for CommandProcess {
    fn drop(&mut self) {
        // Once it is waited for, its group may be another's.
        if matches!(self.0.try_wait(), Ok(None)) {
            if let Some(group) = rustix::process::Pid::from_raw(self.0.id() as i32) {
                // It may have ended by itself.
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = self.0.wait();
        }
    }
}

/// Reads on a thread of its own: a command that writes much must not wait for us.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    let work = move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What comes before an error is judged by who wants it.
            let _ = pipe.take(limits::CREDENTIALS_BYTES_MAX as u64).read_to_end(&mut bytes);
        }
        // Nobody may wait for it any more.
        let _ = sender.send(bytes);
    };
    // Without a thread the sender is gone, and nothing is read.
    let _ = std::thread::Builder::new().name("credentials".into()).spawn(panics::inherited(work));
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_ended_with_all_that_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let command = format!("echo hidden; sleep 60 & echo $! > '{}'; wait", pid.display());
        let error = run_command(&command, "command", Duration::from_secs(1), &|| false).unwrap_err();

        assert_eq!(error.to_string(), "the command takes over 1 s; run it by hand to see what is wrong");
        let started =
            rustix::process::Pid::from_raw(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap());
        let end = Instant::now() + Duration::from_secs(10);
        while rustix::process::test_kill_process(started.unwrap()).is_ok() {
            assert!(Instant::now() < end, "it is left behind");
            std::thread::sleep(POLL);
        }
    }
}
