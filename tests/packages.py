"""A package with components of its own, as another distribution would install it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from limen.core import components


@contextmanager
def installed(folder: Path, kind: str, name: str, source: str) -> Iterator[None]:
    """A component of this kind in a package that declares it as an entry point."""
    info = folder / f"other_{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: other-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[limen.{kind}]\n{name} = other_{name}\n")
    (folder / f"other_{name}.py").write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        forget()
        try:
            yield
        finally:
            sys.modules.pop(f"other_{name}", None)
            forget()


def forget() -> None:
    components.module_paths.cache_clear()
    components.load.cache_clear()
