"""Restarts a script in .venv-peers, the separate environment of the peers."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent


def in_peers_environment() -> None:
    """Restart the script in the environment of the peers, which is created if necessary; return if it runs in it."""
    if find_spec("foolbox") is not None:
        return
    subprocess.run(
        ["sh", str(HERE / "setup_peers.sh")], check=True, env={"PYTHON": sys.executable, **os.environ}
    )
    command = [str(HERE.parent / ".venv-peers" / "bin" / "python"), *sys.argv]
    os.execve(command[0], command, {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)})
