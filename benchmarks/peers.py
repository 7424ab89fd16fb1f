"""The call of an attack in each library, as functions from network, pictures, labels and seed to
adversarial pictures.

All have the same settings: untargeted, the same radius, the same number of steps of the same length, one
restart. If a library does not have a setting, its own default is used.
"""

import contextlib
import inspect
import io
from collections.abc import Callable
from typing import Any

import foolbox
import numpy as np
import torch
import torchattacks
from art.attacks import evasion as art
from art.estimators.classification import PyTorchClassifier
from cleverhans.torch.attacks import carlini_wagner_l2, fast_gradient_method, projected_gradient_descent
from pyautoattack import AutoAttack
from secmlt.adv.evasion.ddn import DDN
from secmlt.adv.evasion.fmn import FMN
from secmlt.adv.evasion.pgd import PGD
from secmlt.models.pytorch.base_pytorch_nn import BasePyTorchClassifier
from timing import Run
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from limen.attacks.engine.run import Attack
from limen.core.types import Batch
from limen.models.base.model import Classifier

REPORTING = {"limen", "foolbox", "pyautoattack: AutoAttack"}
"""Libraries that report which pictures are fooled."""
INF = float("inf")
NAMES = {INF: "Linf", 2: "L2", 1: "L1", 0: "L0"}


def limen(**spec: Any) -> Run:
    attack = Attack.parse(spec)

    def run(network: nn.Module, x: Tensor, y: Tensor, seed: int) -> Tensor:
        model = Classifier(network, "picture", [str(i) for i in range(10)])
        return attack(model, Batch("picture", [str(i) for i in range(len(x))], x, y), seed=seed).x_adv

    return run


def foolboxes(name: str, eps: float | None = None, **options: Any) -> Run:
    attack = getattr(foolbox.attacks, name)(**options)
    return lambda network, x, y, seed: attack(
        foolbox.PyTorchModel(network, (0, 1), device="cpu"), x, y, epsilons=eps
    )[1]


def torchattackses(name: str, **options: Any) -> Run:
    make = getattr(torchattacks, name)
    seeded = "seed" in inspect.signature(make).parameters  # the others draw from torch's global stream
    return lambda network, x, y, seed: make(network, **options, **({"seed": seed} if seeded else {}))(x, y)


def arts(name: str, **options: Any) -> Run:
    def run(network: nn.Module, x: Tensor, y: Tensor, seed: int) -> Tensor:
        classifier = PyTorchClassifier(
            network, nn.CrossEntropyLoss(), tuple(x.shape[1:]), 10, clip_values=(0.0, 1.0), device_type="cpu"
        )
        with contextlib.redirect_stderr(io.StringIO()):
            found = getattr(art, name)(classifier, batch_size=len(x), verbose=False, **options).generate(
                x.numpy(), y.numpy()
            )
        return torch.from_numpy(np.asarray(found))

    return run


def art_pgd(norm: float, eps: float, step: float) -> Run:
    return arts(
        "ProjectedGradientDescentPyTorch", norm=norm, eps=eps, eps_step=step, max_iter=40, num_random_init=1
    )


def art_fgsm(eps: float) -> Run:
    def run(network: nn.Module, x: Tensor, y: Tensor, seed: int) -> Tensor:
        classifier = PyTorchClassifier(
            network, nn.CrossEntropyLoss(), tuple(x.shape[1:]), 10, clip_values=(0.0, 1.0), device_type="cpu"
        )
        return torch.from_numpy(
            art.FastGradientMethod(classifier, eps=eps, batch_size=len(x)).generate(x.numpy(), y.numpy())
        )

    return run


def cleverhanses(eps: float, step: float, steps: int, norm: float) -> Run:
    function = projected_gradient_descent.projected_gradient_descent
    return lambda network, x, y, seed: function(
        network, x, eps, step, steps, norm, 0.0, 1.0, y=y, sanity_checks=False
    )


def cleverhans_fgsm(eps: float) -> Run:
    return lambda network, x, y, seed: fast_gradient_method.fast_gradient_method(
        network, x, eps, INF, 0.0, 1.0, y=y
    )


def cleverhans_cw(steps: int) -> Run:
    return lambda network, x, y, seed: carlini_wagner_l2.carlini_wagner_l2(
        network,
        x,
        10,
        lr=0.01,
        clip_min=0,
        clip_max=1,
        initial_const=1e-2,
        binary_search_steps=9,
        max_iterations=steps,
    )


def secmls(make: Callable[[], Any]) -> Run:
    def run(network: nn.Module, x: Tensor, y: Tensor, seed: int) -> Tensor:
        loader = DataLoader(TensorDataset(x, y), batch_size=len(x))
        found = make()(BasePyTorchClassifier(network), loader)
        return torch.cat([batch for batch, _ in found]).detach()

    return run


def secml_pgd(eps: float, step: float, steps: int, norm: str) -> Run:
    return secmls(lambda: PGD(norm, eps, steps, step, random_start=True, backend="native"))


def secml_ddn(steps: int) -> Run:
    return secmls(lambda: DDN(num_steps=steps, eps_init=1.0, gamma=0.05))


def secml_fmn(norm: str, steps: int) -> Run:
    return secmls(lambda: FMN(norm, num_steps=steps, step_size=1.0))


def pyautoattacks(eps: float, norm: float, part: str | None = None, queries: int = 5000) -> Run:
    """AutoAttack, or one of its parts: apgd-ce, apgd-dlr, square, fab-t."""

    def run(network: nn.Module, x: Tensor, y: Tensor, seed: int) -> Tensor:
        attack = AutoAttack(network, eps=eps, norm=NAMES[norm], seed=seed)
        if part is None:
            found = attack.run_standard_evaluation(x, y, batch_size=len(x))
            return found[0] if isinstance(found, tuple) else found
        if part in ("apgd-ce", "apgd-dlr"):
            attack.apgd.loss, attack.apgd.n_restarts, attack.apgd.seed = part.removeprefix("apgd-"), 1, seed
            return attack.apgd.perturb(x, y)
        if part == "square":
            attack.square.n_queries, attack.square.seed = queries, seed
            return attack.square.perturb(x, y)
        attack.fab.targeted, attack.fab.n_restarts, attack.fab.seed, attack.fab.n_target_classes = (
            True,
            1,
            seed,
            9,
        )
        return attack.fab.perturb(x, y)

    return run
