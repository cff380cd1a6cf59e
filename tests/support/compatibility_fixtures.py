"""Jobs that an older release has left behind: what an archive of tests/durability/compatibility holds, and its source.

An archive is a folder `job`, in which the commands of the release ran, and `fixture.json`, which says what they were,
where the objects came from and what became of them. So a test needs nothing else, however the tests change.
"""

import contextlib
import json
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import fetchmill
from fetchmill.testing import Fault, s3, serve, synthetic_body
from independent import Expected, synthetic_name
from raw_server import Behaviour, RawServer, get_target, reply

ARCHIVES = Path(__file__).resolve().parents[1] / "durability" / "compatibility"
SUFFIX = ".tar.xz"
# Two runs of the tests on one machine wait for one another: an address is a part of its job.
ADDRESS_SECONDS_MAX = 60.0
# Longer than what is left of a job that is about to be killed; past when it is resumed.
RETRY_AFTER = 5
# Of a bucket, and the program of a stream. They are a part of the fixtures: they stay.
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "FETCHMILLKEPT", "AWS_SECRET_ACCESS_KEY": "kept/secret", "AWS_REGION": "us-east-1"}
PROGRAM = "stream.py"

Kind = Literal["synthetic", "autoindex", "s3"]
Moment = Literal["finished", "interrupted", "damaged"]


