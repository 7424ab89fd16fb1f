"""Mistakes a user can make. The command line prints the message alone and ends with exit code 2."""


class UserError(Exception):
    """What came, what was expected, and the way out, in one message."""


def missing_package(who: str, package: str, extra: str) -> UserError:
    return UserError(f"{who} needs the package {package}, which is not installed. Install it: pip install 'limen[{extra}]'")
