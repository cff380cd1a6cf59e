"""A bucket whose objects each have their own page entry and reply, over raw sockets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, urlsplit
from xml.sax.saxutils import escape

from raw_server import Behaviour, Exchange, reply


@dataclass
class ListedObject:
    """An object.

    Args:
        body: the body of a reply, unless there is a `reply`.
        listed: elements of its entry in addition to key and size.
        size: the listed size; None for the length of the body.
        reply: the reply to a request for it.
    """

    body: bytes = b""
    listed: str = ""
    size: int | None = None
    reply: Behaviour | None = None


@dataclass
class ListedBucket:
    """Lists its objects on one page, in the order of their keys. `heads` has each request as it came."""

    objects: Mapping[str, ListedObject]
    needs: str = ""
    heads: list[bytes] = field(default_factory=list)

    def routes(self) -> Mapping[str, Behaviour]:
        """Returns routes for a raw server: the bucket is `bucket`."""
        objects: dict[str, Behaviour] = {
            f"/bucket/{quote(key)}": self._asked(found.reply or reply(found.body))
            for key, found in self.objects.items()
        }
        return {"/bucket": self._asked(self._page), "/bucket/": self._asked(self._page), **objects}

    def _asked(self, behaviour: Behaviour) -> Behaviour:
        """Returns the same for requests with the required field."""

        def answer(exchange: Exchange) -> bytes | None:
            self.heads.append(exchange.head)
            if self.needs.lower().encode() not in exchange.head.lower():
                return error("AccessDenied", "Access Denied", "403 Forbidden")
            return behaviour(exchange) if callable(behaviour) else behaviour

        return answer

    def _page(self, exchange: Exchange) -> bytes:
        asked = parse_qs(urlsplit(exchange.target).query)
        prefix, after = (asked.get(name, [""])[0] for name in ("prefix", "start-after"))
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(found.body) if found.size is None else found.size}</Size>"
            f"{found.listed}</Contents>"
            for key, found in sorted(self.objects.items())
            if key.startswith(prefix) and key > after
        )
        return reply(f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode())


def error(code: str, message: str, status: str) -> bytes:
    """Returns the reply of a store that refuses."""
    document = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
    return reply(document, "Content-Type: application/xml", status=status)
