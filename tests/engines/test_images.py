"""Images are decoded, filtered by size, shrunk and encoded before they are stored; bad ones fail with a reason."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import fetchmill
from fetchmill._options.get import GetOptions
from fetchmill._transform.images import COLUMNS, ImageTransform
from fetchmill.testing import Server

Serve = Callable[..., Server]
Run = Callable[..., Any]

ORIENTATION, TURNED = 0x0112, 6


def encoded(format: str, size: tuple[int, int] = (640, 480), mode: str = "RGB", **options: Any) -> bytes:  # noqa: ANN401
    """Encodes an image with a gradient, so that pixels differ."""
    gradient = Image.radial_gradient("L").resize(size)
    made = io.BytesIO()
    if mode == "I;16":
        gradient.convert("I").point(lambda value: value * 256).convert(mode).save(made, format)
        return made.getvalue()
    Image.merge("RGB", (gradient, gradient, gradient)).convert(mode).save(made, format, **options)
    return made.getvalue()


def result_of(body: bytes, **options: Any) -> Any:  # noqa: ANN401 - a result of a transform
    """Returns the result for one body."""
    reply = fetchmill.FetchedReply("a", "http://a", 200, body, None, None, None)
    (result,) = ImageTransform(**options)([reply])
    return result


def picture(body: bytes) -> Image.Image:
    """Decodes the image."""
    image = Image.open(io.BytesIO(body))
    image.load()
    return image


@pytest.mark.parametrize("format", ["jpeg", "png", "webp"])
@pytest.mark.parametrize(
    ("came", "mode"),
    [
        *[("JPEG", mode) for mode in ("RGB", "L", "CMYK")],
        *[("PNG", mode) for mode in ("RGB", "RGBA", "L", "LA", "P", "1", "I;16")],
        *[("WEBP", "RGB"), ("GIF", "P"), ("BMP", "RGB"), ("TIFF", "CMYK"), ("AVIF", "RGB")],
    ],
)
def test_images_convert_between_all_formats(came: str, mode: str, format: str) -> None:
    """Images have the requested size and still show the gradient."""
    result = result_of(encoded(came, mode=mode), max_side=64, format=format, columns=COLUMNS)

    image = picture(result.pop("body"))
    assert (image.format, image.size) == (format.upper(), (64, 48))
    assert result == {"width": 64, "height": 48, "original_width": 640, "original_height": 480}
    gray = image.convert("L").tobytes()
    middle, corner = gray[24 * 64 + 32], gray[0]
    assert corner - middle > 80, (middle, corner)


@pytest.mark.parametrize(("came", "stored"), [("JPEG", "JPEG"), ("PNG", "PNG"), ("WEBP", "WEBP"), ("GIF", "PNG")])
def test_image_format_is_kept_by_default(came: str, stored: str) -> None:
    """The format is kept if it can be written."""
    assert picture(result_of(encoded(came), max_side=64)).format == stored


def test_image_needing_no_change_is_stored_verbatim() -> None:
    """An image that needs no change is stored byte for byte, and so is a GIF."""
    for format in ("JPEG", "GIF"):
        body = encoded(format)
        assert result_of(body, max_side=640) == body
    body = encoded("JPEG")
    assert result_of(body, max_side=1000, format="jpeg", quality=1) == body


def test_image_is_rotated_and_its_metadata_removed() -> None:
    """The image is rotated according to its orientation tag, and all metadata is removed."""
    tags = Image.Exif()
    tags[ORIENTATION] = TURNED
    result = result_of(encoded("JPEG", exif=tags), max_side=64, columns=COLUMNS)

    image = picture(result["body"])
    assert image.size == (48, 64) == (result["width"], result["height"])
    assert not image.getexif()


def test_transparent_areas_become_white_in_jpeg() -> None:
    """Transparent areas become white instead of black."""
    made = io.BytesIO()
    Image.new("RGBA", (100, 100), (200, 0, 0, 0)).save(made, "PNG")
    assert min(picture(result_of(made.getvalue(), format="jpeg")).tobytes()) > 250


def test_bad_images_raise_with_reason() -> None:
    """Each kind of damage is reported with its reason."""
    whole = encoded("JPEG")
    large = io.BytesIO()
    Image.new("1", (10_000, 9_000)).save(large, "PNG")
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n"
    reasons = {
        "is not an image": (b"", b"<html>gone</html>", eps),
        "truncated": (whole[: len(whole) // 2],),
        "could be decompression bomb": (large.getvalue(),),
    }
    for reason, bodies in reasons.items():
        for body in bodies:
            for options in ({"max_side": 64}, {"format": "jpeg"}, {"min_side": 1}):
                result = result_of(body, **options)
                assert isinstance(result, Exception), (body[:20], options)
                assert reason in str(result)


def test_small_image_is_skipped() -> None:
    """An image is skipped if its shorter side is too short."""
    assert result_of(encoded("PNG", (640, 99)), min_side=100) is None
    assert result_of(encoded("PNG", (640, 100)), min_side=100) is not None


def test_image_folder_is_fetched_into_shards(run: Run, server: Serve, served: Path, dest: Path) -> None:
    """The same command resumes, and one with another image size is refused."""
    (served / "wide.jpg").write_bytes(encoded("JPEG", (800, 200)))
    (served / "small.png").write_bytes(encoded("PNG", (40, 30)))
    (served / "tiny.png").write_bytes(encoded("PNG", (10, 10)))
    (served / "cut.jpg").write_bytes(encoded("JPEG")[:1000])
    (served / "page.jpg").write_text("<html>gone</html>")
    words = ["get", server(served).url, dest, "--format", "parquet", "--image-min-side", "20", "--image-format", "webp"]
    words += ["--transform-columns", "width,height"]

    ended = run(*words, "--image-max-side", "100", "--json")

    assert ended.code == 3, ended.err
    report = json.loads(ended.out.splitlines()[-1])
    assert (report["fetched"], report["failed"], report["skipped"]) == (2, 2, 1)
    assert {failure.name: failure.detail for failure in fetchmill.failures(dest)} == {
        "cut.jpg": "OSError: image file is truncated (5 bytes not processed)",
        "page.jpg": "ValueError: the body is not an image",
    }
    with fetchmill.open(dest) as objects:
        stored = {name: (picture(body).format, picture(body).size) for name, body in objects.items()}
        assert objects.record("wide.jpg").columns == {"width": "100", "height": "25"}
    assert stored == {"wide.jpg": ("WEBP", (100, 25)), "small.png": ("WEBP", (40, 30))}
    other = run(*words, "--image-max-side", "200")
    assert other.code == 2
    assert "its images is max_side=100 min_side=20 format=webp quality=85" in other.err
    assert run("resume", dest).code == 3


@pytest.mark.parametrize("format", ["files", "tar", "parquet"])
@pytest.mark.parametrize(
    ("words", "stored"),
    [
        ((), {"000000000.png": "PNG", "000000001.png": "PNG", "000000002.jpg": "JPEG"}),
        (
            ("--image-format", "webp"),
            {"000000000.webp": "WEBP", "000000001.webp": "WEBP", "000000002.webp": "WEBP"},
        ),
    ],
)
def test_extension_matches_stored_image(
    run: Run,
    server: Serve,
    dest: Path,
    served: Path,
    tmp_path: Path,
    format: str,
    words: tuple[str, ...],
    stored: dict[str, str],
) -> None:
    """The extension depends on the stored bytes, not on the URL or the reply. So does the type of converted images."""
    (served / "large.png").write_bytes(encoded("PNG"))
    (served / "large.gif").write_bytes(encoded("GIF", mode="P"))
    (served / "small.png").write_bytes(encoded("JPEG", (40, 30)))
    url = server(served).url
    names = ("large.png", "large.gif", "small.png")
    (tmp_path / "list.txt").write_text("".join(f"{url}/get/{name}\n" for name in names))
    naming = ("--names", "{index}.{ext}", "--image-max-side", "100")

    ended = run("get", "list.txt", dest, "--allow-private", "--format", format, *naming, *words)

    assert ended.code == 0, ended.err
    with fetchmill.open(dest) as objects:
        assert {name: picture(body).format for name, body in objects.items()} == stored
        if format == "parquet" and words:
            assert {objects.record(name).content_type for name in stored} == {"image/webp"}


def test_contradictory_image_options_are_refused() -> None:
    """The error comes before anything is read."""
    base: dict[str, Any] = {"source": "http://127.0.0.1:1", "dest": "out", "image_max_side": 64}
    for options, message in (
        ({"transform": "a:b"}, "cannot be combined"),
        ({"image_quality": 101}, "image_quality must be 1 to 100, not 101"),
        ({"transform_columns": ["width", "title"]}, "images have the columns width, height"),
    ):
        with pytest.raises(fetchmill.UsageError, match=message):
            GetOptions(**base, **options)
    GetOptions(**base, transform_columns=list(COLUMNS))
    with pytest.raises(fetchmill.UsageError, match="image_quality needs image_max_side"):
        GetOptions(source="http://127.0.0.1:1", dest="out", image_quality=50)


def test_missing_pillow_error_names_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs Pillow."""
    monkeypatch.setitem(sys.modules, "fetchmill._transform.images", None)
    options = GetOptions(source="http://127.0.0.1:1", dest="out", image_max_side=64)
    with pytest.raises(fetchmill.UsageError, match="Pillow, which is not installed") as refusal:
        options.to_json()
    assert refusal.value.hint == "pip install 'fetchmill[images]'"
