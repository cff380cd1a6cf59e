//! Commands that print credentials: the `credential_process` of a profile, or `--bearer-command`.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::refresher::stopped;
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::name::for_display;
use fetchmill_model::panics;

/// Poll interval for a running command.
const POLL: Duration = Duration::from_millis(10);
/// Time to wait for output after the command exits. Its child processes can keep the pipe open.
const REST: Duration = Duration::from_millis(500);
/// Size of one read in bytes.
const PIECE_BYTES: usize = 4096;

/// Runs a command in a shell and returns its output. If the job ends first, the command is killed. `what` names the
/// command in messages. Errors quote the first line of standard error, but never standard output.
pub(crate) fn run_command(
    command: &str,
    what: &str,
    patience: Duration,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<u8>> {
    let failed =
        |why: &str| Error::Temporary(format!("the {what} {why}; run the command by hand to find the cause"));
    let mut running =
        CommandProcess::start(command).map_err(|error| failed(&format!("cannot be started ({error})")))?;
    let (output, complaints) = (running.output(), running.complaints());
    let end = Instant::now() + patience;
    let status = loop {
        if let Some(status) =
            running.ended().map_err(|error| failed(&format!("cannot be monitored ({error})")))?
        {
            break status;
        }
        if is_over() {
            return Err(stopped());
        }
        if Instant::now() > end {
            return Err(failed(&format!("did not finish within {} s", patience.as_secs())));
        }
        std::thread::sleep(POLL);
    };
    if !status.success() {
        let said = read_rest(&complaints);
        let line = String::from_utf8_lossy(&said).lines().next().map(|line| for_display(line.as_bytes()));
        return Err(failed(&format!("failed ({status}): {}", line.unwrap_or_default())));
    }
    Ok(read_rest(&output))
}

/// Returns the output so far, plus any that arrives shortly afterwards. A child process can keep the pipe open.
fn read_rest(pieces: &Receiver<Vec<u8>>) -> Vec<u8> {
    let end = Instant::now() + REST;
    let mut bytes = Vec::new();
    loop {
        match pieces.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(piece) => bytes.extend(piece),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return bytes,
        }
    }
}

/// A command and its children. They are killed when this value is dropped or when this process is killed.
struct CommandProcess {
    shell: Child,
    guard: Option<Guard>,
    is_waited_for: bool,
}

/// Process that kills a process group after the process that created the group has ended for any reason.
struct Guard {
    shell: Child,
    /// Pipe that the kernel closes when this process ends.
    _stdin: Option<ChildStdin>,
}

impl Guard {
    fn start(group: u32) -> std::io::Result<Self> {
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "read _; kill -s KILL -- \"-$0\"", &group.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let stdin = shell.stdin.take();
        Ok(Guard { shell, _stdin: stdin })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The guard might have exited already.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

impl CommandProcess {
    fn start(command: &str) -> std::io::Result<Self> {
        let child = Command::new("/bin/sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        // Without a guard, the command outlives this process only if this process is killed.
        let guard = Guard::start(child.id()).ok();
        Ok(CommandProcess { shell: child, guard, is_waited_for: false })
    }

    fn output(&mut self) -> Receiver<Vec<u8>> {
        read(self.shell.stdout.take())
    }

    fn complaints(&mut self) -> Receiver<Vec<u8>> {
        read(self.shell.stderr.take())
    }

    /// If the command has exited, kills the rest of its process group and returns its exit status. The group is killed
    /// before the shell is reaped, because the group id cannot be reused until then.
    fn ended(&mut self) -> std::io::Result<Option<ExitStatus>> {
        let Some(pid) = Pid::from_raw(self.shell.id() as i32) else { return Ok(None) };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if waitid(WaitId::Pid(pid), look)?.is_none() {
            return Ok(None);
        }
        // By now, all of the command's output is in the pipes.
        std::thread::sleep(POLL);
        self.end_group();
        self.is_waited_for = true;
        self.shell.wait().map(Some)
    }

    fn end_group(&mut self) {
        if let Some(group) = Pid::from_raw(self.shell.id() as i32) {
            // By now, the group might be empty.
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.guard = None;
    }
}

impl Drop for CommandProcess {
    fn drop(&mut self) {
        // Once the shell has been reaped, its id might be reused for another process group.
        if !self.is_waited_for {
            self.end_group();
            let _ = self.shell.wait();
        }
    }
}

/// Reads the pipe on a separate thread, so that a command with a lot of output does not block.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    let work = move || {
        let Some(pipe) = pipe else { return };
        let mut pipe = pipe.take(limits::CREDENTIALS_BYTES_MAX as u64);
        let mut piece = vec![0; PIECE_BYTES];
        // Read errors are ignored: the caller checks the output.
        while let Ok(count @ 1..) = pipe.read(&mut piece) {
            if sender.send(piece[..count].to_vec()).is_err() {
                // The receiver was dropped.
                return;
            }
        }
    };
    // If the thread cannot be started, the sender is dropped and nothing is read.
    let _ = std::thread::Builder::new().name("credentials".into()).spawn(panics::inherited(work));
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_keeps_the_output_open_is_ended_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let command = format!("sleep 60 & echo $! > '{}'; echo token", pid.display());
        let output = run_command(&command, "command", Duration::from_secs(10), &|| false).unwrap();

        assert_eq!(output, b"token\n");
        must_end(&pid);
    }

    fn must_end(pid: &std::path::Path) {
        let started = Pid::from_raw(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap());
        let end = Instant::now() + Duration::from_secs(10);
        while rustix::process::test_kill_process(started.unwrap()).is_ok() {
            assert!(Instant::now() < end, "it is left behind");
            std::thread::sleep(POLL);
        }
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_all_that_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let command = format!("echo hidden; sleep 60 & echo $! > '{}'; wait", pid.display());
        let error = run_command(&command, "command", Duration::from_secs(1), &|| false).unwrap_err();

        let expected = "the command did not finish within 1 s; run the command by hand to find the cause";
        assert_eq!(error.to_string(), expected);
        must_end(&pid);
    }
}
