"""Read the files inside a package as data: nothing is installed and no script in it runs."""

import gzip
import io
import lzma
import shutil
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from limen.core.errors import UserError

BROKEN = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    ValueError,
    RuntimeError,
)
"""Exceptions of the standard library for a damaged archive."""


def members(path: Path, inner: str | None = None) -> Iterator[tuple[str, IO[bytes]]]:
    """(path inside, open file) of each file in a folder, .zip, .whl, .tar.*, .tgz or .deb, or of a single
    file; `inner` names a zip inside that is opened too. A file that ends in .gz comes uncompressed and
    without the ending."""
    try:
        for name, file in _raw_members(path):
            if inner and name.rsplit("/", 1)[-1] == inner:
                yield from _zip(io.BytesIO(file.read()))
            elif name.endswith(".gz"):
                with gzip.open(file) as plain:
                    yield name.removesuffix(".gz"), plain  # type: ignore[misc]
            else:
                yield name, file
    except BROKEN as error:
        raise UserError(
            f"{path}: the archive cannot be read ({error}). It may be cut short: fetch it again."
        ) from None


def _raw_members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if path.is_dir():
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            with file.open("rb") as opened:
                yield file.relative_to(path).as_posix(), opened
    elif path.suffix in (".zip", ".whl"):
        yield from _zip(path)
    elif path.suffix == ".deb":
        yield from _deb(path)
    elif path.suffix in (".tgz", ".tar") or ".tar." in path.name:
        with tarfile.open(path) as tar:
            yield from _tar(tar)
    else:
        with path.open("rb") as opened:
            yield path.name, opened


def _zip(source: Path | IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(source) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                with archive.open(info) as file:
                    yield info.filename, file


def _tar(tar: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    for info in tar:
        file = tar.extractfile(info) if info.isfile() else None  # links and devices are not data
        if file is not None:
            yield info.name.removeprefix("./"), file


def _deb(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """A .deb is an `ar` archive: an 8-byte magic, then members with a 60-byte header (name 16, ..., size in
    decimal at 48) padded to even length. One of them, data.tar.*, holds the files."""
    with path.open("rb") as file:
        if file.read(8) != b"!<arch>\n":
            raise ValueError("it does not begin as a Debian package does")
        while len(header := file.read(60)) == 60:
            name, size = header[:16].decode("ascii", "replace").strip().rstrip("/"), int(header[48:58])
            if not name.startswith("data.tar"):
                file.seek(size + size % 2, 1)
                continue
            if name.endswith(".zst"):  # not in Python's standard library before 3.14
                yield from _through_dpkg(path)
            else:
                data = file.read(size)
                if len(data) < size:
                    raise ValueError(f"{name} has {len(data)} bytes instead of {size}")
                with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                    yield from _tar(tar)
            return
    raise ValueError("it holds no data.tar")


def _through_dpkg(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if not shutil.which("dpkg-deb"):
        raise UserError(
            f"{path}: is packed with zstd, which needs the program dpkg-deb. Install it and try again."
        )
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(path)], capture_output=True, check=False)
    if unpacked.returncode:
        raise ValueError(unpacked.stderr.decode(errors="replace").strip())
    with tarfile.open(fileobj=io.BytesIO(unpacked.stdout)) as tar:
        yield from _tar(tar)
