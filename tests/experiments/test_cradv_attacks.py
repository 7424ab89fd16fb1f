"""CrAdv's attacks, against its algorithms written out in normalised space with ImageNet's mean and std per
channel."""

import pytest
import torch
from cradv_files import attack, clamped, sign_of_gradient

from limen.core.types import Batch
from limen.experiments.cradv import attacks, schema


def test_a_step_of_eps_is_eps_times_std_in_each_channel_of_imagenet(small):
    view, space, batch = small
    x_adv = attacks.adversarial(attack("fgsm", eps=0.05), view, space, batch, 0)
    expected = clamped(space, batch.x + 0.05 * sign_of_gradient(view, batch.x, batch.y))
    assert torch.allclose(x_adv, expected, atol=1e-6)
    moved = (space.pixels(x_adv) - space.pixels(batch.x)).abs().amax((0, 2, 3))
    assert moved.tolist() == pytest.approx([0.05 * s for s in (0.229, 0.224, 0.225)], rel=1e-4)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"eps": 0.3, "alpha": 0.2},
        {"eps": 0.05, "min_alpha": 0.04},
        {"eps": 0.2, "least_likely": True, "iterations": 4},
        {"max_2_norm": 0.3},
        {"dissimilarity": 0.02},
    ],
)
def test_i_fgsm_is_crAdvs_loop(small, params):
    view, space, batch = small
    full = schema.IFgsm(**params)
    alpha = max(full.alpha or 1.25 * full.eps / full.iterations, full.min_alpha or 0)
    with torch.no_grad():
        towards = view(batch.x).argmin(1) if full.least_likely else batch.y
    x, pixels = batch.x, space.pixels(batch.x)
    for _ in range(full.iterations):
        delta = x + (-1 if full.least_likely else 1) * alpha * sign_of_gradient(view, x, towards) - batch.x
        if full.max_2_norm or full.dissimilarity:
            limit = full.max_2_norm or full.dissimilarity * pixels.flatten(1).norm(dim=1)
            delta = delta * (limit / (delta * space.std).flatten(1).norm(dim=1)).clamp(max=1).view(
                -1, 1, 1, 1
            )
        else:
            delta = delta.clamp(-full.eps, full.eps)
        x = clamped(space, batch.x + delta)
    assert torch.allclose(
        attacks.adversarial(attack("i_fgsm", **params), view, space, batch, 0), x, atol=1e-5
    )


def test_fgsm_without_eps_takes_the_smallest_of_its_grid(small):
    view, space, batch = small
    params = {"try_eps_min": 0.02, "try_eps_max": 0.5, "try_eps_step": 0.02}
    x_adv = attacks.adversarial(attack("fgsm", **params), view, space, batch, 0)
    sign = sign_of_gradient(view, batch.x, batch.y)
    for i in range(len(batch)):
        tries = [
            clamped(space, batch.x[i : i + 1] + round(0.02 * k, 2) * sign[i : i + 1]) for k in range(1, 26)
        ]
        with torch.no_grad():
            fooling = [t for t in tries if int(view(t).argmax(1)) != int(batch.y[i])]
        assert torch.allclose(x_adv[i], (fooling or tries[-1:])[0][0], atol=1e-5)


def test_random_noise_is_eps_times_uniform_or_of_an_exact_norm(small):
    view, space, batch = small
    inside = Batch("picture", batch.ids, space.normalise(torch.full_like(batch.x, 0.5)), batch.y)
    noise = attacks.adversarial(attack("random_noise", eps=0.2), view, space, inside, 0) - inside.x
    assert noise.abs().max() <= 0.2
    assert noise.flatten().std().item() == pytest.approx(0.2 / 3**0.5, rel=0.1)
    exact = attacks.adversarial(attack("random_noise", max_2_norm=0.7), view, space, inside, 0) - inside.x
    assert (exact * space.std).flatten(1).norm(dim=1).tolist() == pytest.approx([0.7] * 6, rel=1e-5)


@pytest.mark.parametrize("params", [{"max_2_norm": 0.05}, {"dissimilarity": 0.01}])
def test_deepfool_and_mi_fgsm_keep_their_norm(small, params):
    view, space, batch = small
    limit = params.get("max_2_norm") or params["dissimilarity"] * space.pixels(batch.x).flatten(1).norm(dim=1)
    for name in ("deepfool", "mi_fgsm"):
        if name == "mi_fgsm" and "dissimilarity" in params:
            continue  # CrAdv's mi_fgsm has no such parameter
        x_adv = attacks.adversarial(attack(name, **params), view, space, batch, 0)
        assert ((space.pixels(x_adv) - space.pixels(batch.x)).flatten(1).norm(dim=1) <= limit + 1e-6).all()


@pytest.mark.parametrize("name", ["deepfool", "carlini_wagner"])
def test_minimal_attacks_fool_with_little(small, name):
    view, space, batch = small
    params = {"max_iterations": 60, "bin_search_steps": 5} if name == "carlini_wagner" else {}
    x_adv = attacks.adversarial(attack(name, **params), view, space, batch, 0)
    with torch.no_grad():
        assert (view(x_adv).argmax(1) != batch.y).all()
    least = attacks.adversarial(attack("fgsm"), view, space, batch, 0)
    assert (x_adv - batch.x).flatten(1).norm(dim=1).mean() < (least - batch.x).flatten(1).norm(dim=1).mean()


def test_carlini_wagners_targets_are_what_is_reached(small):
    view, space, batch = small
    with torch.no_grad():
        targets = view(batch.x).argmin(1)
        found = attacks.adversarial(
            attack("carlini_wagner", max_iterations=60, bin_search_steps=6, target_class="least_likely"),
            view,
            space,
            batch,
            0,
        )
        assert (view(found).argmax(1) == targets).all()
