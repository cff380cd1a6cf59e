"""`python -m fetchmill._torture.launch DESCRIPTOR CALLS PROGRAM ...`: starts a program under a `seccomp` filter.

The process sends the listener to the supervisor over the socket DESCRIPTOR, and becomes PROGRAM. CALLS contains names
of system calls, separated by commas.
"""

import os
import socket
import sys

from fetchmill._torture import seccomp


def main(arguments: list[str]) -> None:
    """Install the filter and become PROGRAM. This never returns."""
    with socket.socket(fileno=int(arguments[0])) as supervisor:
        try:
            listener = seccomp.install(arguments[1].split(","))
        except seccomp.UnsupportedError as error:
            supervisor.sendall(str(error).encode())
            raise SystemExit(1) from None
        socket.send_fds(supervisor, [b"\0"], [listener])
        os.close(listener)
    os.execv(arguments[2], arguments[2:])  # noqa: S606 - the command comes from the caller


if __name__ == "__main__":
    main(sys.argv[1:])
