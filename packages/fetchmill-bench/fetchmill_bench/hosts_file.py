"""Looks up the hosts of the test world in a file, for contenders that use the system's name lookup.

The file replaces the machine's name server. Threads, `requests` and asyncio's own loop use the system's name lookup,
but uvloop does not.
"""

import ipaddress
import socket
from collections import defaultdict
from pathlib import Path
from typing import Any

NOT_FOUND = (socket.EAI_NONAME, "Name or service not known")


def answer_from(path: str) -> None:
    """Makes this process and its forks look up all further names in a file.

    Args:
        path: the file, with an address and a name in each line. Any other name does not exist, but addresses and the
            empty name keep their meaning.

    Raises:
        OSError: the file cannot be read.
    """
    table = _read(path)
    real = socket.getaddrinfo

    def getaddrinfo(
        host: bytes | str | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        name = host.decode("ascii") if isinstance(host, bytes) else host
        if not name or _family_of(name) is not None:
            return real(host, port, family, type, proto, flags)
        addresses = [each for each in table.get(name.rstrip(".").lower(), ()) if family in (0, _family_of(each))]
        if not addresses:
            raise socket.gaierror(*NOT_FOUND)
        # Allow only numeric addresses, so that nothing is looked up.
        return [found for each in addresses for found in real(each, port, family, type, proto, socket.AI_NUMERICHOST)]

    socket.getaddrinfo = getaddrinfo


def _read(path: str) -> dict[str, list[str]]:
    table: defaultdict[str, list[str]] = defaultdict(list)
    for line in Path(path).read_text(encoding="ascii").splitlines():
        address, name = line.split()
        table[name.lower()].append(address)
    return table


def _family_of(name: str) -> int | None:
    """Returns the family of an address; None for a name."""
    try:
        version = ipaddress.ip_address(name).version
    except ValueError:
        return None
    return socket.AF_INET if version == 4 else socket.AF_INET6  # noqa: PLR2004 - IPv4
