"""The command line before anything runs: help, usage errors, names."""

import re
from collections.abc import Callable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import click
import pytest

import fetchmill
from fetchmill._options.check import CheckOptions
from fetchmill._options.get import GetOptions
from fetchmill._options.list import ListOptions
from fetchmill._options.plan import PlanOptions
from fetchmill._options.sync import SyncOptions
from fetchmill._options.table import SECTIONS
from fetchmill.cli.main import command as group

COMMANDS = (
    "",
    "bench",
    "cat",
    "check",
    "completion",
    "diff",
    "emit",
    "export",
    "extend",
    "get",
    "help",
    "join",
    "list",
    "ls",
    "plan",
    "report",
    "resume",
    "serve",
    "set",
    "status",
    "stop",
    "sync",
    "verify",
)
HELP = Path(__file__).parent / "help"
# Options of `get` for the command line, not for the job.
OF_THE_COMMAND = {"dry_run", "as_json", "quiet", "config", "log_file", "log_format", "set"}
# Options of `get` for a shared job, which is a separate module in Python.
OF_SHARED_JOBS = {"shared", "lease", "on", "workers"}


def command_of(name: str) -> click.Command:
    """Returns a command by its name, and the whole command line for an empty name."""
    found = group.get_command(click.Context(group), name) if name else group
    assert found is not None
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_help_equals_committed_text(name: str, run: Callable[..., Any], request: pytest.FixtureRequest) -> None:
    """After a change of the help, run `make help-texts` and commit the result."""
    shown = run(*([name] if name else []), "--help")
    file = HELP / f"{name or 'fetchmill'}.txt"
    if request.config.getoption("--update-help"):
        HELP.mkdir(exist_ok=True)
        file.write_text(shown.out)

    assert (shown.code, shown.err) == (0, "")
    assert shown.out == file.read_text()


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", [80, 120, 300])
def test_help_has_80_columns_when_terminal_is_wider(
    name: str, width: int, run: Callable[..., Any], environment: dict[str, str]
) -> None:
    """Both kinds of help have 80 columns, and `-h` fits on a screen."""
    words, wide = [name] if name else [], environment | {"COLUMNS": str(width)}
    full, brief = (run(*words, option, env=wide) for option in ("--help", "-h"))

    for shown in (full, brief):
        assert (shown.code, shown.err) == (0, "")
        assert [line for line in shown.out.splitlines() if len(line) > 80] == []
    assert len(brief.out.splitlines()) <= 35


@pytest.mark.parametrize("name", ["get", "sync", "check"])
def test_brief_help_has_five_examples_and_twelve_options(name: str, run: Callable[..., Any]) -> None:
    """The last line says how to get the full help."""
    lines = run(name, "-h").out.splitlines()

    assert sum(line.startswith("  fetchmill ") for line in lines) == 5
    assert sum(bool(re.match("  -", line)) for line in lines) == 12
    assert lines[-1] == f"All options: fetchmill {name} --help. Guides: fetchmill help."


@pytest.mark.parametrize("name", ["resume", "retry"])
def test_help_for_existing_jobs_shows_no_defaults(name: str, run: Callable[..., Any]) -> None:
    """An option that is not given keeps the job's value."""
    text = " ".join(run(name, "--help").out.split())

    assert "The default of each option below is the job's own value." in text
    assert "[default:" not in text
    assert "secrets such as --bearer again" in " ".join(run(name, "-h").out.split())


def test_help_sections_show_each_option_once() -> None:
    """Each name in the table belongs to a command."""
    listed = [name for names in SECTIONS.values() for name in names]
    own = [each.name for name in ("get", "sync", "check", "list", "plan") for each in command_of(name).params]
    arguments = {"source", "dest", "results", "manifest"}

    assert len(listed) == len(set(listed))
    # `limit` is another name of `concurrency`; all commands have the last two.
    assert set(own) - arguments == set(listed) - {"limit", "brief", "help"}


def test_help_sections_keep_related_options_together(run: Callable[..., Any]) -> None:
    """The order of options is that of the table."""
    text = run("get", "--help").out
    limits = re.search(r"^Limits:\n((?:  .*\n)+)", text, re.MULTILINE)
    assert limits

    written = re.findall(r"^  (?:-j, )?--([a-z-]+)", limits[1], re.MULTILINE)
    assert written[written.index("limit-per-host") + 1] == "rate-per-host"
    assert re.findall(r"^(\w.*):$", text, re.MULTILINE) == ["Examples", *(each for each in SECTIONS if each in text)]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_and_command_has_help(name: str) -> None:
    """An option without help would be an empty line in `--help`."""
    found = command_of(name)
    options = [parameter for parameter in found.params if isinstance(parameter, click.Option)]

    assert found.help
    assert [option.name for option in options if not option.help] == []


