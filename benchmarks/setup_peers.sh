#!/bin/sh
# Creates .venv-peers: the libraries that Limen is compared with, and the torch that Limen uses. Safe to run again.
# Some of them require old versions of torch, so they are installed without dependencies, which are listed here instead.
set -e
cd "$(dirname "$0")/.."
[ -f .venv-peers/.ready-6 ] && exit 0
echo "== creating .venv-peers: foolbox, torchattacks, adversarial-robustness-toolbox, pyautoattack, cleverhans, secml-torch (about two minutes)"
"${PYTHON:-python3}" -m venv .venv-peers
.venv-peers/bin/python -m pip install --quiet --constraint constraints.txt torch==2.13.0 numpy scipy pydantic scikit-learn \
  requests GitPython eagerpy typing-extensions packaging tqdm six setuptools absl-py easydict joblib matplotlib
.venv-peers/bin/python -m pip install --quiet --no-deps --constraint constraints.txt foolbox==3.3.4 torchattacks==3.5.1 \
  adversarial-robustness-toolbox==1.20.1 pyautoattack==0.2.0 cleverhans==4.0.0 secml-torch==1.5
touch .venv-peers/.ready-6
