"""The process of a command: streams that bear what is printed, and an end with one message and an exit
code."""

import atexit
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from limen.core.errors import UserError, refused

STOPPED = 130
"""Exit code after Ctrl-C, as shells have it."""
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")
"""Words of the RuntimeErrors with which torch says so."""


def run_command(app: Callable[..., Any]) -> None:
    """Run the command; mistakes, and what the system refuses, are one message."""
    _open_streams()
    try:
        _check_folder()
        app(standalone_mode=True)
    except (UserError, OSError, MemoryError, RuntimeError) as error:
        if (sentence := _sentence(error)) is None:
            raise
        end(sentence, 2)
    except SystemExit as ending:  # what typer makes of a Ctrl-C
        if ending.code == STOPPED:
            end("stopped.", STOPPED)
        raise


def end(text: str, code: int) -> NoReturn:
    """One message on standard error, then the exit code."""
    from rich.console import Console

    Console(stderr=True).print(
        f"limen: {text}", style="red" if code == 2 else None, highlight=False, soft_wrap=True, markup=False
    )
    if (
        code == STOPPED
    ):  # at once: the interpreter would wait for threads that still compute, and may end by the signal itself
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@contextmanager
def going_on_later(where: Path | None) -> Iterator[None]:
    """A run that is interrupted, or that the system stops, ends with the command that goes on with it.
    Without a folder, --resume itself finds the newest one."""
    words = sys.argv[1:]
    words += (
        [] if where is None or any(word.split("=")[0] == "--out" for word in words) else ["--out", str(where)]
    )
    words += [] if "--resume" in words else ["--resume"]
    later = f"Finished cells are kept. Go on with:\n  {shlex.join(['limen', *words])}"
    try:
        yield
    except KeyboardInterrupt:
        end(f"stopped. {later}", STOPPED)
    except (OSError, MemoryError, RuntimeError) as error:
        if (sentence := _sentence(error)) is None:
            raise
        begun = where is None or (where / "config.json").is_file()
        raise UserError(f"{sentence}{f' {later}' if begun else ''}") from None


def _sentence(error: BaseException) -> str | None:
    """What went wrong, if it is the user's to mend; None for a mistake of ours."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):
        return refused(error)
    if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
        return (
            "There is not enough memory. Take fewer or smaller samples (--limit, batch_size) or a "
            "smaller model."
        )
    return None


class _Pipe(io.FileIO):
    """A standard stream whose reader may leave (`| head`): what is written then is lost, and the command goes
    on."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            return len(content)


def _open_streams() -> None:
    """Standard streams that take every character, and that no end of their reader breaks. Those of a program
    that calls us stay."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed, as in `limen version >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__") and not stream.isatty():
            pipe = _Pipe(stream.fileno(), "w", closefd=False)
            errors = (
                "replace" if name == "stdout" else stream.errors
            )  # in ASCII or Latin-1 an infinity sign becomes a question mark
            setattr(
                sys,
                name,
                io.TextIOWrapper(
                    pipe if stream.write_through else io.BufferedWriter(pipe),
                    stream.encoding,
                    errors,
                    line_buffering=stream.line_buffering,
                    write_through=stream.write_through,
                ),
            )
        elif stream is getattr(sys, f"__{name}__"):
            stream.reconfigure(errors="replace")


def _check_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise UserError("The folder you stand in was deleted: cd to another one.") from None