def written_long(option: click.Option) -> str:
    """Returns the first spelling with more than one letter."""
    return next(text for text in option.opts if text.startswith("--"))


def is_option(field: Field[Any]) -> bool:
    """Returns whether a field is an option of the command, and not another name for one."""
    return bool(field.metadata) and not field.metadata["alias_of"]


def test_get_options_match_python_names_and_defaults() -> None:
    """The command line uses dashes instead of underscores."""
    table = {field.name: field.default for field in fields(GetOptions) if is_option(field)}
    options = [
        parameter
        for parameter in command_of("get").params
        if isinstance(parameter, click.Option) and parameter.name not in OF_THE_COMMAND | OF_SHARED_JOBS
    ]

    assert {option.name: option.default for option in options} == table
    written = {option.name: written_long(option).removeprefix("--").replace("-", "_") for option in options}
    # The command line takes one header per option, and Python all headers together.
    assert {name: text for name, text in written.items() if name != text} == {"headers": "header"}


def test_check_options_match_python_names_and_defaults() -> None:
    """Defaults are the same; options of the command line itself come in addition."""
    table = {field.name: field.default for field in fields(CheckOptions) if is_option(field)}
    options = [parameter for parameter in command_of("check").params if isinstance(parameter, click.Option)]

    found = {option.name: option.default for option in options}
    assert {name: found[name] for name in table} == table
    assert found.keys() - table.keys() == {"no_redirects", "fail_on"} | OF_THE_COMMAND - {"dry_run"}


def test_list_options_match_python_names_and_defaults() -> None:
    """Defaults are the same; options of the command line itself come in addition."""
    table = {field.name: field.default for field in fields(ListOptions) if field.metadata}
    options = [parameter for parameter in command_of("list").params if isinstance(parameter, click.Option)]

    found = {option.name: option.default for option in options}
    assert {name: found[name] for name in table} == table
    # The function of `fetchmill.list` may end the list.
    assert found.keys() - table.keys() == {"first"} | OF_THE_COMMAND - {"dry_run"}


def test_ls_has_all_list_options() -> None:
    """Defaults and help are the same, except for options that mean something else for a destination."""
    found, of_list = (
        {each.name: each for each in command_of(name).params if isinstance(each, click.Option)}
        for name in ("ls", "list")
    )

    assert found.keys() - of_list.keys() == {"is_long", "null", "output"}
    assert of_list.keys() - found.keys() == set()
    assert [name for name, option in of_list.items() if found[name].default != option.default] == []
    assert {name for name, option in of_list.items() if found[name].help != option.help} == {
        "format",
        "state",
        "as_json",
    }


def test_former_command_name_is_hidden_but_works(run: Callable[..., Any]) -> None:
    """`list` is not in the list of commands; its help says that `ls` does the same."""
    shown = run("--help").out + run("-h").out
    own = run("list", "--help")

    assert not re.search(r"^ +list\b", shown, re.MULTILINE)
    assert own.code == 0
    assert "`fetchmill ls SOURCE [-o" in own.out


def test_plan_shares_get_options_and_defaults() -> None:
    """The help is also the same. `plan` has options of its own, and lacks some of `get`."""
    table = {field.name: field.default for field in fields(PlanOptions) if is_option(field)}
    found = {each.name: each for each in command_of("plan").params if isinstance(each, click.Option)}
    of_get = {each.name: each for each in command_of("get").params if isinstance(each, click.Option)}

    assert {name: found[name].default for name in table} == table
    assert found.keys() - of_get.keys() == {"probe_seconds", "objects", "price_list", "price_get", "price_gb"}
    of_shows = (
        {"dry_run", "log_file", "log_format", "first"}
        | OF_SHARED_JOBS
        | {name for name in of_get if name and "dashboard" in name}
    )
    # A probe must not change a server, and does not support parts.
    of_requests = {
        "method",
        "data",
        "data_json",
        "idempotent",
        "offset_column",
        "length_column",
        "coalesce",
        "hash_column",
    }
    assert of_get.keys() - found.keys() == of_shows | of_requests
    assert [name for name in table.keys() & of_get.keys() if found[name].help != of_get[name].help] == []


