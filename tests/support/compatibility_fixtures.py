"""Jobs that an older release has left: an archive of tests/durability/compatibility, and its source.

An archive has a folder `job`, in which the commands of the release ran, and `fixture.json` with the commands, the
source of the objects, and the expected results. Tests need nothing else, even if they change.
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
# Two test runs on one machine wait for each other, because an address is part of its job.
ADDRESS_SECONDS_MAX = 60.0
# Longer than the rest of a job that is about to be killed; it has passed when the job is resumed.
RETRY_AFTER = 5
# Names of a bucket and of a stream's program. They are part of the fixtures and must not change.
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "FETCHMILLKEPT", "AWS_SECRET_ACCESS_KEY": "kept/secret", "AWS_REGION": "us-east-1"}
PROGRAM = "stream.py"

Kind = Literal["synthetic", "autoindex", "s3"]
Moment = Literal["finished", "interrupted", "damaged"]


@dataclass(frozen=True)
class Source:
    """A server of computed objects at its own address: the URL of its source is part of a job.

    Args:
        kind: the list/get API, folders of a web server, or a bucket.
        host: a loopback address.
        port: its port.
        count: number of objects.
        size: bytes per object.
        absent: indexes of objects that get a 404.
        refused: objects that get a 403.
        busy: objects that got a 503 until the job was interrupted: these wait.
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
        """Returns its URL."""
        return f"http://{self.host}:{self.port}"

    def name(self, index: int) -> str:
        """Returns the listed name of an object."""
        return f"folder-{index % 3}/{synthetic_name(index)}" if self.kind == "autoindex" else synthetic_name(index)

    def body(self, index: int) -> bytes:
        """Returns the body of an object: a function of its name that is the same in any release."""
        return synthetic_body(synthetic_name(index), self.size)

    def expected(self, *, mended: bool = False) -> Expected:
        """Returns the expected results of a job; everything if the source is healthy again."""
        failures = () if mended else (*self.absent, *self.refused)
        return Expected(
            {self.name(index): self.body(index) for index in range(self.count) if index not in failures},
            frozenset(map(self.name, failures)),
        )

    @contextlib.contextmanager
    def serving(self, *, mended: bool = False, busy: bool = False, seconds: float = 0.0) -> Iterator[None]:
        """Runs the source: `busy` as during the interruption, `mended` without any fault."""
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
        name: its file name without the suffix.
        version: the release that created it.
        moment: how its job ended.
        commands: the commands of the release, in order, with the folder `job` as their working folder. `python` runs a
            program.
        source: the source of the objects.
        format: how they are stored; empty if no objects are.
        damaged: paths of files of the destination that were changed afterwards.
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
        """Returns the last command's verb."""
        return self.commands[-1][0]

    def write(self, folder: Path, archive: Path) -> None:
        """Packs a folder `job` with its description. Owners and modes are left out."""
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
    """Reads an archive's description."""
    with tarfile.open(archive) as packed:
        file = packed.extractfile("fixture.json")
        assert file is not None
        return _of_json(json.load(file))


def unpack(archive: Path, folder: Path) -> Path:
    """Unpacks the working folder of a job, as the release has left it."""
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
    """Replaces the one option that was renamed (docs/reference/compatibility.md)."""
    return [["--concurrency" if word == "--limit" else word for word in command] for command in commands]


def arguments_of(command: list[str]) -> list[str]:
    """Returns the arguments of a process that runs a command."""
    return [
        sys.executable,
        *([] if command[0] == "python" else ["-m", "fetchmill"]),
        *command[command[0] == "python" :],
    ]


def find_archives() -> list[Path]:
    """Returns the archives of all releases."""
    return sorted(ARCHIVES.glob(f"*/*{SUFFIX}"))
