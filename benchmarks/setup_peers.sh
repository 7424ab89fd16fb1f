#!/bin/sh
# Makes .venv-peers: foolbox and torchattacks beside the torch that Limen uses. Safe to run again.
# torchattacks names old versions of torch among its needs, so the peers come without dependencies and theirs are named here.
set -e
cd "$(dirname "$0")/.."
[ -f .venv-peers/.ready ] && exit 0
echo "== making .venv-peers with foolbox 3.3.4 and torchattacks 3.5.1 (about a minute)"
"${PYTHON:-python3}" -m venv .venv-peers
.venv-peers/bin/python -m pip install --quiet --constraint constraints.txt torch==2.13.0 numpy scipy pydantic scikit-learn \
  requests GitPython eagerpy typing-extensions
.venv-peers/bin/python -m pip install --quiet --no-deps --constraint constraints.txt foolbox==3.3.4 torchattacks==3.5.1
touch .venv-peers/.ready
