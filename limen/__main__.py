"""Entry point of `limen` and `python -m limen`. Ctrl-C gives one message even during imports."""

from limen.cli.process import STOPPED, end
from limen.core.interrupts import single_interrupt


@single_interrupt()
def main() -> None:
    try:
        from limen.cli.app import main as command

        command()
    except KeyboardInterrupt:
        end("stopped.", STOPPED)


if __name__ == "__main__":
    main()
