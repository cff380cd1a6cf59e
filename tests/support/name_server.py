"""A name server at 127.0.0.1:53 for tests: `name_server.py [--lose N] NAME=ADDRESS ...`.

Unknown names get "no such name". With `--lose N`, the first N questions get no answer, as in a network that loses
packets. It prints a line when it is ready, and one for each question. It shares no code with the project.
"""

import argparse
import socket
import struct

A, NO_SUCH_NAME = 1, 3


def question(datagram: bytes) -> tuple[str, int, bytes]:
    """Returns the name, the type, and the question's bytes."""
    labels, at = [], 12
    while length := datagram[at]:
        labels.append(datagram[at + 1 : at + 1 + length].decode())
        at += length + 1
    (kind,) = struct.unpack_from(">H", datagram, at + 1)
    return ".".join(labels).lower(), kind, datagram[12 : at + 5]


def address_of(name: str, hosts: dict[str, str]) -> str | None:
    """Returns the address of the name itself, or of a `*.` above it."""
    below = name
    while below:
        _, _, below = below.partition(".")
        if f"*.{below}" in hosts:
            return hosts.get(name, hosts[f"*.{below}"])
    return hosts.get(name)


def reply(datagram: bytes, hosts: dict[str, str]) -> bytes:
    """Returns an answer with one address, without one for other types, or "no such name"."""
    name, kind, asked = question(datagram)
    address = address_of(name, hosts)
    records = []
    if address and kind == A:
        records = [b"\xc0\x0c" + struct.pack(">HHIH", A, 1, 60, 4) + socket.inet_aton(address)]
    flags = 0x8580 | (0 if address else NO_SUCH_NAME)
    return datagram[:2] + struct.pack(">5H", flags, 1, len(records), 0, 0) + asked + b"".join(records)


def main() -> None:
    """Answers until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--lose", type=int, default=0)
    parser.add_argument("hosts", nargs="*")
    options = parser.parse_args()
    hosts = dict(host.split("=") for host in options.hosts)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 53))
        print("ready", flush=True)
        while True:
            datagram, asker = udp.recvfrom(4096)
            print(question(datagram)[0], flush=True)
            if options.lose > 0:
                options.lose -= 1
            else:
                udp.sendto(reply(datagram, hosts), asker)


if __name__ == "__main__":
    main()
