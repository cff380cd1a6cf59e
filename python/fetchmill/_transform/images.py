"""`--image-max-side` and its relatives: images are decoded, filtered by size, shrunk and encoded by Pillow.

Images come from strangers. So only decoders of common formats are used, Pillow's limit of pixels (89 million) is an
error, and whatever it raises is the failure of that image. A process needs at most 12 bytes of memory for each pixel:
4 for the decoded image, and 4 for each of its copies in another mode, of which there are two at most.
"""

import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from PIL import Image, ImageOps, UnidentifiedImageError

from fetchmill._transform.reply import FetchedReply

# Without EPS, which starts another program, and formats that hardly any web server has.
_DECODERS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
# What an image of another format becomes if it must be encoded and no format is asked for.
_OTHERWISE = "PNG"
_WHITE = (255, 255, 255)
# Modes that each encoder takes as they are.
_MODES = {"JPEG": ("L", "RGB"), "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), "WEBP": ("RGB", "RGBA")}

COLUMNS = ("width", "height", "original_width", "original_height")
"""The columns that an image can fill."""


@dataclass(frozen=True, slots=True)
class ImageTransform:
    """A transform that stores images in the size and format that is asked for.

    An image that needs no change is stored byte for byte, after it was decoded to prove that it is whole.

    Args:
        max_side: pixels of the longer side of what is stored, at most. None: any number.
        min_side: pixels of the shorter side, at least; smaller images are skipped. None: any number.
        format: what images are stored as. None: as they came; GIF, BMP, TIFF and AVIF become PNG if they are shrunk.
        quality: of JPEG and WebP, 1 to 100.
        columns: which of COLUMNS results have.
    """

    max_side: int | None = None
    min_side: int | None = None
    format: Literal["jpeg", "png", "webp"] | None = None
    quality: int = 85
    columns: tuple[str, ...] = ()

    def __call__(self, replies: list[FetchedReply]) -> Iterator[bytes | dict[str, Any] | Exception | None]:
        """A result for each reply: the image, None if it is too small, or why it is no image."""
        for reply in replies:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error", Image.DecompressionBombWarning)
                    result = self._result(reply.body)
                yield result
            except UnidentifiedImageError:
                yield ValueError("the body is no image")
            except Exception as error:  # noqa: BLE001 - decoders raise anything for damaged images
                yield error

    def text(self) -> str:
        """What is made of images, as it identifies a job."""
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
        """The bytes that are stored, with their width and height."""
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
        # How it is to be turned is in the metadata, which is left out.
        ImageOps.exif_transpose(image, in_place=True)
        encodable = _encodable(image, encoder)
        profile = image.info.get("icc_profile") if encodable.mode == image.mode else None
        made = io.BytesIO()
        encodable.save(made, encoder, quality=self.quality, icc_profile=profile)
        return made.getvalue(), encodable.size


def _mixable(image: Image.Image) -> Image.Image:
    """The same image in a mode whose pixels can be averaged: Pillow drops pixels of the others, or refuses them."""
    if image.mode in ("1", "P"):
        return _encodable(image, "WEBP")
    return _gray(image) if image.mode.startswith("I") else image


def _gray(image: Image.Image) -> Image.Image:
    """Of 16 bits for each pixel the upper eight."""
    return image.point(lambda value: value / 256).convert("L")


def _encodable(image: Image.Image, encoder: str) -> Image.Image:
    """The same image in a mode that the encoder takes; what is transparent is white in a JPEG."""
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
