"""Names that only a file knows: hosts of the test world, for contenders that have the system look names up.

No name server of the machine is asked then. Threads, `requests`, and asyncio's own loop come by here; uvloop does not,
it has look-ups of its own.
"""

import ipaddress
import socket
from collections import defaultdict
from pathlib import Path
from typing import Any

NOT_FOUND = (socket.EAI_NONAME, "Name or service not known")


def answer_from(path: str) -> None:
    """Has this process, and what it forks, find names in a file from now on.

    Args:
        path: the file, an address and a name in each line. A name that is not in it does not exist; addresses and the
            empty name mean what they always mean.

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
        # Numbers alone, so that nobody is ever asked.
        return [found for each in addresses for found in real(each, port, family, type, proto, socket.AI_NUMERICHOST)]

    socket.getaddrinfo = getaddrinfo


def _read(path: str) -> dict[str, list[str]]:
    table: defaultdict[str, list[str]] = defaultdict(list)
    for line in Path(path).read_text(encoding="ascii").splitlines():
        address, name = line.split()
        table[name.lower()].append(address)
    return table


def _family_of(name: str) -> int | None:
    """Of an address; None for a name."""
    try:
        version = ipaddress.ip_address(name).version
    except ValueError:
        return None
    return socket.AF_INET if version == 4 else socket.AF_INET6  # noqa: PLR2004 - IPv4
