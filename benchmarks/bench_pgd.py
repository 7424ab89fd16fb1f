"""Speed and strength of our attacks beside foolbox and torchattacks, all in one run: `make bench`.

The peers live in an environment of their own, .venv-peers, which the first run makes (setup_peers.sh). How it is measured stands in
README.md beside this file; the table goes to the terminal and to docs/benchmarks.md. Options: see compare.py.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    subprocess.run(["sh", str(HERE / "setup_peers.sh")], check=True, env={"PYTHON": sys.executable, **os.environ})
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)}
    python = HERE.parent / ".venv-peers" / "bin" / "python"
    return subprocess.run([str(python), str(HERE / "compare.py"), *sys.argv[1:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
