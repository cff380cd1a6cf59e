"""Indexes of archives (CDXJ) as others make them."""

import io
from pathlib import Path

from cdxj_indexer.main import CDXJIndexer


def expected_index(archive: Path) -> str:
    """What `cdxj-indexer --sort` makes of it."""
    out = io.StringIO()
    indexer = CDXJIndexer(output=out, inputs=[str(archive)], sort=True)
    indexer.process_all()
    return out.getvalue()


def index_of(archive: Path) -> Path:
    """It stands beside its file of WARC."""
    return archive.with_name(archive.name.replace(".warc.gz", ".cdxj"))
