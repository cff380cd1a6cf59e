"""What each site answered, as a way has told, and where that differs from `fetchmill check`.

The classes are the published text's: a status, `timeout` or `connection-error`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fetchmill import Failure, failures
from fetchmill_bench.commands import ANSWERS, ROWS, STORED
from fetchmill_bench.contender_table import ContenderKind
from fetchmill_bench.task import is_good

TIMEOUT, CONNECTION_ERROR = "timeout", "connection-error"
# Of a site that a finished job has fetched; what it does not tell is which 2xx it was.
_FETCHED = "200"
_EXAMPLES_MAX = 20

Answers = dict[str, str]


def read_answers(kind: ContenderKind, folder: Path, urls: str, *, is_complete: bool) -> Answers | None:
    """The class of each site, by its host; None of a way that does not tell.

    Args:
        kind: how the way tells.
        folder: the folder of its run.
        urls: path of the file with the URLs.
        is_complete: whether it came to its end: then what has not failed was fetched.
    """
    if kind == "check":
        return _of_rows(folder / ROWS)
    if kind == "engine":
        fetched = _read_fetched(urls) if is_complete else {}
        return fetched | _of_failures(folder)
    return _of_lines(folder / ANSWERS) if kind == "module" else None


def differences(answers: Answers, checked: Mapping[str, str]) -> dict[str, Any]:
    """How many sites have another class than in a check, and some of them; sites that only one of the two has are none.

    Args:
        answers: those of a way.
        checked: those of the check.
    """
    rows = [[f"https://{host}", checked[host], found] for host, found in answers.items() if host in checked]
    different = [row for row in rows if row[1] != row[2]]
    return {"rows": len(different), "examples": sorted(different)[:_EXAMPLES_MAX]}


def _of_rows(path: Path) -> Answers | None:
    """A check's; None when it did not come to its end."""
    if not path.exists():
        return None
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {_host(row["url"]): _class(row["status"], row["kind"]) for row in rows}


def _of_failures(folder: Path) -> Answers:
    return {_host(failure.name): _class_of_failure(failure) for failure in failures(folder / STORED)}


def _class_of_failure(failure: Failure) -> str:
    """A status that is no 2xx is why it failed; with a 2xx the body was not whole."""
    is_answer = failure.status is not None and not is_good(failure.status)
    return str(failure.status) if is_answer else _class(None, failure.kind)


def _of_lines(path: Path) -> Answers | None:
    """A contender's; None of one that does not note them."""
    if not path.exists():
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines if "\t" in line)
    return {_host(url): found for url, found in pairs}


def _read_fetched(urls: str) -> Answers:
    return dict.fromkeys(map(_host, _lines(urls)), _FETCHED)


def _lines(path: str) -> Iterator[str]:
    with Path(path).open(encoding="utf-8") as file:
        for line in file:
            yield line.rstrip("\n")


def _class(status: int | None, kind: str | None) -> str:
    if kind is None and status is not None:
        return str(status)
    return TIMEOUT if kind is not None and kind.endswith("-timeout") else CONNECTION_ERROR


def _host(url: str) -> str:
    return urlsplit(url).hostname or url
