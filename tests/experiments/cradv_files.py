"""What the tests of CrAdv's files share: its layouts in miniature, the parts of a task file, a progress that
remembers."""

import json
import struct
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from limen.experiments.cradv import plan, schema
from limen.models.base.load import load_model
from limen.models.base.model import inner

HERE = Path(__file__).parent / "cradv"


class Heard:
    """A progress that remembers what was said."""

    def __init__(self):
        self.said, self.cells = [], []

    def begin(self, total):
        self.total = total

    def cell(self, number, count, words):
        self.cells.append(words)

    def advance(self, units): ...

    def say(self, text):
        self.said.append(text)


def idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        bytes([0, 0, 8, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.astype(np.uint8).tobytes()
    )


@torch.no_grad()
def labels(name, x):
    return (
        load_model({"name": name, "weights": "random"})(torch.from_numpy(x).float() / 255).argmax(1).numpy()
    )


def weights(net_id, seed):
    Path("data/weights").mkdir(parents=True, exist_ok=True)
    model = load_model({"name": "resnet14_mnist", "weights": "random", "init_seed": seed})
    torch.save(inner(model).state_dict(), f"data/weights/{net_id}.pth")


def read(path):
    return json.loads(path.read_text())


def net(**params):
    return {
        "model_name": "resnet14_mnist",
        "datasource_name": "mnist",
        "net_id": "digits",
        "datasource_params": {"path": "/srv/pictures/digits", **params},
    }


def task(name, attacks=(), defenses=(), params=None, **data):
    return {
        "tasks": [
            {
                "task_data": {"task_name": name, "task_params": params or {}, **data},
                "nets": [net()],
                "attacks": list(attacks),
                "defenses": list(defenses),
            }
        ]
    }


def sign_of_gradient(view, x, y):
    x = x.clone().requires_grad_()
    F.cross_entropy(view(x), y, reduction="sum").backward()
    return x.grad.sign()


def attack(name, **params):
    return plan.Attack({}, name, schema.ATTACKS[name](**params), None)


def clamped(space, x):
    return torch.minimum(torch.maximum(x, space.bounds[0]), space.bounds[1])


def failing_attack():
    """An attack that passes every check and fails in its cell: its picture cannot be read."""
    Path("broken.png").write_text("this is no picture")
    return {"attack_name": "adversarial_sticker", "attack_params": {"adv_sticker_path": "broken.png"}}
