"""Indexes of archives (CDXJ) from other tools."""

import io
from pathlib import Path

from cdxj_indexer.main import CDXJIndexer


def expected_index(archive: Path) -> str:
    """Returns the output of `cdxj-indexer --sort`."""
    out = io.StringIO()
    indexer = CDXJIndexer(output=out, inputs=[str(archive)], sort=True)
    indexer.process_all()
    return out.getvalue()


def index_of(archive: Path) -> Path:
    """Returns the index next to a WARC file."""
    return archive.with_name(archive.name.replace(".warc.gz", ".cdxj"))
