"""Linux's seccomp notifications, with which a process asks its supervisor before it makes certain system calls.

No privilege is needed, and nothing in the watched program changes. Structure layouts and numbers come from the kernel
headers `linux/seccomp.h`, `linux/bpf_common.h` and `asm/unistd.h`.
"""

import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from fetchmill.errors import UsageError

# Numbers of system calls by name, on the machines for which the wheel is built. aarch64 does not have the older calls.
_NUMBERS = {
    "x86_64": {
        "write": 1,
        "pwrite64": 18,
        "writev": 20,
        "connect": 42,
        "fsync": 74,
        "fdatasync": 75,
        "ftruncate": 77,
        "rename": 82,
        "mkdir": 83,
        "link": 86,
        "unlink": 87,
        "mkdirat": 258,
        "unlinkat": 263,
        "renameat": 264,
        "linkat": 265,
        "fallocate": 285,
        "pwritev": 296,
        "copy_file_range": 326,
        "pwritev2": 328,
        "syncfs": 306,
        "renameat2": 316,
    },
    "aarch64": {
        "mkdirat": 34,
        "unlinkat": 35,
        "linkat": 37,
        "renameat": 38,
        "ftruncate": 46,
        "fallocate": 47,
        "write": 64,
        "writev": 66,
        "pwrite64": 68,
        "pwritev": 70,
        "copy_file_range": 285,
        "pwritev2": 287,
        "fsync": 82,
        "fdatasync": 83,
        "connect": 203,
        "syncfs": 267,
        "renameat2": 276,
    },
}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
# The same number on both architectures.
_PIDFD_OPEN = 434
_PIDFD_GETFD = 438

_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_NO_NEW_PRIVILEGES = 38

# Filter instructions that load the number of the call, compare it, and return.
_LOAD = 0x20
_JUMP_IF_EQUAL = 0x15
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_NOTIFY = 0x7FC00000

_RECEIVE = 0xC0502100
_SEND = 0xC0182101
_NOTIFICATION_BYTES = 80
_CONTINUE = 1


class UnsupportedError(UsageError):
    """The machine or its kernel lacks a required feature."""


@dataclass(frozen=True)
class Notification:
    """A system call waiting for an answer.

    Args:
        id: id of the notification.
        thread: id of the calling thread.
        call: the name of the call.
        arguments: the six arguments of the call, as numbers.
    """

    id: int
    thread: int
    call: str
    arguments: tuple[int, ...]


def numbers() -> dict[str, int]:
    """Return the numbers of system calls on this machine, by name.

    Raises:
        UnsupportedError: the operating system or the machine is unknown.
    """
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in _NUMBERS:
        raise UnsupportedError(f"torture needs Linux on x86_64 or aarch64, not {platform.system()} on {machine}")
    return _NUMBERS[machine]


def install(calls: Iterable[str]) -> int:
    """Install the filter in this thread, and in all threads and processes it starts.

    Args:
        calls: names of the calls to intercept. Calls missing on this machine are ignored.

    Returns:
        The descriptor for the supervisor to read from.

    Raises:
        UnsupportedError: the kernel refuses the operation.
    """
    known = numbers()
    wanted = [known[call] for call in calls if call in known]
    count = len(wanted)
    program = [struct.pack("=HBBI", _LOAD, 0, 0, 0)]
    program += [struct.pack("=HBBI", _JUMP_IF_EQUAL, count - place, 0, number) for place, number in enumerate(wanted)]
    program += [struct.pack("=HBBI", _RETURN, 0, 0, _ALLOW), struct.pack("=HBBI", _RETURN, 0, 0, _NOTIFY)]
    instructions = ctypes.create_string_buffer(b"".join(program))
    described = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(instructions)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise _refused("prctl")
    listener = libc.syscall(_SECCOMP[platform.machine()], _SET_MODE_FILTER, _NEW_LISTENER, described)
    if listener < 0:
        raise _refused("seccomp")
    return int(listener)


def receive(listener: int) -> Notification | None:
    """Return the next waiting call; None if its thread has ended in the meantime."""
    names = {number: name for name, number in numbers().items()}
    buffer = bytearray(_NOTIFICATION_BYTES)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    number_of, thread, _flags, call, _machine, _pointer, *arguments = struct.unpack("=QIIiIQ6Q", buffer)
    return Notification(number_of, thread, names[call], tuple(arguments))


def answer(listener: int, asked: Notification, error: int = 0) -> None:
    """Let a call continue or fail.

    Args:
        listener: the descriptor the call was received from.
        asked: the call.
        error: the errno of the call; 0 lets the kernel execute it.
    """
    reply = struct.pack("=QqiI", asked.id, 0, -error, 0 if error else _CONTINUE)
    try:
        fcntl.ioctl(listener, _SEND, reply)
    except OSError as failure:
        # The thread was killed while it waited.
        if failure.errno not in (errno.ENOENT, errno.EINPROGRESS):
            raise _refused("seccomp", failure.errno or 0) from failure


def open_process(pid: int) -> int:
    """Open a descriptor for another process.

    Raises:
        UnsupportedError: the kernel refuses the operation.
    """
    pidfd = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_OPEN, pid, 0)
    if pidfd < 0:
        raise _refused("pidfd_open")
    return int(pidfd)


def take_descriptor(pidfd: int, number: int) -> int | None:
    """Copy a descriptor of another process.

    Returns:
        The copy, or None if the other process has closed its descriptor.

    Raises:
        UnsupportedError: the kernel refuses the operation.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    taken = libc.syscall(_PIDFD_GETFD, pidfd, number, 0)
    if taken >= 0:
        return int(taken)
    if ctypes.get_errno() in (errno.EBADF, errno.ESRCH):
        return None
    raise _refused("pidfd_getfd")


def _refused(call: str, error: int | None = None) -> UnsupportedError:
    error = ctypes.get_errno() if error is None else error
    if error in (errno.EINVAL, errno.ENOSYS):
        why = f"it needs Linux 5.6 or later, not {platform.release()}"
    elif error == errno.EBUSY:
        why = "another program already traces this process"
    else:
        why = f"{os.strerror(error)}; a container may forbid it"
    return UnsupportedError(f"torture cannot trace processes ({call}): {why}")