def test_sync_shares_get_options_and_defaults() -> None:
    """The default concurrency differs, because `sync` has only one engine.

    Of the storage options, `sync` has only the format.
    """
    table = {field.name: field.default for field in fields(SyncOptions) if is_option(field)}
    found = {each.name: each for each in command_of("sync").params if isinstance(each, click.Option)}
    of_get = {each.name: each for each in command_of("get").params if isinstance(each, click.Option)}

    assert {name: found[name].default for name in table} == table
    own = {"delete", "max_delete", "refetch", "overwrite_local", "check_local"}
    assert found.keys() - of_get.keys() == own
    differ = {name for name in found.keys() & of_get.keys() if found[name].default != of_get[name].default}
    assert differ == {"concurrency"}
    assert {"engine", "transform", "names", "method", "state", "keep_columns"} <= of_get.keys() - found.keys()


def test_version_is_one_line(run: Callable[..., Any]) -> None:
    """The output is one line of data."""
    shown = run("--version")

    assert (shown.code, shown.out, shown.err) == (0, f"fetchmill {fetchmill.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch"], "No such command 'fetch'"),
        (["get"], "Missing argument 'SOURCE'"),
        (["get", "http://127.0.0.1:1"], "Missing argument 'DEST'"),
        (["get", "http://127.0.0.1:1", "out", "--limt", "3"], "No such option '--limt'"),
        (["get", "http://127.0.0.1:1", "out", "--concurrency", "many"], "'many' is not understood"),
        (
            ["get", "http://127.0.0.1:1", "out", "-j", "0"],
            "concurrency must be a whole number of at least 1, or auto, not 0",
        ),
        (["get", "http://127.0.0.1:1", "out", "--format", "zip"], "'zip' is not one of 'files', 'tar'"),
        (["get", "http://127.0.0.1:1", "out", "--commit-window", "soon"], "'soon' is not understood"),
        (["get", "http://127.0.0.1:1", ""], "dest must be a non-empty path"),
        (["serve"], "Give either FOLDER or --synthetic N"),
        (["serve", ".", "--synthetic", "5"], "Give either FOLDER or --synthetic N"),
        (["serve", ".", "--retry-after", "3"], "--retry-after needs --error-rate"),
        (["serve", ".", "--error-rate", "2"], "'--error-rate': 2.0 is not in the range 0<=x<=1"),
        (["plan"], "Missing argument 'SOURCE'"),
        (["plan", "http://127.0.0.1:1", "--probe-seconds", "soon"], "'soon' is not understood"),
        (["plan", "urls.txt", "--engine", "threads"], "--engine must be native, not threads"),
        (["status"], "Missing argument 'DEST'"),
        (["check"], "Missing argument 'LIST'"),
        (["check", "http://127.0.0.1:1"], "is a URL, not a list"),
        (["check", "urls.txt", "--redirects", "2", "--no-redirects"], "cannot be combined"),
        (["check", "urls.txt", "--fail-on", "5xx,sunshine"], "'sunshine' is not a failure kind or status"),
        (["check", "urls.txt", "--resolver", "example.com"], "resolver must be the address of a name server"),
        (["sync", "http://127.0.0.1:1"], "Missing argument 'DEST'"),
        (["sync", "http://127.0.0.1:1", "out", "--max-delete", "-3"], "--max-delete must be a number of objects"),
        (["sync", "http://127.0.0.1:1", "s3://bucket/x/"], "is a bucket, but sync needs a local folder"),
        (["diff", "old.csv"], "Missing argument 'NEW'"),
        (["diff", "old.csv", "new.csv"], "cannot open old.csv"),
    ],
)
def test_usage_error_is_one_line(run: Callable[..., Any], tmp_path: Path, arguments: list[str], message: str) -> None:
    """The exit code is 2, and nothing was changed."""
    refused = run(*arguments)

    assert re.fullmatch(r"fetchmill: error: [^\n]+\n(hint: [^\n]+\n)?", refused.err)
    assert message in refused.err
    assert (refused.code, refused.out) == (2, "")
    assert list(tmp_path.iterdir()) == []


def test_help_goes_to_stderr_when_no_argument_is_given(run: Callable[..., Any]) -> None:
    """Help goes to standard error, because it is not data."""
    shown = run()

    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("Usage: fetchmill ")
