"""The public surface of the package: names, documentation, types."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fetchmill
from fetchmill import errors, file_system, testing


def test_public_names_match_all_and_dir() -> None:
    """`__all__`, `dir()` and the existing names agree."""
    assert dir(fetchmill) == sorted(fetchmill.__all__)
    for name in fetchmill.__all__:
        assert getattr(fetchmill, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'fetch'"):
        _ = fetchmill.fetch


def test_every_public_name_is_documented() -> None:
    """Every public name has its own docstring; an inherited one does not count."""
    for module in (fetchmill, file_system, testing):
        for name in module.__all__:
            if name != "__version__":
                assert (getattr(module, name).__doc__ or "").strip(), name


def test_every_error_is_public_and_has_its_exit_code() -> None:
    """Every error is public and has the exit code of docs/reference/exit-codes.md."""
    classes = {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.FetchmillError)
    }

    assert set(classes) <= set(fetchmill.__all__)
    assert {name: error.exit_code for name, error in classes.items()} == {
        "FetchmillError": 1,
        "InternalError": 1,
        "UsageError": 2,
        "ListingError": 4,
        "TemporaryError": 5,
        "SecurityError": 6,
        "StorageError": 7,
        "BusyError": 9,
        "JournalError": 10,
        "DeleteLimitError": 11,
        "AccessError": 12,
        "ReplyError": 3,
        "StatusError": 3,
        "StrayReplyError": 3,
    }


def test_version_has_one_source(root: Path) -> None:
    """The version comes from the workspace; the bench repeats it, because it requires exactly that version."""
    assert f'version = "{fetchmill.__version__}"' in (root / "Cargo.toml").read_text()
    bench = (root / "packages/fetchmill-bench/pyproject.toml").read_text()
    assert f'version = "{fetchmill.__version__}"' in bench
    assert f'"fetchmill[engines]=={fetchmill.__version__}"' in bench


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import fetchmill", {"click", "rich", "fetchmill._native", "fetchmill._job.get"}),
        ("import fetchmill.cli", {"rich", "pathlib", "traceback", "fetchmill._native", "fetchmill.cli.get"}),
        (
            "import fetchmill.cli.get",
            {"rich", "csv", "pathlib", "fetchmill._native", "fetchmill._job.get", "fetchmill._options.keywords"},
        ),
        ("import fetchmill.cli.status", {"rich", "json", "pathlib", "fetchmill._native", "fetchmill._options.table"}),
    ],
)
def test_modules_are_loaded_on_demand(statement: str, absent: set[str]) -> None:
    """Importing the package loads few modules, so that the command starts quickly."""
    program = f"import sys; {statement}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert not absent & set(loaded)


def test_no_environment_variable_changes_durability() -> None:
    """The package reads only one variable of its own, which adds a traceback to internal errors.

    The native module reads none.
    """
    package = Path(fetchmill.__file__).parent
    native = next(package.glob("_native*.so")).read_bytes()
    own = {
        name
        for path in package.rglob("*.py")
        for name in re.findall(r"environ[^\n]*?(FETCHMILL_\w+)", path.read_text())
    }

    assert set(re.findall(rb"FETCHMILL_[A-Z_]+", native)) == set()
    assert own == {"FETCHMILL_TRACEBACK"}
