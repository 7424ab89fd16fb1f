"""Process handling of the command line: robust output streams, one error message and exit codes."""

import atexit
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from limen.core.errors import UserError, os_error_message

STOPPED = 130
"""Exit code after Ctrl-C, as in shells."""
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc")
"""Texts of torch's RuntimeErrors when memory runs out."""


def run_command(app: Callable[..., Any]) -> None:
    """Run the command; user errors and errors of the operating system become one message."""
    _open_streams()
    try:
        _check_folder()
        app(standalone_mode=True)
    except (UserError, OSError, MemoryError, RuntimeError) as error:
        if (sentence := _sentence(error)) is None:
            raise
        end(sentence, 2)
    except SystemExit as ending:  # typer turns Ctrl-C into this
        if ending.code == STOPPED:
            end("stopped.", STOPPED)
        raise


def end(text: str, code: int) -> NoReturn:
    """Print one message on standard error and exit."""
    from rich.console import Console

    Console(stderr=True).print(
        f"limen: {text}", style="red" if code == 2 else None, highlight=False, soft_wrap=True, markup=False
    )
    if code == STOPPED:
        # exit at once: the interpreter would wait for running threads and might end by the signal itself
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


@contextmanager
def resume_hint(where: Path | None) -> Iterator[None]:
    """Add the command that resumes the run to the message of an interrupted or failed run. Without a folder,
    --resume finds the newest one."""
    words = sys.argv[1:]
    words += (
        [] if where is None or any(word.split("=")[0] == "--out" for word in words) else ["--out", str(where)]
    )
    words += [] if "--resume" in words else ["--resume"]
    later = f"Finished cells are kept. Resume with:\n  {shlex.join(['limen', *words])}"
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
    """The message for an error that the user can fix; None for a bug."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError):
        return os_error_message(error)
    if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
        return "Out of memory. Use fewer or smaller samples (--limit, batch_size) or a smaller model."
    return None


class _Pipe(io.FileIO):
    """Standard stream whose reader may close early (`| head`): later output is dropped and the command
    continues."""

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            return len(content)


def _open_streams() -> None:
    """Make the standard streams accept every character and survive a closed reader. Streams that a calling
    program replaced are kept."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed, as in `limen version >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__") and not stream.isatty():
            pipe = _Pipe(stream.fileno(), "w", closefd=False)
            # in ASCII or Latin-1 an infinity sign becomes a question mark
            errors = "replace" if name == "stdout" else stream.errors
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
        raise UserError("The working folder was deleted: cd to another one.") from None
