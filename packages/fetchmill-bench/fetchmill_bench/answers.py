"""Reads the answers of sites as reported by a way, and compares them with those from `fetchmill check`.

An answer is one of the classes of the published text: a status, `timeout` or `connection-error`.
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
# Class of every site that a finished job has fetched. The job does not report which 2xx status a site returned.
_FETCHED = "200"
_EXAMPLES_MAX = 20

Answers = dict[str, str]


def read_answers(kind: ContenderKind, folder: Path, urls: str, *, is_complete: bool) -> Answers | None:
    """Returns the class of each site by host; None if the way does not report classes.

    Args:
        kind: how the way reports answers.
        folder: the folder of the run.
        urls: path of the file with the URLs.
        is_complete: whether the way has finished. If so, every site that did not fail was fetched.
    """
    if kind == "check":
        return _of_rows(folder / ROWS)
    if kind == "engine":
        fetched = _read_fetched(urls) if is_complete else {}
        return fetched | _of_failures(folder)
    return _of_lines(folder / ANSWERS) if kind == "module" else None


def differences(answers: Answers, checked: Mapping[str, str]) -> dict[str, Any]:
    """Returns the number of sites with different classes, and some examples. Only sites in both arguments count.

    Args:
        answers: the way's answers.
        checked: the check's answers.
    """
    rows = [[f"https://{host}", checked[host], found] for host, found in answers.items() if host in checked]
    different = [row for row in rows if row[1] != row[2]]
    return {"rows": len(different), "examples": sorted(different)[:_EXAMPLES_MAX]}


def _of_rows(path: Path) -> Answers | None:
    """Returns a check's answers; None if the check did not finish."""
    if not path.exists():
        return None
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {_host(row["url"]): _class(row["status"], row["kind"]) for row in rows}


def _of_failures(folder: Path) -> Answers:
    return {_host(failure.name): _class_of_failure(failure) for failure in failures(folder / STORED)}


def _class_of_failure(failure: Failure) -> str:
    """Returns the class of a failure: the status, or the class of the failure kind if the status is 2xx or missing."""
    is_answer = failure.status is not None and not is_good(failure.status)
    return str(failure.status) if is_answer else _class(None, failure.kind)


def _of_lines(path: Path) -> Answers | None:
    """Returns a contender's answers; None if the contender does not record them."""
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
