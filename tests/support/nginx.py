"""Debian's nginx for tests: sites on free ports of the loopback, with TLS and HTTP/2, and a log of what they saw."""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from certificates import Leaf
from ports import free_ports

START_SECONDS = 60.0
# Values of each request in a site's log, and their variables.
LOGGED = {
    "method": "request_method",
    "status": "status",
    "path": "request_uri",
    "http": "server_protocol",
    "tls": "ssl_protocol",
    "resumed": "ssl_session_reused",
    "connection": "connection",
    "host": "http_host",
    "authorization": "http_authorization",
    "proxy_authorization": "http_proxy_authorization",
    "token": "http_x_token",
    "referer": "http_referer",
    "encoding": "sent_http_content_encoding",
}
CONFIGURATION = """
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log;
events {{ worker_connections 1024; }}
http {{
    log_format seen escape=json '{{{seen}}}';
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    default_type application/octet-stream;
    keepalive_requests 1000000;
    server {{ listen 127.0.0.1:{settling}; access_log off; return 204; }}
    {sites}
}}
"""
SITE = """
    server {{
        listen 127.0.0.1:{port}{listen};
        {tls}
        access_log {log} seen;
        root {root};
        autoindex on;
        autoindex_format {autoindex};
        {directives}
    }}
"""
TLS = """
        ssl_certificate {leaf.chain};
        ssl_certificate_key {leaf.key};
        ssl_protocols {protocols};
        ssl_session_cache shared:tls:1m;
"""


@dataclass(frozen=True, kw_only=True)
class Site:
    """One server of an nginx.

    Args:
        leaf: its certificate; without one, it uses plain HTTP.
        protocols: versions of TLS in nginx's terms.
        http2: whether it also offers HTTP/2.
        autoindex: format of its folder listings: json, html.
        directives: more lines of its configuration; `@NAME@` in them is the URL of the site NAME.
    """

    leaf: Leaf | None = None
    protocols: str = "TLSv1.2 TLSv1.3"
    http2: bool = False
    autoindex: str = "json"
    directives: str = ""

    def text(self, port: int, root: Path, log: Path) -> str:
        """Returns its part of the configuration."""
        listen = f"{' ssl' if self.leaf else ''}{' http2' if self.http2 else ''}"
        tls = TLS.format(leaf=self.leaf, protocols=self.protocols) if self.leaf else ""
        return SITE.format(
            port=port,
            listen=listen,
            tls=tls,
            root=root,
            log=log,
            autoindex=self.autoindex,
            directives=self.directives,
        )


@dataclass(frozen=True)
class Seen:
    """A request as a site saw it: `LOGGED` has the fields; a missing value is empty."""

    method: str
    status: str
    path: str
    http: str
    tls: str
    resumed: str
    connection: str
    host: str
    authorization: str
    proxy_authorization: str
    token: str
    referer: str
    encoding: str


class Nginx:
    """A running nginx."""

    def __init__(self, prefix: Path, sites: Mapping[str, Site]) -> None:
        self._prefix = prefix
        self.sites = dict(sites)
        self.settling, *ports = free_ports(1 + len(sites))
        self.ports = dict(zip(sites, ports, strict=True))

    def url(self, site: str, host: str = "localhost") -> str:
        """Returns the URL of a site, without a path."""
        return f"http{'s' if self.sites[site].leaf else ''}://{host}:{self.ports[site]}"

    def seen(self, site: str) -> list[Seen]:
        """Returns the requests so far, in the order in which they ended."""
        # One process answers requests one after the other: this answer comes after the log lines of all earlier ones.
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.settling, START_SECONDS)) as probe:
            probe.request("GET", "/")
            probe.getresponse().read()
        return [Seen(**json.loads(line)) for line in self._log(site).read_text().splitlines()]

    def fetched(self, site: str) -> Counter[str]:
        """Returns how often each path that is not a folder was requested."""
        return Counter(seen.path for seen in self.seen(site) if not seen.path.endswith("/"))

    def configuration(self, root: Path) -> str:
        """Returns the whole configuration."""
        seen = ",".join(f'"{name}":"${variable}"' for name, variable in LOGGED.items())
        sites = [site.text(self.ports[name], root, self._log(name)) for name, site in self.sites.items()]
        text = CONFIGURATION.format(prefix=self._prefix, seen=seen, settling=self.settling, sites="".join(sites))
        return re.sub(r"@(\w+)@", lambda found: self.url(found[1]), text)

    def _log(self, site: str) -> Path:
        return self._prefix / f"{site}.log"


@contextlib.contextmanager
def serving(root: Path, prefix: Path, sites: Mapping[str, Site]) -> Iterator[Nginx]:
    """Runs an nginx in a separate folder, whose sites serve a folder."""
    assert LOGGED.keys() == {field.name for field in fields(Seen)}
    prefix.mkdir()
    nginx = Nginx(prefix, sites)
    configuration = prefix / "nginx.conf"
    configuration.write_text(nginx.configuration(root))
    command = (program(), "-e", prefix / "error.log", "-p", prefix, "-c", configuration)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        # nginx opens ports one after the other, and waits half a second if one is in use.
        for port in (nginx.settling, *nginx.ports.values()):
            wait_for_port(port, process)
        yield nginx
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends an nginx with several signals: one that has just started loses signals that it does not wait for yet."""
    for _ in range(int(START_SECONDS)):
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
            return
    process.kill()
    raise subprocess.TimeoutExpired(process.args, START_SECONDS)


def offer(root: Path, objects: Mapping[str, bytes]) -> None:
    """Creates files that make a folder a server of the list/get API, with a listing of one page."""
    (root / "list").write_text(json.dumps({"FileNames": list(objects), "NextMarker": None}))
    for name, body in objects.items():
        path = root / "get" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def moved(path: str, to: str, status: int = 302) -> str:
    """Returns a directive that redirects one path."""
    return f"location = {path} {{ return {status} {to}; }}\n"


def program() -> str:
    """Returns the program, which `make servers` installs."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, "nginx is missing: make servers"
    return found


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until the server listens."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, "nginx has ended"
        assert time.monotonic() < deadline, "nginx does not listen"
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.01)