@dataclass(frozen=True)
class Source:
    """A server of computed objects at an address of its own: the URL of its source is a part of a job.

    Args:
        kind: the list/get API, folders of a web server, or a bucket.
        host: a loopback address.
        port: its port.
        count: how many objects it has.
        size: bytes of each.
        absent: objects that it answers 404 for, by index.
        refused: objects that it answers 403 for.
        busy: objects that it answered 503 for until the job was interrupted: these wait.
    """

    kind: Kind
    host: str
    port: int
    count: int
    size: int
    absent: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    busy: tuple[int, ...] = ()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.host}:{self.port}"

    def name(self, index: int) -> str:
        """Of an object, as it is listed."""
        return f"folder-{index % 3}/{synthetic_name(index)}" if self.kind == "autoindex" else synthetic_name(index)

    def body(self, index: int) -> bytes:
        """Of an object: a function of its name, which any release must compute alike."""
        return synthetic_body(synthetic_name(index), self.size)

    def expected(self, *, mended: bool = False) -> Expected:
        """What a job must leave; everything when the source has been mended."""
        failures = () if mended else (*self.absent, *self.refused)
        return Expected(
            {self.name(index): self.body(index) for index in range(self.count) if index not in failures},
            frozenset(map(self.name, failures)),
        )

    @contextlib.contextmanager
    def serving(self, *, mended: bool = False, busy: bool = False, seconds: float = 0.0) -> Iterator[None]:
        """Runs it: `busy` as it was when the job was interrupted, `mended` without any fault."""
        make = {"synthetic": self._api, "autoindex": self._folders, "s3": self._bucket}[self.kind]
        until = time.monotonic() + ADDRESS_SECONDS_MAX
        while True:
            try:
                server = make(mended, busy, seconds)
                break
            except (fetchmill.UsageError, OSError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        with server:
            yield

    def _statuses(self, mended: bool, busy: bool) -> dict[int, int]:
        found = {} if mended else dict.fromkeys(self.absent, 404) | dict.fromkeys(self.refused, 403)
        return found | (dict.fromkeys(self.busy, 503) if busy else {})

    def _api(self, mended: bool, busy: bool, seconds: float) -> contextlib.AbstractContextManager[Any]:
        faults = [
            Fault("status", status=status, match=self.name(index), retry_after=RETRY_AFTER if status == 503 else None)
            for index, status in self._statuses(mended, busy).items()
        ]
        return serve(
            synthetic=self.count,
            size=self.size,
            host=self.host,
            port=self.port,
            page_size=max(1, self.count // 4),
            delay=(0.0, 2 * seconds),
            list_delay=(seconds, seconds),
            faults=faults,
        )

    def _folders(self, mended: bool, busy: bool, seconds: float) -> contextlib.AbstractContextManager[Any]:
        statuses = self._statuses(mended, busy)
        lines = {404: "404 Not Found", 403: "403 Forbidden", 503: "503 Service Unavailable"}
        folders = [{"name": f"folder-{number}", "type": "directory"} for number in range(3)]
        routes: dict[str, Behaviour] = {"/": reply(json.dumps(folders).encode())}
        for number in range(3):
            files = [
                {"name": synthetic_name(index), "type": "file", "size": self.size}
                for index in range(number, self.count, 3)
            ]
            routes[f"/folder-{number}/"] = _late(reply(json.dumps(files).encode()), seconds)
        for index in range(self.count):
            status = statuses.get(index)
            answer = reply(self.body(index)) if status is None else reply(status=lines[status])
            routes[get_target(self.name(index)).removeprefix("/get")] = _late(answer, seconds)
        return RawServer(routes, (self.host, self.port))

    def _bucket(self, mended: bool, busy: bool, seconds: float) -> contextlib.AbstractContextManager[Any]:
        statuses = self._statuses(mended, busy)
        return s3(
            synthetic=self.count,
            size=self.size,
            port=self.port,
            get_latency=seconds,
            list_latency=seconds,
            access_key=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            secret_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            deny=[self.name(index) for index, status in statuses.items() if status == 403],
        )


def _late(answer: bytes, seconds: float) -> Behaviour:
    def behave(_exchange: object) -> bytes:
        time.sleep(seconds)
        return answer

    return behave if seconds else answer


@dataclass(frozen=True)
class Fixture:
    """An archive.

    Args:
        name: its file's, without the suffix.
        version: the release that has made it.
        moment: how its job ended.
        commands: the commands of the release, in their order, with the folder `job` as their working folder. `python`
            runs a program.
        source: where the objects came from.
        format: how they are stored; empty when no objects are.
        damaged: files of the destination that were changed afterwards, by their paths.
    """

    name: str
    version: str
    moment: Moment
    commands: list[list[str]]
    source: Source
    format: str = ""
    damaged: list[str] = field(default_factory=list)

    @property
    def verb(self) -> str:
        """The last command's."""
        return self.commands[-1][0]

    def write(self, folder: Path, archive: Path) -> None:
        """Packs a folder `job` with what is to be known of it. Owners and modes are nobody's business."""
        (folder / "fixture.json").write_text(json.dumps(asdict(self), indent=1))
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive, "w:xz", preset=9) as packed:
            for name in ("fixture.json", "job"):
                packed.add(folder / name, name, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def read_fixture(archive: Path) -> Fixture:
    """What an archive is."""
    with tarfile.open(archive) as packed:
        file = packed.extractfile("fixture.json")
        assert file is not None
        return _of_json(json.load(file))


def unpack(archive: Path, folder: Path) -> Path:
    """The working folder of its job, as the release has left it."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "job"


def _of_json(values: dict[str, Any]) -> Fixture:
    source = values.pop("source")
    for name in ("absent", "refused", "busy"):
        source[name] = tuple(source[name])
    values["commands"] = _as_today(values["commands"])
    return Fixture(**values, source=Source(**source))


def _as_today(commands: list[list[str]]) -> list[list[str]]:
    """With the one option that has another name since (docs/reference/compatibility.md)."""
    return [["--concurrency" if word == "--limit" else word for word in command] for command in commands]


def arguments_of(command: list[str]) -> list[str]:
    """Of a process that runs it."""
    return [
        sys.executable,
        *([] if command[0] == "python" else ["-m", "fetchmill"]),
        *command[command[0] == "python" :],
    ]


def find_archives() -> list[Path]:
    """Of all releases."""
    return sorted(ARCHIVES.glob(f"*/*{SUFFIX}"))
