"""The notebook of the guide runs in a kernel."""

import copy

import nbformat
import pytest
from nbclient import NotebookClient

from conftest import ROOT

PATH = ROOT / "docs/guide/notebook.ipynb"


def printed(notebook: nbformat.NotebookNode) -> list[list[tuple[str, str]]]:
    """Returns the output of each code cell without progress lines, which differ from run to run."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    streams = [[output for output in cell.outputs if output.output_type != "display_data"] for cell in cells]
    return [[(output.output_type, output.get("text", "")) for output in outputs] for outputs in streams]


@pytest.mark.of_files("docs/guide/notebook.ipynb", "python/fetchmill/__init__.py", "python/fetchmill/cli/serve.py")
@pytest.mark.filterwarnings("default")  # the kernel's client emits warnings
def test_notebook_output_is_reproducible() -> None:
    """Running the notebook from top to bottom prints the stored output."""
    shown = nbformat.read(PATH, as_version=4)  # type: ignore[no-untyped-call]
    run = copy.deepcopy(shown)
    for cell in run.cells:
        cell.pop("outputs", None) if cell.cell_type == "markdown" else cell.update(outputs=[], execution_count=None)

    NotebookClient(run, timeout=60, kernel_name="python3").execute()

    assert printed(run) == printed(shown)
    assert sum(map(len, printed(shown))) >= 6
