"""`make bench-images`: compares how fetchmill and img2dataset write captioned images to webdataset shards.

img2dataset is installed into build/. Both programs run with the settings in img2dataset's README, once with resizing
and once without decoding. Both resize the longer side to 256 pixels, and encode the result as JPEG of quality 95. Some
of the images are missing, and some requests get errors or pages instead of images. Each client runs in its own network
namespace, with nginx on one of the namespace's addresses.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path

from own_bench.machine import ROOT, program
from own_bench.processes import FETCHMILL, Process, Usage, cpu_seconds

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "support"))
from network import Network, network

IMG2DATASET = "img2dataset==1.47.0"
HOST, ADDRESS = "images.example.com", "198.51.100.20"
# Missing images, replies with status 500, and pages instead of images, per hundred images.
MISSING, BROKEN, PAGES = range(1), range(1, 2), range(2, 3)
DISTINCT = 200
# Exit code of `fetchmill get` if targets failed.
TARGETS_FAILED = 3
MAKE_IMAGES = """
import sys, cv2, numpy
numbers = numpy.random.default_rng(7)
for number in range(int(sys.argv[2])):
    small = numbers.integers(0, 256, (24, 32, 3), numpy.uint8)
    image = cv2.resize(small, (512, 384), interpolation=cv2.INTER_CUBIC)
    image = cv2.add(image, numbers.integers(0, 24, image.shape, numpy.uint8))
    cv2.imwrite(f"{sys.argv[1]}/{number}.jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 80])
"""
MAKE_LIST = """
import sys, json, pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.Table.from_pylist(json.load(sys.stdin)), sys.argv[1])
"""
CONFIGURATION = """
user root root;
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log crit;
worker_rlimit_nofile 16384;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    sendfile on;
    tcp_nopush on;
    open_file_cache max=1000 inactive=1h;
    keepalive_requests 1000000000;
    types {{ image/jpeg jpg; }}
    server {{
        listen {address}:80;
        location ~ ^/missing/ {{ return 404; }}
        location ~ ^/broken/ {{ return 500; }}
        location ~ ^/page/ {{ types {{ }} default_type text/html; return 200 '<html>gone</html>'; }}
        location ~ ^/image/\\d+/(?<file>\\d+\\.jpg)$ {{ alias {root}/$file; }}
    }}
}}
"""


def main() -> int:
    """Runs all clients, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "bench-images", help="working folder, on a real disk"
    )
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "served").mkdir(parents=True)
    (folder / "network").mkdir()
    python = _install(ROOT / "build" / "img2dataset")
    subprocess.run([python, "-c", MAKE_IMAGES, folder / "served", str(DISTINCT)], check=True)
    listed = _write_list(python, folder, arguments.count)
    print(
        "| | seconds | images/s | CPU ms per image | nginx's | peak MiB | samples | what it reports about the others |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    try:
        with network(folder / "network", {HOST: ADDRESS}) as inside:
            for name, command in _commands(python, listed, folder / "out").items():
                _run(name, inside, command, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _install(folder: Path) -> Path:
    """Installs img2dataset. Returns its Python interpreter."""
    python = folder / "bin" / "python"
    if not (folder / "bin" / "img2dataset").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", IMG2DATASET], check=True)
    return python


def _write_list(python: Path, folder: Path, count: int) -> Path:
    """Writes the list. Each row has a unique URL and a caption."""
    path = folder / "list.parquet"
    rows = [{"url": _url(number), "caption": f"image {number}, and what it shows"} for number in range(count)]
    subprocess.run([python, "-c", MAKE_LIST, path], input=json.dumps(rows), text=True, check=True)
    return path


def _url(number: int) -> str:
    kinds = {"missing": MISSING, "broken": BROKEN, "page": PAGES}
    kind = next((kind for kind, numbers in kinds.items() if number % 100 in numbers), "image")
    return f"http://{HOST}/{kind}/{number}/{number % DISTINCT}.jpg"


def _commands(python: Path, listed: Path, out: Path) -> dict[str, list[object]]:
    """Returns the commands to compare. img2dataset uses one process per processor."""
    get = [*FETCHMILL, "get", listed, out, "--format", "tar", "--allow-private", "--json"]
    get += ["--names", "{index}.{ext}", "--keep-columns", "caption", "--sidecar", "txt=caption", "--sidecar", "json"]
    readme: list[object] = [python.with_name("img2dataset"), f"--url_list={listed}", "--input_format=parquet"]
    readme += ["--url_col=url", "--caption_col=caption", "--output_format=webdataset", f"--output_folder={out}"]
    readme += [f"--processes_count={os.cpu_count()}", "--thread_count=64"]
    resized = ["--image-max-side", "256", "--image-format", "jpeg", "--image-quality", "95"]
    same = ["--image_size=256", "--resize_mode=keep_ratio_largest", "--resize_only_if_bigger=True"]
    return {
        "`fetchmill get --format tar --sidecar json`": get,
        "the same with `--image-max-side 256`": [*get, *resized],
        "img2dataset, `--image_size=256`, `keep_ratio_largest`": [*readme, *same],
        "img2dataset, `--disable_all_reencoding=True`": [*readme, "--disable_all_reencoding=True"],
    }


def _run(name: str, inside: Network, command: list[object], folder: Path) -> None:
    """Runs one client, with its own nginx."""
    prefix, out = folder / "nginx", folder / "out"
    shutil.rmtree(prefix, ignore_errors=True)
    prefix.mkdir()
    text = CONFIGURATION.format(prefix=prefix, root=folder / "served", address=ADDRESS)
    (prefix / "nginx.conf").write_text(text)
    server = Process(inside.command(program("nginx"), "-e", prefix / "error.log", "-c", prefix / "nginx.conf"))
    try:
        while not (prefix / "nginx.pid").exists():
            time.sleep(0.02)
        before = cpu_seconds(server.pid)
        usage = _measured(inside.command(*command))
        server_cpu = cpu_seconds(server.pid) - before
    finally:
        server.stop()
    samples, others = _stored(out)
    print(
        f"| {name} | {usage.seconds:.1f} | {samples / usage.seconds:,.0f} | {usage.cpu / samples * 1e3:.2f} "
        f"| {server_cpu / samples * 1e3:.2f} | {usage.peak_mib:.0f} | {samples:,} | {others} |",
        flush=True,
    )
    shutil.rmtree(out)


def _measured(command: list[str]) -> Usage:
    """Runs a command until it ends. Accepts the exit code for failed images."""
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    usage = Process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()
    if usage.code not in (0, TARGETS_FAILED):
        raise SystemExit(f"this failed with exit code {usage.code}: {' '.join(command)}")
    return usage


def _stored(out: Path) -> tuple[int, str]:
    """Returns the number of samples with an image, a caption and metadata, and the reports about failed images."""
    parts: dict[str, set[str]] = {}
    for path in out.glob("*.tar"):
        with tarfile.open(path) as shard:
            for member in shard:
                key, _, extension = member.name.partition(".")
                parts.setdefault(key, set()).add(extension)
    samples = sum(found == {"jpg", "json", "txt"} for found in parts.values())
    if stats := list(out.glob("*_stats.json")):
        told: Counter[str] = Counter()
        for path in stats:
            told.update(json.loads(path.read_text())["status_dict"])
        return samples, ", ".join(f"{text}: {count}" for text, count in told.items() if text != "success")
    import fetchmill

    kinds = Counter(failure.kind for failure in fetchmill.failures(out))
    pages = sum("html" in found for found in parts.values())
    told = Counter(dict(kinds)) + Counter({"stored as html": pages})
    return samples, ", ".join(f"{text}: {count}" for text, count in told.items())


if __name__ == "__main__":
    sys.exit(main())
