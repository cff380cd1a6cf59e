"""Listings of twenty objects on five pages, for each type of listing, with faults of the third page."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from raw_server import Behaviour, Exchange, RawServer, bare_reply, reply, then_close

PAGES, ON_PAGE = 5, 4
# Index of the page with the fault.
BROKEN = 2
PARTS = [[f"n{page * ON_PAGE + at:02}" for at in range(ON_PAGE)] for page in range(PAGES)]
NAMES = [name for part in PARTS for name in part]
BODIES = {name: f"body of {name}".encode() for name in NAMES}
JSON_WAYS = ("marker", "url", "link", "page", "offset")
FOLDER_WAYS = ("nginx", "html", "sitemap")
WAYS = ("api", *(f"json-{way}" for way in JSON_WAYS), "s3", *FOLDER_WAYS)
# Faults of all listings, and those of listings whose pages name the next one.
FAULTS = ("cut", "500", "malformed", "redirect", "refused", "stale", "looped")

Pages = list[tuple[str, bytes]]


@dataclass
class Listing:
    """A server's pages, by the requests for them.

    Args:
        source: source of the job, below the server's URL or without it.
        options: options of the command.
        pages: each page's request and reply.
        looped: a third page that leads back to the second one; None if pages lead nowhere.
        before: prefix of an object's name in a file.
    """

    source: str
    options: tuple[str, ...]
    pages: Pages
    objects: dict[str, Behaviour]
    looped: bytes | None = None
    extra: dict[str, Behaviour] = field(default_factory=dict)

    def routes(self) -> dict[str, Behaviour]:
        """Returns the routes of a healthy server."""
        return {**self.objects, **self.extra, **dict(self.pages)}

    def third(self, fault: str) -> Behaviour | None:
        """Returns the third page with a fault; None if there is no such fault."""
        healthy = self.pages[BROKEN][1]
        head, _, body = healthy.partition(b"\r\n\r\n")
        return {
            "cut": then_close(head + b"\r\n\r\n" + body[: len(body) // 2]),
            "500": reply(b"broken", status="500 Internal Server Error"),
            "malformed": reply(body[: len(body) * 2 // 3]),
            "redirect": bare_reply("Location: http://127.0.0.1:1/elsewhere", "Content-Length: 0", status="302 Found"),
            "refused": reply(b"no", status="403 Forbidden"),
            "stale": self.pages[BROKEN - 1][1],
            "looped": self.looped,
        }[fault]


def make_listing(way: str) -> Callable[[str], Listing]:
    """Returns a function from the server's URL to its listing."""
    if way.startswith("json-"):
        return lambda _url: _json(way.removeprefix("json-"))
    return {"api": _api, "s3": _s3, "nginx": _nginx, "html": _html, "sitemap": _sitemap}[way]


def _as_json(value: object, *fields: str) -> bytes:
    return reply(json.dumps(value).encode(), "Content-Type: application/json", *fields)


def _objects(before: str) -> dict[str, Behaviour]:
    return {f"{before}{name}": reply(body) for name, body in BODIES.items()}


def _api(_url: str) -> Listing:
    markers = [None, *(f"m{page}" for page in range(1, PAGES)), None]

    def page(number: int, lead: str | None) -> bytes:
        return _as_json({"FileNames": PARTS[number]} | ({"NextMarker": lead} if lead else {}))

    targets = ["/list", *(f"/list?marker={marker}" for marker in markers[1:-1])]
    pages = [(target, page(number, markers[number + 1])) for number, target in enumerate(targets)]
    return Listing("", ("--listing", "api", "--marker-param", "marker"), pages, _objects("/get/"), page(BROKEN, "m1"))


def _json(way: str) -> Listing:
    params = {"marker": "after", "page": "page", "offset": "offset"}
    values: dict[str, Callable[[int], object]] = {
        "page": lambda number: number + 1,
        "offset": lambda number: number * ON_PAGE,
    }
    count = PAGES + (1 if way in {"page", "offset"} else 0)

    def target(number: int) -> str:
        if number == 0:
            return "/v1"
        value = values[way](number) if way in values else f"m{number}"
        return f"/v1?{params.get(way, 'p')}={value}"

    def page(number: int, lead: int | None) -> bytes:
        items = [f"/o/{name}" for name in PARTS[number]] if number < PAGES else []
        told: dict[str, object] = {"items": items}
        fields = []
        if lead is not None and way in {"marker", "url"}:
            told["next"] = f"m{lead}" if way == "marker" else target(lead)
        if lead is not None and way == "link":
            fields = [f"Link: <{target(lead)}>; rel=next"]
        return _as_json(told, *fields)

    pages = [(target(number), page(number, number + 1 if number + 1 < count else None)) for number in range(count)]
    options: tuple[str, ...] = ("--listing", "json", "--items-field", "items", "--next-page", way)
    if way in {"marker", "url"}:
        options += ("--next-field", "next")
    if way == "marker":
        options += ("--marker-param", "after")
    looped = page(BROKEN, 1) if way in {"marker", "url", "link"} else None
    return Listing("/v1", options, pages, _objects("/o/"), looped)


