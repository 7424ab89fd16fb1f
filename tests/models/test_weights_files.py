"""Weights are data: a file that would run code is refused, with advice that keeps users safe."""

import os
import pickle

import pytest
import torch

from limen.core.errors import UserError
from limen.models.base.load import load_model, read_state


class Bomb:
    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def write(kind, path, trace):
    if kind == "a checkpoint with code":
        torch.save({"weight": torch.zeros(2), "extra": Bomb(trace)}, path)
    elif kind == "a plain pickle with code":
        path.write_bytes(pickle.dumps({"weight": Bomb(trace)}, protocol=2))
    else:
        torch.save(torch.nn.Linear(2, 2), path)
    return path


@pytest.mark.parametrize("kind", ["a checkpoint with code", "a plain pickle with code", "a whole model"])
@pytest.mark.parametrize("model", ["cnn", "whisper"])
def test_a_pickle_that_names_code_is_refused_without_advice_to_load_it_unsafely(tmp_path, kind, model):
    path = write(kind, tmp_path / "weights.pt", tmp_path / "trace")
    with pytest.raises(UserError, match="is refused: it names ") as error:
        load_model({"name": model, "weights": str(path)})
    told = str(error.value)
    for advice in ("weights_only", "torch.load", "trust", "add_safe_globals", "arbitrary"):
        assert advice not in told, told
    assert "state_dict()" in told
    assert not (tmp_path / "trace").exists(), "the code in the file was run"


@pytest.mark.parametrize("name", ["damaged.pt", "damaged.pth", "damaged.safetensors"])
def test_a_damaged_file_is_named_in_one_sentence(tmp_path, name):
    (tmp_path / name).write_bytes(b"\xff\x00hello" * 50)
    with pytest.raises(UserError, match="cannot be read as") as error:
        read_state(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_truncated_checkpoint_is_named(tmp_path):
    torch.save({"weight": torch.zeros(1000)}, tmp_path / "whole.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "whole.pt").read_bytes()[:2000])
    with pytest.raises(UserError, match=r"cut\.pt cannot be read as weights: it is damaged"):
        read_state(tmp_path / "cut.pt")
