"""`cradv_exact`: CrAdv's own searches and counting, against its algorithms written out a picture at a
time."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from cradv_files import attack, clamped, read, sign_of_gradient, task, weights

from limen.experiments.cradv import as_published, attacks, costs
from limen.experiments.cradv.schema import ConstrainedAccuracy
from limen.experiments.cradv.tasks import rescaled


@pytest.fixture
def wrong(small):
    """The batch of which every other label is false."""
    view, space, batch = small
    y = batch.y.clone()
    y[::2] = (y[::2] + 1) % 3
    return view, space, replace(batch, y=y), batch.y


def test_fgsm_without_eps_moves_what_is_wrong_already_out_of_the_wrong_class(wrong):
    view, space, batch, said = wrong
    params = {"try_eps_min": 0.02, "try_eps_max": 0.05, "try_eps_step": 0.02}
    x_adv = attacks.adversarial(attack("fgsm", **params), view, space, batch, 0, exact=True)
    sign = sign_of_gradient(view, batch.x, said)
    beyond = 0
    for i in range(len(batch)):
        eps, found = 0.02, None
        while eps <= 0.05 and found is None:
            tried = clamped(space, batch.x[i : i + 1] + eps * sign[i : i + 1])
            with torch.no_grad():
                found = tried if int(view(tried).argmax(1)) != int(batch.y[i]) else None
            eps += 0.02
        expected = batch.x[i : i + 1] + eps * sign[i : i + 1] if found is None else found
        beyond += found is None
        assert torch.allclose(x_adv[i], expected[0], atol=1e-6)
    assert (x_adv[::2] != batch.x[::2]).flatten(1).any(1).all()
    assert 0 < beyond < len(batch)
    kept = attacks.adversarial(attack("fgsm", **params), view, space, batch, 0)
    assert torch.equal(kept[::2], batch.x[::2])


def test_mi_fgsm_weighs_all_signs_alike_and_reads_no_max_2_norm(small):
    view, space, batch = small
    change, velocity = torch.zeros_like(batch.x), torch.zeros_like(batch.x)
    for _ in range(10):
        sign = sign_of_gradient(view, clamped(space, batch.x + change), batch.y)
        velocity = velocity + sign / sign.flatten(1).norm(1, 1)[:, None, None, None]
        change = change + 0.1 / 10 * velocity.sign()
    expected = clamped(space, batch.x + change)
    for params in ({}, {"max_2_norm": 0.001}):
        assert torch.allclose(
            attacks.adversarial(attack("mi_fgsm", **params), view, space, batch, 0, exact=True),
            expected,
            atol=1e-6,
        )


@pytest.mark.parametrize(
    "params", [{}, {"max_2_norm": 0.05}, {"dissimilarity": 0.01, "max_iter": 3}, {"k_classes": 2}]
)
def test_deepfool_is_crAdvs_loop(wrong, params):
    view, space, batch, _ = wrong
    options = attack("deepfool", **params).params
    x_adv = attacks.adversarial(
        attack("deepfool", **({"k_classes": 3} | params)), view, space, batch, 0, exact=True
    )
    k_classes = params.get("k_classes", 3)
    for i in range(len(batch)):
        x, y = batch.x[i : i + 1], int(batch.y[i])
        found, total = x, torch.zeros_like(x)
        top = view(x)[0].topk(k_classes).indices.tolist()
        for number in range(options.max_iter if y in top else 0):
            leaf = found.clone().requires_grad_()
            logits = view(leaf)[0]
            if number and int(logits.argmax()) != y:
                break
            best = None
            for k in (c for c in top if c != y):
                (w,) = torch.autograd.grad(logits[k] - logits[y], leaf, retain_graph=True)
                distance = float((logits[k] - logits[y]).detach().abs() / w.norm())
                best = min(best or (distance, w), (distance, w), key=lambda one: one[0])
            total = total + (best[0] + 1e-4) * best[1] / best[1].norm()
            limit = options.max_2_norm or (
                options.dissimilarity and options.dissimilarity * float(space.pixels(x).norm())
            )
            scaled = (
                total * min(1.0, limit / float((total * space.std).norm()))
                if limit
                else (1 + options.eps) * total
            )
            found = clamped(space, x + scaled)
            total = found - x
        assert torch.allclose(x_adv[i], found[0], atol=1e-5)


def test_accuracy_counts_whole_batches_and_mixes_up_the_pictures_it_measures(at):
    weights("digits", 3)  # not the net that made the labels: many clean answers are wrong
    content = task(
        "accuracy", [{"attack_name": "fgsm", "attack_params": {"eps": 0.3}}], params={"limit_samples": 11}
    )
    root, _ = at(content, out=Path("ours"))
    ours = read(root / "digits/accuracy_fgsm/result_1.json")["result"]
    root, _ = at({**content, "config": {"cradv_exact": True}}, out=Path("theirs"))
    theirs = read(root / "digits/accuracy_fgsm/result_1.json")["result"]
    assert (ours["total"], theirs["total"]) == (11, 16)
    assert list(ours) == list(theirs)
    flagged, _ = at(content, out=Path("flag"), exact=True)
    assert read(flagged / "digits/accuracy_fgsm/result_1.json")["result"] == theirs


def test_what_is_counted_as_right_before_and_which_pictures_are_measured():
    clean = torch.tensor([False, True, False, True, True, False])
    after = torch.tensor([True, False, False, True, False, False])
    positions, before = as_published.miscounted(clean, after)
    # wrong after: 1, 2, 4, 5; of these 1 and 4 were right before, at positions 0 and 2 of the wrong ones
    assert positions.tolist() == [0, 2]
    # six less the two wrong ones that were wrong before: picture 0, which the attack put right, is counted as
    # right before
    assert before == 4
    assert as_published.miscounted(clean, torch.ones(6, dtype=torch.bool))[1] == 0


def test_constrained_accuracy_goes_out_of_range_and_its_keys_gather_errors(at):
    params = {"limit_samples": 5, "contraint_step": 0.1, "constraint_max": 0.35}
    content = task(
        "constrained_accuracy", [{"attack_name": "fgsm", "attack_params": {"eps": 0.3}}], params=params
    )
    result = {}
    for exact in (False, True):
        root, _ = at(content, out=Path(f"exact{exact}"), exact=exact)
        result[exact] = read(root / "digits/constrained_accuracy_fgsm/result_1.json")["result"]
    assert (result[False]["total"], result[True]["total"]) == (5, 8)
    keys = dict(as_published.constraint_values(ConstrainedAccuracy(**params)))
    assert list(result[True]["accuracy_by_norm"]) == list(keys) == ["0", "0.1", "0.2", "0.30000000000000004"]
    assert list(result[False]["accuracy_by_norm"]) == ["0", "0.1", "0.2", "0.3"]
    for key, value in keys.items():  # nothing is cut off
        assert result[True]["accuracy_by_norm"][key]["adv_dissimilarity"] == pytest.approx(value, rel=1e-5)
    assert result[False]["accuracy_by_norm"]["0.3"]["adv_dissimilarity"] < 0.299


def test_a_run_tells_that_fgsm_without_eps_differs_and_how_to_get_crAdvs_numbers(at):
    grid = {"attack_name": "fgsm", "attack_params": {"try_eps_step": 0.1}}
    for content, told in (
        (task("accuracy", [grid]), True),
        (task("accuracy", [{"attack_name": "fgsm", "attack_params": {"eps": 0.1}}]), False),
    ):
        assert ("--cradv-exact" in "\n".join(at(content, limit=2)[1].said)) == told
        assert "--cradv-exact" not in "\n".join(at(content, limit=2, exact=True)[1].said)


def test_cross_entropy_of_the_prediction_has_the_sign_that_crAdv_takes(small):
    view, space, batch = small
    x_adv = attacks.adversarial(attack("fgsm", eps=0.05), view, space, batch, 0, exact=True)
    leaf = batch.x.clone().requires_grad_()
    F.cross_entropy(view(leaf), view(leaf).argmax(1), reduction="sum").backward()
    assert torch.allclose(x_adv, clamped(space, batch.x + 0.05 * leaf.grad.sign()), atol=1e-6)


def test_pictures_that_crAdv_moves_out_of_a_wrong_class_can_become_right(small):
    view, space, batch = small
    with torch.no_grad():
        second = view(batch.x).topk(2, dim=1).indices[:, 1]
    batch = replace(batch, y=second)  # every clean answer is wrong, and the truth is the next
    clean, right = space.pixels(batch.x), {}
    for exact in (False, True):
        x_adv = attacks.adversarial(attack("fgsm", try_eps_max=0.05), view, space, batch, 0, exact=exact)
        norms = 0.3 * clean.flatten(1).norm(dim=1)
        with torch.no_grad():
            said = view(space.normalise(rescaled(clean, space.pixels(x_adv), norms, cut=not exact))).argmax(1)
        right[exact] = said == batch.y
    assert not right[False].any()
    assert right[True].any()


def test_deepfool_asks_for_no_more_classes_than_there_are_and_costs_no_more(small):
    view, space, batch = small
    some, all_three = (
        attacks.adversarial(attack("deepfool", k_classes=k), view, space, batch, 0, exact=True)
        for k in (50, 3)
    )
    assert torch.equal(some, all_three)
    some, all_three = (costs._search(attack("deepfool", k_classes=k), 3) for k in (50, 3))
    assert some == all_three
