"""Mistakes a user can make. The command line prints the message alone and ends with exit code 2."""

import errno
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


class UserError(Exception):
    """What came, what was expected, and the way out, in one message."""


class SampleError(UserError):
    """A mistake in one sample of a batch, told by its row: who knows the ids of the batch names it by
    `named`."""

    def __init__(self, row: int, message: str):
        super().__init__(f"sample number {row} of the batch: {message}")
        self.row, self.message = row, message

    def named(self, ids: Sequence[str]) -> UserError:
        return UserError(f"{ids[self.row]}: {self.message}") if ids else self


def check_each(items: Iterable[T], check: Callable[[T], object]) -> None:
    """`check` of every item, before anything is run; a UserError lists all that is wrong, each thing once."""
    troubles: dict[str, None] = {}
    for item in items:
        try:
            check(item)
        except UserError as error:
            troubles[str(error)] = None
    if len(troubles) > 1:
        raise UserError(
            f"Nothing was run, for {len(troubles)} things are missing or do not fit:\n"
            + "\n".join(f"- {t}" for t in troubles)
        )
    if troubles:
        raise UserError(next(iter(troubles)))


def missing_package(who: str, package: str, extra: str) -> UserError:
    return UserError(
        f"{who} needs the package {package}, which is not installed. Install it: pip install 'limen[{extra}]'"
    )


REFUSED = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your share of the disk is full",
    errno.EFBIG: "files may not be so large here",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}


def refused(error: OSError) -> str:
    """What the system refused, in a sentence."""
    why = REFUSED.get(error.errno or 0) or error.strerror or str(error)
    return f"{error.filename}: {why}." if error.filename else f"{why[0].upper()}{why[1:]}."
