"""What is stored lies inside the budget, counted exactly in the steps of the file; nothing else is changed,
and little strength is lost."""

import numpy as np
import pytest
import torch
from awkward import ClipNet, Counted, pictures

import limen
from limen.attacks.engine.run import Attack
from limen.attacks.engine.storage import LEVELS, quantise, stored
from limen.audio.files import read_clip, write_clip
from limen.budgets.families.balls import L0Ball, L2Ball, LinfBall
from limen.budgets.families.budget import BudgetContext
from limen.core.components import load
from limen.core.types import Batch, Sample, collate

SIZES = {
    "snr": [{"snr_db": 35.0}, {"snr_db": 20.0}, {"snr_db": 90.0}],
    "peak_db": [{"peak_db": -32.0}, {"peak_db": -60.0}],
    "linf": [{"eps": 8 / 255}, {"eps": 0.001}, {"eps": 3 / 32768}, {"eps": 0.0001}],
    "l2": [{"eps": 0.05}, {"eps": 0.5}, {"eps": 0.001}],
    "l1": [{"eps": 40 / 255}, {"eps": 2.0}, {"eps": 0.01}],
    "l0": [{"count": 7}],
}
"""For each norm, sizes that are many steps of a file, an integer number of them, and less than one."""
CASES = [(name, size) for name, sizes in SIZES.items() for size in sizes]


def samples(store: str, on_grid: bool) -> Batch:
    """Clips of different lengths, or pictures, that fill most of the range."""
    draw = torch.Generator().manual_seed(0)
    if store == "int16":
        clips = [0.3 * torch.randn(n, generator=draw).clamp(-3, 3) for n in (900, 400, 1300, 57)]
        batch = collate("clip", [Sample(str(i), x, 0) for i, x in enumerate(clips)])
    else:
        batch = Batch(
            "picture", list("abcd"), torch.rand(4, 3, 8, 8, generator=draw), torch.zeros(4, dtype=torch.long)
        )
    return Batch(
        batch.kind, batch.ids, quantise(batch.x, store) if on_grid else batch.x, batch.y, batch.lengths
    )


def allowed(name: str, size: dict[str, float], x: np.ndarray) -> float:
    """The radius, from the definition of the budget."""
    if name == "snr":
        return float(np.linalg.norm(x.ravel())) / 10 ** (size["snr_db"] / 20)
    return (
        float(np.abs(x).max()) * 10 ** (size["peak_db"] / 20)
        if name == "peak_db"
        else next(iter(size.values()))
    )


def measured(name: str, change: np.ndarray) -> float:
    order = {"snr": 2, "l2": 2, "peak_db": np.inf, "linf": np.inf, "l1": 1, "l0": 0}[name]
    return float(np.linalg.norm(change.ravel(), order))


def file_values(x: torch.Tensor, store: str) -> np.ndarray:
    """What a file says: whole steps over the number of steps."""
    return np.rint(x.double().numpy() * LEVELS[store]) / LEVELS[store]


@pytest.mark.parametrize("on_grid", [True, False], ids=["on the grid", "beside the grid"])
@pytest.mark.parametrize("store", ["int16", "uint8"])
@pytest.mark.parametrize(("name", "size"), CASES)
def test_the_stored_sample_is_inside_the_budget_to_the_last_digit(name, size, store, on_grid):
    batch = samples(store, on_grid)
    torch.manual_seed(0)
    model = ClipNet() if store == "int16" else pictures()[0]
    for search in ("random_noise", "pgd"):
        found = Attack.parse({"name": search, "budget": {"name": name, **size}})(model, batch, store=store)
        assert torch.equal(found.x_adv, quantise(found.x_adv, store))
        for clean, adversarial in zip(batch.x, found.x_adv, strict=True):
            file, own = file_values(clean, store), clean.double().numpy()
            given = file if on_grid or measured(name, file - own) > allowed(name, size, own) else own
            assert measured(name, file_values(adversarial, store) - given) <= allowed(name, size, given) * (
                1 + 1e-12
            )
        for i, n in enumerate(batch.lengths.tolist() if batch.lengths is not None else []):
            assert (found.x_adv[i, n:] == 0).all()


@pytest.mark.parametrize("store", ["int16", "uint8"])
@pytest.mark.parametrize(("name", "size"), CASES)
def test_a_sample_is_stored_alone_as_beside_others(name, size, store):
    batch, component = samples(store, True), load("budgets", name)
    draw = torch.Generator().manual_seed(1)
    options = component.parse(size)
    ball = component.function(BudgetContext(batch.x.double(), batch.kind, batch.lengths), options)
    noise = torch.randn(batch.x.shape, generator=draw, dtype=torch.float64) * (batch.x != 0)
    x_adv = (batch.x.double() + ball.fill(noise)).clamp(*(-1, 1) if store == "int16" else (0, 1))
    together = stored(
        x_adv,
        batch.x,
        store,
        lambda x: component.function(BudgetContext(x, batch.kind, batch.lengths), options),
    )
    for i in range(len(batch)):
        n = batch.x.shape[-1] if batch.lengths is None else int(batch.lengths[i])
        alone = stored(
            x_adv[i : i + 1, ..., :n],
            batch.x[i : i + 1, ..., :n],
            store,
            lambda x: component.function(BudgetContext(x, batch.kind), options),
        )
        assert torch.equal(alone[0], together[i, ..., :n])


