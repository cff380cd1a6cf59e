"""Options from a file: only a named file is read, precedence is fixed, and nothing in a file is run."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import fetchmill
from fetchmill.cli.main import COMMANDS
from fetchmill.cli.main import command as group
from fetchmill.testing import Server

pytestmark = pytest.mark.entry_point

Run = Callable[..., Any]
Serve = Callable[..., Server]


def write(folder: Path, text: str, name: str = "conf.toml") -> Path:
    """Writes an options file."""
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture
def urls(server: Serve, tmp_path: Path) -> Path:
    """Writes a list of 40 objects."""
    source = server(synthetic=40)
    return write(tmp_path, "".join(f"{source.url}/get/file-{n:012}\n" for n in range(40)), "urls.txt")


def shown(run: Run, *arguments: object, **options: Any) -> int:  # noqa: ANN401
    """Returns how many targets a dry run shows."""
    ended = run("get", "urls.txt", "out", "--dry-run", *arguments, **options)
    assert ended.code == 0, ended.err
    return len(ended.out.splitlines())


def test_precedence_is_flags_env_file_default(
    run: Run, server: Serve, environment: dict[str, str], tmp_path: Path
) -> None:
    """The job sends the value with the highest precedence."""
    source = server(synthetic=1)
    write(tmp_path, '[get]\nformat = "tar"\nbearer = "of-the-file"\nproxy = "http://127.0.0.1:1"\nattempts = 1\n')
    of_file = ("get", source.url, "--config", "conf.toml", "--json")
    no_proxy = {**environment, "FETCHMILL_PROXY": ""}

    default = run("get", source.url, "a", "--json")
    file = run(*of_file, "b")
    variable = run(*of_file, "c", env={**environment, "FETCHMILL_PROXY": "env"})
    line = run(*of_file, "d", "--format", "parquet", "--proxy", "env", env=no_proxy)

    reports = [json.loads(ended.out.splitlines()[-1]) for ended in (default, variable, line)]
    assert [report["format"] for report in reports] == ["files", "tar", "parquet"]
    # The proxy in the file does not exist.
    assert file.code != 0
    assert [default.code, variable.code, line.code] == [0, 0, 0]


def test_config_file_is_read_only_when_named(run: Run, urls: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """No file name is special: the environment variable or the option names the file."""
    assert urls.exists()
    for name in ("fetchmill.toml", ".fetchmill.toml", "pyproject.toml", "config.toml", "conf.toml"):
        write(tmp_path, "[get]\nsample = 5\n[tool.fetchmill.get]\nsample = 5\n", name)
    write(tmp_path, "[get]\nsample = 5\n")
    write(tmp_path, "[get]\nsample = 7\n", "other.toml")
    named = {**environment, "FETCHMILL_CONFIG": "conf.toml"}

    assert shown(run) == 40
    assert shown(run, env=named) == 5
    assert shown(run, "--config", "other.toml", env=named) == 7
    assert shown(run, "--config", "other.toml", "--sample", "9", env=named) == 9
    assert shown(run, env={**environment, "FETCHMILL_CONFIG": ""}) == 40


def test_config_values_may_be_toml_types_or_text(tmp_path: Path) -> None:
    """Units, lists, tables, booleans and dates work."""
    path = write(
        tmp_path,
        """
        [get]
        format = "parquet"
        concurrency = 1_000
        max-size = "64KiB"
        max_bytes = 1000
        give-up-after = "2m"
        rate = 0.5
        http2 = false
        netrc = true
        max-failed = "1%"
        retry-failed = ["dns*", "5xx"]
        include = ["*.json", 're:\\d+']
        exclude = "*.txt"
        keep-columns = ["rank", "a,b"]
        headers = { X-One = "1", "X-Two" = "a: b" }
        modified-from = 2026-11-22
        modified-to = "2026-11-23"
        quiet = true

        [check]
        limit = 7
        redirects = 0
        keep-columns = "rank, 'a'"
        """,
    )

    found = fetchmill.load_config(path, "get")
    modified_from = found.pop("modified_from")
    assert str(modified_from) == "2026-11-22"
    assert found == {
        "format": "parquet",
        "concurrency": 1000,
        "max_size": 65536,
        "max_bytes": 1000,
        "give_up_after": 120.0,
        "rate": 0.5,
        "http2": False,
        "netrc": True,
        "max_failed": "1%",
        "retry_failed": ["dns*", "5xx"],
        "include": ["*.json", r"re:\d+"],
        "exclude": ["*.txt"],
        "keep_columns": ["rank", "a,b"],
        "headers": {"X-One": "1", "X-Two": "a: b"},
        "modified_to": fetchmill.load_config(path, "get")["modified_to"],
    }
    of_check = fetchmill.load_config(str(path), "check")
    assert (of_check["concurrency"], of_check["redirects"]) == (7, 0)
    assert fetchmill.load_config(path, "list") == {}


def test_config_options_apply_to_command_and_python(server: Serve, dest: Path, tmp_path: Path, run: Run) -> None:
    """The options apply on the command line and in a program."""
    source = server(synthetic=20, size=10)
    path = write(
        tmp_path, '[get]\nformat = "parquet"\nmax-size = "5"\nheaders = { X-A = "b" }\n[status]\njson = true\n'
    )

    assert run("get", source.url, dest, "--config", path).code == 3
    status = run("status", dest, "--config", path)
    assert json.loads(status.out)["failures"] == {"body-too-large": 20}
    report = fetchmill.get(source.url, tmp_path / "b", **fetchmill.load_config(path, "get"))
    assert (report.format, report.failed) == ("parquet", 20)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[get]\n\n# x\nlimt = 3\n", "conf.toml, line 4: get has no option limt (did you mean limit?)"),
        (
            "[check]\nfoo = 1\n[get]\nformats = 'tar'\n",
            "conf.toml, line 4: get has no option formats (did you mean format?)",
        ),
        ("[get]\nxyzzy = 3\n", "conf.toml, line 2: get has no option xyzzy"),
        ("[gte]\nlimit = 3\n", "conf.toml, line 1: gte is not a command (did you mean get?)"),
        (
            "limit = 3\n",
            "conf.toml, line 1: limit is not a table; put options into the table of their command, such as [get]",
        ),
        ("get = 3\n", "conf.toml, line 1: get is not a table"),
        ("[get]\nlimit = 'many'\n", "conf.toml, line 2: limit: 'many' is not understood"),
        ("[get]\nlimit = 0\n", "conf.toml, line 2: limit must be a whole number of at least 1, or auto, not 0"),
        ("[get]\nlimit = true\n", "conf.toml, line 2: limit cannot be true or false (true)"),
        ("[get]\nhttp2 = 1\n", "conf.toml, line 2: http2 must be true or false (1)"),
        ("[get]\nformat = 'zip'\n", "conf.toml, line 2: format: 'zip' is not one of 'files', 'tar'"),
        ("[get]\nlimit = [1]\n", "conf.toml, line 2: limit must be one value, not an array"),
        (
            "[get]\nlimit = 3\nconcurrency = 4\n",
            "conf.toml, line 3: concurrency is given twice, once under another name",
        ),
        ("[get]\nstate = 3\n", "conf.toml, line 2: state must be a string with the path of a file or folder"),
        ("[get]\nca-file = 0.5\n", "conf.toml, line 2: ca-file must be a string with the path of a file or folder"),
        ("[get]\ndashboard-token = 3\n", "conf.toml, line 2: dashboard-token must be a string with the path"),
        ("[get.limit]\na = 1\n", "limit must be one value, not a table"),
        ("[get]\nheaders = 'A: b'\n", "conf.toml, line 2: headers must be a table of names and values"),
        ("[get]\nheader = 'A: b'\n", "conf.toml, line 2: get has no option header (did you mean headers?)"),
        ("[get]\nsource = 'http://x'\n", "conf.toml, line 2: source is an argument of get, not an option"),
        ("[get]\nconfig = 'x'\n", "conf.toml, line 2: get has no option config"),
        ("[get]\ntransform = 'a:b'\n", "conf.toml, line 2: transform runs code, so it cannot be set in a file"),
        ("[get]\nrestart = true\n", "conf.toml, line 2: restart removes the earlier job, so it cannot be"),
        ("[get]\nlimit = \n", "conf.toml: not valid TOML (Invalid value (at line 2, column 9)"),
        ("[get]\nlimit = 1\nlimit = 2\n", "conf.toml: not valid TOML (Cannot overwrite a value (at line 3"),
        ("[get]\nbearer = '\ud800'\n", "conf.toml: not valid TOML"),
        ("#" * (1 << 20) + "\n", "conf.toml: larger than 64 KiB, which is too large for an options file"),
        ("[get]\nx = " + "[" * 10_000 + "]" * 10_000, "conf.toml: nested too deeply"),
        ("[get]\n" + ".".join("a" * 30_000) + " = 1\n", "conf.toml"),
    ],
)
def test_invalid_config_entry_is_refused_with_its_position(run: Run, tmp_path: Path, text: str, message: str) -> None:
    """The error comes before anything is created."""
    (tmp_path / "conf.toml").write_bytes(text.encode(errors="surrogatepass"))

    ended = run("get", "http://127.0.0.1:1", "out", "--config", "conf.toml")

    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert len(ended.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
    with pytest.raises(fetchmill.UsageError):
        fetchmill.load_config(tmp_path / "conf.toml", "get")


def test_unreadable_config_file_is_reported(run: Run, tmp_path: Path) -> None:
    """The error has the file's name and the reason.

    The same holds for a table that the Python interface does not have.
    """
    missing = run("get", "http://127.0.0.1:1", "out", "--config", "missing.toml")
    folder = run("status", "out", "--config", os.curdir)

    assert (missing.code, folder.code) == (2, 2)
    assert "cannot read the options file missing.toml: No such file or directory" in missing.err
    assert "cannot read the options file .: Is a directory" in folder.err
    wrong: Any = "serve"
    with pytest.raises(fetchmill.UsageError, match="command must be get, check or list, not 'serve'"):
        fetchmill.load_config(write(tmp_path, ""), wrong)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_reads_options_from_config_file(name: str, run: Run, tmp_path: Path) -> None:
    """Options have their long names; a table for another command is ignored."""
    found = group.get_command(click.Context(group), name)
    assert found is not None
    options = [parameter for parameter in found.params if isinstance(parameter, click.Option)]
    assert [option.opts for option in options].count(["--config"]) == 1
    others = "".join(f"[{other}]\n" for other in COMMANDS if other != name)
    write(tmp_path, f"{others}[{name}]\nno-such-option = 1\n")

    ended = run(name, "--config", "conf.toml")

    assert ended.code == 2
    assert f"conf.toml, line {len(COMMANDS) + 1}: {name} has no option no-such-option" in ended.err


def test_config_file_cannot_name_code_to_run(run: Run, tmp_path: Path) -> None:
    """A file can name neither a function nor a command."""
    for name, key in (("get", "transform"), ("bench", "contender")):
        write(tmp_path, f'[{name}]\n{key} = "touch:{tmp_path}/ran"\n')
        ended = run(name, "--config", "conf.toml")
        assert f"{key} runs code, so it cannot be set in a file; pass it on the command line" in ended.err
    assert not (tmp_path / "ran").exists()