def _s3(url: str) -> Listing:
    pages = [("", b"")] * PAGES

    def page(number: int) -> bytes:
        contents = "".join(
            f"<Contents><Key>{name}</Key><Size>{len(BODIES[name])}</Size></Contents>" for name in PARTS[number]
        )
        is_cut = str(number + 1 < PAGES).lower()
        return reply(f"<ListBucketResult><IsTruncated>{is_cut}</IsTruncated>{contents}</ListBucketResult>".encode())

    pages = [(f"s3 {number}", page(number)) for number in range(PAGES)]
    return Listing("s3://bucket/", ("--endpoint-url", url, "--no-sign-request"), pages, _objects("/bucket/"))


def answer_bucket(server: RawServer) -> Behaviour:
    """Answers requests for a bucket's listing, from its pages among the routes of a server."""

    def behave(exchange: Exchange) -> bytes | None:
        query = parse_qs(urlsplit(exchange.target).query)
        after = query.get("start-after", query.get("continuation-token", [""]))[0]
        left = [number for number, part in enumerate(PARTS) if part[-1] > after]
        if not left:
            return reply(b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        found = server.routes[f"s3 {left[0]}"]
        if not isinstance(found, bytes):
            return found(exchange)
        if after in ("", *(part[-1] for part in PARTS)):
            return found
        # A range of keys that is listed in parallel with others may begin anywhere.
        keys = [key for key in PARTS[left[0]] if key > after]
        contents = "".join(f"<Contents><Key>{key}</Key><Size>{len(BODIES[key])}</Size></Contents>" for key in keys)
        is_cut = str(left[0] + 1 < PAGES).lower()
        return reply(f"<ListBucketResult><IsTruncated>{is_cut}</IsTruncated>{contents}</ListBucketResult>".encode())

    return behave


def _folders(top: bytes, page: Callable[[int], bytes]) -> tuple[Pages, dict[str, Behaviour]]:
    return [(f"/files/d{number}/", page(number)) for number in range(PAGES)], {"/files/": top}


def _nginx(_url: str) -> Listing:
    def entry(name: str, kind: str) -> dict[str, object]:
        size = {} if kind == "directory" else {"size": len(BODIES[name])}
        return {"name": name, "type": kind, "mtime": "Fri, 01 Jan 2021 00:00:00 GMT", **size}

    def page(number: int) -> bytes:
        return _as_json([entry(name, "file") for name in PARTS[number]])

    pages, extra = _folders(_as_json([entry(f"d{number}", "directory") for number in range(PAGES)]), page)
    objects = _objects_in_folders()
    return Listing("/files/", ("--listing", "autoindex"), pages, objects, extra=extra)


def _html(_url: str) -> Listing:
    def index(links: list[str]) -> bytes:
        body = "".join(f'<a href="{link}">{link}</a>\n' for link in ["../", *links])
        text = f"<html><head><title>Index of /</title></head><body><h1>Index of /</h1><pre>{body}</pre></body></html>"
        return reply(text.encode(), "Content-Type: text/html")

    pages, extra = _folders(index([f"d{number}/" for number in range(PAGES)]), lambda number: index(PARTS[number]))
    return Listing("/files/", ("--listing", "html"), pages, _objects_in_folders(), extra=extra)


def _objects_in_folders() -> dict[str, Behaviour]:
    return {f"/files/d{number}/{name}": reply(BODIES[name]) for number, part in enumerate(PARTS) for name in part}


def _sitemap(url: str) -> Listing:
    def sitemap(root: str, entry: str, targets: list[str]) -> bytes:
        entries = "".join(f"<{entry}><loc>{escape(url + target)}</loc></{entry}>" for target in targets)
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        return reply(f'<?xml version="1.0"?>\n<{root} xmlns="{space}">{entries}</{root}>'.encode())

    maps = [f"/map{number}.xml" for number in range(PAGES)]
    pages = [
        (target, sitemap("urlset", "url", [f"/o/{name}" for name in part]))
        for target, part in zip(maps, PARTS, strict=True)
    ]
    return Listing(
        "/sitemap.xml", (), pages, _objects("/o/"), extra={"/sitemap.xml": sitemap("sitemapindex", "sitemap", maps)}
    )


def missing_of(stored: Mapping[str, bytes]) -> list[str]:
    """Returns objects that are missing among these files; each must be complete."""
    found = {name.rsplit("/", 1)[-1]: body for name, body in stored.items()}
    assert {name: body for name, body in found.items() if BODIES.get(name) != body} == {}
    return sorted(BODIES.keys() - found.keys())
