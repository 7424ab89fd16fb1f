"""The command `limen`, also as `python -m limen`: a Ctrl-C is one message from the beginning, while the rest is still being imported."""

from limen.interrupts import one_interrupt
from limen.process import STOPPED, end


@one_interrupt()
def main() -> None:
    try:
        from limen.cli import main as command

        command()
    except KeyboardInterrupt:
        end("stopped.", STOPPED)


if __name__ == "__main__":
    main()
