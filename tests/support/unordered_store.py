"""A bucket whose keys have their own order, page by page, over raw sockets."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, urlsplit
from xml.sax.saxutils import escape

from raw_server import Behaviour, Exchange, reply


def in_folder_order(keys: list[str]) -> list[str]:
    """Returns keys in the order of a walk over a file system: by folder and file names, not by whole keys."""
    return sorted(keys, key=lambda key: key.split("/"))


@dataclass
class UnorderedStore:
    """Answers ListObjectsV2 with keys in the given order, and returns their objects.

    Args:
        keys: keys in the store's order.
        page: maximum number of keys per page.
        start_after: how it handles the parameter: `filter` its order by bytes, `ignore` or `refuse` it.
        repeats_token: whether each page has the first one's token.
        epoch: part of each token; tokens of another epoch are refused.
        latency: seconds per page.
        bucket: its name.
        holds: the position whose page never comes when a token asks for it; `held` is then set.
    """

    keys: list[str]
    page: int = 1000
    start_after: str = "filter"
    repeats_token: bool = False
    epoch: int = 0
    latency: float = 0.0
    bucket: str = "bucket"
    holds: int | None = None
    held: threading.Event = field(default_factory=threading.Event)
    queries: list[dict[str, str]] = field(default_factory=list)

    def routes(self) -> Mapping[str, Behaviour]:
        """Returns routes for a raw server."""
        objects: dict[str, Behaviour] = {f"/{self.bucket}/{quote(key)}": reply(key.encode()) for key in self.keys}
        return {f"/{self.bucket}": self.answer, f"/{self.bucket}/": self.answer, **objects}

    def answer(self, exchange: Exchange) -> bytes | None:
        """Returns a page."""
        asked = parse_qs(urlsplit(exchange.target).query, keep_blank_values=True)
        query = {name: values[0] for name, values in asked.items()}
        self.queries.append(query)
        time.sleep(self.latency)
        begin, epoch, after = 0, self.epoch, query.get("start-after", "")
        if token := query.get("continuation-token"):
            place, made, after = token.split("~", 2)
            begin, epoch = int(place), int(made)
            if begin == self.holds:
                self.held.set()
                exchange.stall()
                return None
        if epoch != self.epoch or (after and self.start_after == "refuse"):
            document = b"<Error><Code>InvalidArgument</Code><Message>not known here</Message></Error>"
            return reply(document, "Content-Type: application/xml", status="400 Bad Request")
        names = self._names(query.get("prefix", ""), query.get("delimiter"))
        if self.start_after == "filter":
            names = [name for name in names if name > after]
        end = begin + min(self.page, int(query["max-keys"]))
        following = min(end, self.page) if self.repeats_token else end
        return reply(self._document(names[begin:end], f"{following}~{self.epoch}~{after}" if end < len(names) else ""))

    def _names(self, prefix: str, delimiter: str | None) -> list[str]:
        """Returns keys and folders below a prefix, each once."""
        keys = [key for key in self.keys if key.startswith(prefix)]
        if not delimiter:
            return keys
        rolled = (key[: key.find(delimiter, len(prefix)) + 1] or key for key in keys)
        return list(dict.fromkeys(rolled))

    def _document(self, names: list[str], token: str) -> bytes:
        known = set(self.keys)
        keys = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(name.encode())}</Size></Contents>"
            for name in names
            if name in known
        )
        folders = "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in names if name not in known
        )
        end = f"<IsTruncated>{'true' if token else 'false'}</IsTruncated>"
        following = f"<NextContinuationToken>{escape(token)}</NextContinuationToken>" if token else ""
        return f"<ListBucketResult>{end}{following}{keys}{folders}</ListBucketResult>".encode()
