"""The options of the function `fetchmill.get` and the command `fetchmill get`."""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from fetchmill._options.rows import Options, option_class
from fetchmill._options.sources import SourceKind, check_source, kind_of
from fetchmill._options.table import GET
from fetchmill.errors import UsageError

if TYPE_CHECKING:
    from fetchmill._options.keywords import GetKeywords

_QUALITY_MAX = 100
# Copied from `_transform.images` so that help does not need Pillow.
_IMAGE_COLUMNS = ("width", "height", "original_width", "original_height")

# Options that earlier versions stored under other names in journals and job directories.
_RENAMED = {"all_rows": "keep_failed", "warc_all": "keep_failed"}


def with_current_names(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored options under their current names."""
    return {_RENAMED.get(name, name): value for name, value in stored.items()}


@option_class(GET)
class GetOptions(Options):
    """The validated, immutable options of a job.

    `source`, `listing`, `format` and the options that shape requests and names identify a job, so they cannot change
    when the job is resumed. All other options can change.

    Args:
        source: `http://host:port[/path]` or `https://...` for a server that lists its objects, `s3://bucket[/prefix]`
            for a bucket, or the path of a list of URLs. `-` reads a list from standard input.
        dest: the destination: `s3://BUCKET/PREFIX/`, or a folder that does not exist, is empty, or belongs to the same
            job.

    Raises:
        UsageError: a value is invalid.

    The other options:
    """

    source: str | os.PathLike[str]
    dest: str | os.PathLike[str]

    if TYPE_CHECKING:

        def __init__(
            self, *, source: str | os.PathLike[str], dest: str | os.PathLike[str], **options: Unpack[GetKeywords]
        ) -> None: ...

    def __post_init__(self) -> None:
        super().__post_init__()
        check_source(self)
        self._check_images()
        if self.transform_columns and self.transform is None and not has_images(self):
            raise UsageError("transform_columns needs a transform or image options", options=["transform_columns"])

    def _check_images(self) -> None:
        """Refuse image options that contradict other options."""
        if self.image_quality > _QUALITY_MAX:
            raise UsageError(
                f"image_quality must be 1 to {_QUALITY_MAX}, not {self.image_quality}", options=["image_quality"]
            )
        if not has_images(self):
            if self.image_quality != GET["image_quality"].default:
                raise UsageError(
                    "image_quality needs image_max_side, image_min_side or image_format",
                    options=["image_quality", "image_max_side", "image_min_side", "image_format"],
                )
            return
        if self.transform is not None:
            raise UsageError(
                "transform and the image options cannot be combined; the function can resize and convert images itself",
                options=["transform"],
            )
        if unknown := [name for name in self.transform_columns or () if name not in _IMAGE_COLUMNS]:
            raise UsageError(f"images have the columns {', '.join(_IMAGE_COLUMNS)}, not {unknown[0]!r}")

    @property
    def source_kind(self) -> SourceKind:
        """The kind of source, derived from its text."""
        return kind_of(str(self.source))

    def to_json(self, kind: SourceKind | None = None) -> str:
        """Return the options for the native module.

        Args:
            kind: the kind of source, if it cannot be derived from the source's text.

        Raises:
            UsageError: the origin for the credentials is unknown, ~/.netrc does not contain it, or other processes
                cannot import the transform.
        """
        values = source_values(self, kind or self.source_kind) | {"dest": self.dest}
        if has_images(self):
            values["transform"] = self._native_images()
        elif self.transform is not None:
            from fetchmill._transform.spec import native_transform

            values["transform"] = native_transform(self.transform, self.transform_columns or ())
        return json.dumps(values)

    def _native_images(self) -> dict[str, Any]:
        """Return the transform for the image options."""
        try:
            from fetchmill._transform.images import ImageTransform
        except ImportError:
            raise UsageError(
                "the image options need Pillow, which is not installed", hint="pip install 'fetchmill[images]'"
            ) from None
        from fetchmill._transform.spec import native_transform

        columns = tuple(self.transform_columns or ())
        images = ImageTransform(
            self.image_max_side, self.image_min_side, self.image_format, self.image_quality, columns=columns
        )
        return native_transform(images, columns, images.text())


def has_images(options: Options) -> bool:
    """Return whether the objects are images that are checked or changed before they are stored."""
    return any(getattr(options, name) is not None for name in ("image_max_side", "image_min_side", "image_format"))


def source_values(options: Options, kind: SourceKind) -> dict[str, object]:
    """Return the core's options, with the source and its kind."""
    endpoint = options.endpoint_url if kind == "s3" else None
    source = str(options.source)
    return options.core_values(endpoint or source) | {"source": source, "source_kind": kind}