def test_the_nearest_point_is_kept_where_it_is_inside_and_few_values_are_taken_back_where_it_is_not():
    x = torch.zeros(3, 1000)
    way = (
        torch.stack(
            [torch.full((1000,), 2.4), torch.full((1000,), 2.75), torch.linspace(2.501, 2.6, 1000)]
        ).double()
        / 32768
    )
    inside = stored(x + way, x, "int16", lambda _: L2Ball(way.norm(dim=1))) * 32768
    assert (inside[0] == 2).all()  # the nearest point is nearer to the clean sample
    for row, exactly in ((1, 2.75), (2, float((way[2] * 32768).square().mean().sqrt()))):
        short = int((inside[row] == 2).sum())
        assert set(inside[row].tolist()) == {2.0, 3.0}
        # 4 s + 9 (1000 - s) <= 1000 * exactly ** 2, and no s smaller
        assert short == int(np.ceil((9 - exactly**2) * 200 - 1e-6))
    assert (
        inside[2][: int((inside[2] == 2).sum())] == 2
    ).all()  # those first whose nearest point lies furthest out


def test_under_linf_only_the_values_outside_are_taken_back():
    x, eps = torch.zeros(1, 4), 2.6 / 32768
    way = torch.tensor([[2.6, -2.6, 1.6, 0.4]]) / 32768
    assert (stored(way, x, "int16", lambda _: LinfBall(torch.tensor([eps]).double())) * 32768).tolist() == [
        [2.0, -2.0, 2.0, 0.0]
    ]


def test_eight_255ths_hold_eight_steps_of_a_picture():
    x = torch.arange(0, 240).float().view(1, 1, 1, 240) / 255
    for k in range(1, 16):
        ball = load("budgets", "linf")
        x_adv = x + k / 255
        options = ball.parse({"eps": k / 255})
        found = stored(x_adv, x, "uint8", lambda x: ball.function(BudgetContext(x, "picture"), options))  # noqa: B023
        assert torch.equal((found * 255).round() - (x * 255).round(), torch.full_like(x, k))


def test_what_is_not_changed_is_stored_as_the_clean_file_holds_it():
    x = torch.rand(1, 500) * 0.7
    x_adv = x.clone()
    x_adv[0, 7] += 0.01
    for clean in (x, quantise(x, "int16")):
        for ball in (None, LinfBall(torch.tensor([0.005]).double()), L0Ball(torch.tensor([1.0]).double())):
            found = stored(torch.where(x_adv == x, clean, x_adv), clean, "int16", lambda _: ball)  # noqa: B023
            assert (found != quantise(clean, "int16")).nonzero().tolist() == [[0, 7]]


def test_where_no_file_can_be_inside_the_budget_the_sample_is_stored_as_it_is():
    x = torch.full((1, 100), 0.4 / 32768)
    found = stored(x + 0.2 / 32768, x, "int16", lambda _: LinfBall(torch.tensor([0.3 / 32768]).double()))
    assert (found == 0).all()


def test_an_attack_without_a_budget_is_rounded_to_the_nearest_point():
    x = torch.zeros(1, 3)
    assert (
        stored(torch.tensor([[0.6, -0.6, 1.4]]) / 32768, x, "int16", lambda _: None) * 32768
    ).tolist() == [[1.0, -1.0, 1.0]]


def test_files_of_clips_keep_the_signal_to_noise_ratio_that_was_asked_for(tmp_path):
    torch.manual_seed(0)
    batch = samples("int16", True)
    found = limen.attack("random_noise", ClipNet(), batch, budget=limen.budgets.snr(snr_db=35), store="int16")
    for row, n in enumerate(batch.lengths.tolist()):
        for name, x in (("clean", batch.x), ("adversarial", found.x_adv)):
            write_clip(tmp_path / f"{name}.wav", x[row, :n], 16000)
        clean, adversarial = (
            read_clip(tmp_path / f"{name}.wav", 16000).double() for name in ("clean", "adversarial")
        )
        assert 10 * torch.log10(clean.square().sum() / (adversarial - clean).square().sum()) >= 35
    assert all(35 <= row["snr_db"] < 35.05 for row in limen.measure(batch, found, ["snr_db"]))


def test_success_is_judged_after_the_values_were_taken_back():
    layer = torch.nn.Linear(2, 2)
    layer.weight.data, layer.bias.data = (
        torch.tensor([[0.0, 0.0], [1.0, 0.0]]),
        torch.tensor([2.55 / 255, 0.0]),
    )
    model = Counted(torch.nn.Sequential(torch.nn.Flatten(), layer), "picture", ["a", "b"])
    batch = Batch("picture", ["one"], torch.zeros(1, 1, 1, 2), torch.zeros(1, dtype=torch.long))
    found = {
        eps: limen.attack("pgd", model, batch, budget={"name": "linf", "eps": eps / 255}, store="uint8")
        for eps in (2.8, 3.2)
    }
    assert not found[2.8].success.any()  # three steps would fool it, but are outside
    assert found[3.2].success.all()
