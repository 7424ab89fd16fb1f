"""The command `limen`, also as `python -m limen`: a Ctrl-C is one message from the beginning, while the rest
is still being imported."""

from limen.cli.process import STOPPED, end
from limen.core.interrupts import one_interrupt


@one_interrupt()
def main() -> None:
    try:
        from limen.cli.app import main as command

        command()
    except KeyboardInterrupt:
        end("stopped.", STOPPED)


if __name__ == "__main__":
    main()
