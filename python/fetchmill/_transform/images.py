"""`--image-max-side` and related options: decodes, filters, shrinks and encodes images with Pillow.

Images are untrusted, so only decoders for common formats are used. An image that exceeds Pillow's limit of 89 million
pixels fails, and an exception in Pillow fails only the image that caused it. A process uses up to 12 bytes of memory
per pixel: 4 for the decoded image, and 4 for each of up to two copies in other modes.
"""

import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from PIL import Image, ImageOps, UnidentifiedImageError

from fetchmill._transform.reply import FetchedReply

# EPS is excluded because decoding it starts another program. Formats that web servers hardly ever serve are also
# excluded.
_DECODERS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
# Output format for images that must be encoded, if their format is not in `_MODES` and no output format is given.
_OTHERWISE = "PNG"
_WHITE = (255, 255, 255)
# Modes that each encoder accepts without conversion.
_MODES = {"JPEG": ("L", "RGB"), "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), "WEBP": ("RGB", "RGBA")}

COLUMNS = ("width", "height", "original_width", "original_height")
"""The columns that an image can fill."""


@dataclass(frozen=True, slots=True)
class ImageTransform:
    """A transform that stores images in the requested size and format.

    An image that needs no change is stored byte for byte. It is decoded first, to verify that it is complete.

    Args:
        max_side: maximum length of the longer side in pixels, as stored; None for no maximum.
        min_side: minimum length of the shorter side in pixels; None for no minimum. Smaller images are skipped.
        format: output format; None for the original format. GIF, BMP, TIFF and AVIF then become PNG if they are shrunk.
        quality: quality of JPEG and WebP, 1 to 100.
        columns: the columns of the results, from COLUMNS.
    """

    max_side: int | None = None
    min_side: int | None = None
    format: Literal["jpeg", "png", "webp"] | None = None
    quality: int = 85
    columns: tuple[str, ...] = ()

    def __call__(self, replies: list[FetchedReply]) -> Iterator[bytes | dict[str, Any] | Exception | None]:
        """Yield a result for each reply: the image, None if it is too small, or an error if it is not an image."""
        for reply in replies:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", Image.DecompressionBombWarning)
                    result = self._result(reply.body)
                yield result
            except UnidentifiedImageError:
                yield ValueError("the body is not an image")
            except Exception as error:  # noqa: BLE001 - decoders raise anything for damaged images
                yield error

    def text(self) -> str:
        """Return the settings as text. The text is part of a job's identity."""
        values = {"max_side": self.max_side, "min_side": self.min_side, "format": self.format, "quality": self.quality}
        return " ".join(f"{name}={value}" for name, value in values.items() if value is not None)

    def _result(self, body: bytes) -> bytes | dict[str, Any] | None:
        with Image.open(io.BytesIO(body), formats=_DECODERS) as image:
            original = image.size
            if self.min_side is not None and min(original) < self.min_side:
                return None
            stored, size = self._stored(image, body)
        if not self.columns:
            return stored
        values = dict(zip(COLUMNS, (*size, *original), strict=True))
        return {"body": stored, **{name: values[name] for name in self.columns}}

    def _stored(self, image: Image.Image, body: bytes) -> tuple[bytes, tuple[int, int]]:
        """Return the bytes to store, with width and height."""
        came = str(image.format)
        encoder = self.format.upper() if self.format else came if came in _MODES else _OTHERWISE
        is_large = self.max_side is not None and max(image.size) > self.max_side
        if not is_large and (self.format is None or encoder == came):
            size = image.size
            image.load()
            return body, size
        if is_large:
            image = _mixable(image)
            image.thumbnail((self.max_side, self.max_side), Image.Resampling.LANCZOS)  # type: ignore[arg-type]
        # Rotate the pixels now, because the orientation metadata is not stored.
        ImageOps.exif_transpose(image, in_place=True)
        encodable = _encodable(image, encoder)
        profile = image.info.get("icc_profile") if encodable.mode == image.mode else None
        made = io.BytesIO()
        encodable.save(made, encoder, quality=self.quality, icc_profile=profile)
        return made.getvalue(), encodable.size


def _mixable(image: Image.Image) -> Image.Image:
    """Convert an image to a mode whose pixels can be averaged. Pillow skips or refuses pixels in other modes."""
    if image.mode in ("1", "P"):
        return _encodable(image, "WEBP")
    return _gray(image) if image.mode.startswith("I") else image


def _gray(image: Image.Image) -> Image.Image:
    """Convert 16-bit pixels to 8 bits, by dropping the lower 8 bits."""
    return image.point(lambda value: value / 256).convert("L")


def _encodable(image: Image.Image, encoder: str) -> Image.Image:
    """Convert an image to a mode that the encoder accepts. Transparent pixels become white in a JPEG."""
    if image.mode in _MODES[encoder]:
        return image
    if image.mode.startswith("I"):
        return _encodable(_gray(image), encoder)
    if not image.has_transparency_data:
        return image.convert("RGB")
    with_alpha = image.convert("RGBA")
    if encoder != "JPEG":
        return with_alpha
    ground = Image.new("RGB", image.size, _WHITE)
    ground.paste(with_alpha, mask=with_alpha.getchannel("A"))
    return ground
