"""Downloads images, makes them smaller and stores only that: `python examples/resize_images.py SOURCE DEST [WIDTH]`.

SOURCE is whatever `fetchmill get` takes: a server that lists its objects, or a list of URLs. What is no image is
dropped. Needs Pillow. The same command again resumes; what is resized already is not fetched again.
"""

import io
import os
import sys
from functools import partial

from PIL import Image, UnidentifiedImageError

import fetchmill

WIDTH = 256


def smaller(body: bytes, width: int) -> bytes | None:
    """An image of at most this width and height as JPEG; None when the bytes are no image."""
    try:
        with Image.open(io.BytesIO(body)) as image:
            image.thumbnail((width, width))
            made = io.BytesIO()
            image.convert("RGB").save(made, "JPEG", quality=85)
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError):
        return None
    return made.getvalue()


def resize(replies: list[fetchmill.FetchedReply], width: int) -> list[bytes | None]:
    """The transform: it runs in processes of its own, so that all processors are used."""
    return [smaller(reply.body, width) for reply in replies]


def main(source: str, dest: str, width: int = WIDTH) -> None:
    """Fetches, resizes, stores."""
    transform = partial(resize, width=width)
    report = fetchmill.get(source, dest, format="parquet", transform=transform, transform_batch=16)
    print(f"{report.fetched} images stored, {report.skipped} left out, {report.failed} failed")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], os.fspath(sys.argv[2]), *map(int, sys.argv[3:]))
