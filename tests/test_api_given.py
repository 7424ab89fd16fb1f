"""What Python calls are given: wrong kinds, numbers and forms end in a sentence with the way out, odd arrays
in the same numbers."""

import numpy as np
import pytest
import torch
from torch import nn

import limen
from limen.core.errors import UserError
from limen.core.types import Batch

torch.manual_seed(0)
NET = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(16, 3)).eval()
X = torch.linspace(0.1, 0.9, 4 * 64).view(4, 1, 8, 8)
Y = torch.tensor([0, 1, 2, 0])
CLIPS = torch.full((2, 100), 0.1)


class Loudness(nn.Module):
    def forward(self, x):
        return torch.stack([-x.mean(1), x.mean(1)], 1)


def attacked(samples=X, y=Y, name="fgsm", net=NET, **options):
    return limen.attack(name, net, samples, y, **{"budget": "linf:0.05", **options})


def over_the_air(result=None, through=("jitter",), model=NET, **options):
    return limen.over_the_air(
        model, (X, Y), attacked() if result is None else result, through, draws=1, **options
    )


MISTAKES = {
    "over_the_air of x_adv alone": (
        lambda: over_the_air(attacked().x_adv),
        "all that limen.attack returned, got Tensor",
    ),
    "over_the_air of nothing": (
        lambda: limen.over_the_air(NET, X, None, ["jitter"]),
        "returned, got NoneType",
    ),
    "over_the_air through None": (lambda: over_the_air(through=None), "over_the_air: through.0.*got None"),
    "over_the_air through a number": (lambda: over_the_air(through=3), "over_the_air: through.0.*got 3"),
    "over_the_air on a model of clips": (
        lambda: over_the_air(model="keyword_cnn"),
        "takes clips, but the data holds pictures",
    ),
    "a model that is None": (lambda: limen.load_model(None), "A model is one of Limen's.* got NoneType"),
    "a model that is a number": (lambda: limen.load_model(3), "A model is one of Limen's.* got int"),
    "a model that is a list": (lambda: limen.load_model(["cnn"]), "A model is one of Limen's.* got list"),
    "defending nothing": (lambda: limen.defend(None, "jpeg"), "A model is one of Limen's.* got NoneType"),
    "a metric that is a number": (lambda: limen.measure(X, X, 3), "A metric is written .* got 3"),
    "a rate in words": (
        lambda: limen.measure(CLIPS, CLIPS, rate_hz="16k"),
        "rate_hz must be a whole number of at least 1, got '16k'",
    ),
    "a negative rate": (
        lambda: limen.measure(CLIPS, CLIPS, rate_hz=-1),
        "rate_hz must be a whole number of at least 1, got -1",
    ),
    **{
        f"batches of {size!r}": (
            lambda size=size: limen.load_data("digits", batch_size=size),
            "batch_size must be a whole number of",
        )
        for size in (0, -3, 2.5, "a", None)
    },
    "crafting on other shapes": (
        lambda: attacked(name="uap", crafting=torch.rand(3, 1, 9, 9)),
        r"crafting: .*got \(1, 9, 9\)",
    ),
    "crafting on clips": (
        lambda: attacked(name="uap", crafting=CLIPS),
        "takes pictures, but the data holds clips",
    ),
    "one length for all": (
        lambda: attacked((CLIPS, [1, 1], 50), None, net=Loudness()),
        r"integer per clip, got \(\), torch.int64",
    ),
    "lengths with a fraction": (
        lambda: attacked((CLIPS, [1, 1], [50.5, 20]), None, net=Loudness()),
        "one integer per clip, got",
    ),
    "lengths of pictures": (lambda: attacked((X, Y, [1.0] * 4), None), "lengths are for clips"),
    "a sparse tensor": (lambda: attacked(X.to_sparse()), r"x must be a dense tensor.*x\.to_dense\(\)"),
    "a meta tensor": (lambda: attacked(X.to("meta")), "x must be a dense tensor, got a meta tensor"),
    "a batch without samples": (
        lambda: attacked(Batch("picture", [], X[:0], Y[:0]), None),
        "A batch of pictures must have the shape",
    ),
    "a list of tensors": (
        lambda: attacked(list(X)),
        r"x must be one tensor, got 4 in a list.*torch\.stack\(x\)",
    ),
    "an array of objects": (
        lambda: attacked(np.array([None] * 4)),
        "x must be a tensor or an array, got ndarray of object",
    ),
    "16-bit sound": (
        lambda: attacked(torch.zeros(2, 100, dtype=torch.int16)),
        r"For 16-bit sound: x\.float\(\) / 32768",
    ),
    "sound out of range": (
        lambda: attacked(CLIPS * 1000, None, net=Loudness()),
        r"x must be in \[-1.0, 1.0\].*pass x / 32768",
    ),
    "pictures out of range": (lambda: attacked(X * 9), r"load_model\(net, mean=\.\.\., std=\.\.\.\)"),
    **{
        f"the seed {seed!r}": (lambda seed=seed: attacked(seed=seed), "seed must be a whole number, got")
        for seed in ("a", 1.5, None)
    },
    "knowing the defence in words": (
        lambda: attacked(defense="jpeg", attack_on_defense="no"),
        "must be True .* got 'no'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_clear_sentence(mistake):
    call, words = MISTAKES[mistake]
    with pytest.raises(UserError, match=words) as told:
        call()
    assert str(told.value).count("\n") <= 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", ["flipped", "big-endian", "read-only"])
def test_odd_arrays_hold_the_same_numbers(form):
    x = X.numpy().copy()
    given = {"flipped": x[..., ::-1].copy()[..., ::-1], "big-endian": x.astype(">f4"), "read-only": x}[form]
    given.flags.writeable = form != "read-only"
    assert torch.equal(attacked(given).x_adv, attacked().x_adv)


def test_one_transform_or_metric_needs_no_list():
    assert torch.equal(over_the_air(through="jitter"), over_the_air(through=["jitter"]))
    for one in ("l2", {"name": "l2"}, iter(["l2"])):
        assert limen.measure(X, X, one) == limen.measure(X, X, ["l2"])


@pytest.mark.parametrize(
    ("make", "meant"),
    [(lambda: limen.budgets.linff(0.1), "linf"), (lambda: limen.goals.untargetted(), "untargeted")],
)
def test_a_misspelt_maker_says_what_was_meant(make, meant):
    with pytest.raises(AttributeError, match=f'Did you mean "{meant}"'):
        make()
    assert not hasattr(limen.budgets, "linff")
