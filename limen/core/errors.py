"""Errors that a user can fix. The command line prints the message alone and exits with code 2."""

import errno
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


class UserError(Exception):
    """One message with the value that was got, what was expected and how to fix it."""


class SampleError(UserError):
    """A mistake in one sample of a batch, given by its row; `named` replaces the row by the sample's id."""

    def __init__(self, row: int, message: str):
        super().__init__(f"sample number {row} of the batch: {message}")
        self.row, self.message = row, message

    def named(self, ids: Sequence[str]) -> UserError:
        return UserError(f"{ids[self.row]}: {self.message}") if ids else self


def check_each(items: Iterable[T], check: Callable[[T], object]) -> None:
    """Check every item before anything is run; one UserError lists all distinct problems."""
    problems = []
    for item in items:
        try:
            check(item)
        except UserError as error:
            problems.append(str(error))
    raise_all(problems)


def raise_all(problems: Iterable[str]) -> None:
    """One UserError that lists all distinct problems; nothing if there are none."""
    distinct = list(dict.fromkeys(problems))
    if len(distinct) > 1:
        listed = "\n".join(f"- {problem}" for problem in distinct)
        raise UserError(f"Nothing was run, because of {len(distinct)} problems:\n{listed}")
    if distinct:
        raise UserError(distinct[0])


def missing_package(who: str, package: str, extra: str) -> UserError:
    return UserError(
        f"{who} needs the package {package}, which is not installed. Install it: pip install 'limen[{extra}]'"
    )


REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file is larger than this file system allows",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}


def os_error_message(error: OSError) -> str:
    """One sentence for an error of the operating system."""
    why = REASONS.get(error.errno or 0) or error.strerror or str(error)
    return f"{error.filename}: {why}." if error.filename else f"{why[0].upper()}{why[1:]}."
