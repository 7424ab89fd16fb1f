"""DeepFool and C&W find the smallest change there is, where it is known."""

import numpy
import pytest
import scipy.optimize
import torch
from exact import linear, run, smallest
from torch import Tensor, nn

import limen
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.models.base.model import Classifier, Model


@pytest.mark.parametrize(("norm", "dual", "p"), [("l2", 2.0, 2.0), ("linf", 1.0, torch.inf)])
def test_deepfool_goes_exactly_the_shortest_way_and_its_overshoot(norm, dual, p):
    model, batch, weights, gaps = linear()
    result = run(model, batch, name="deepfool", norm=norm, overshoot=0.001, nearer=0)
    assert result.success.all()
    exact = smallest(weights, gaps, batch.y, dual)
    torch.testing.assert_close(
        (result.x_adv - batch.x).flatten(1).norm(p=p, dim=1), 1.001 * exact, rtol=1e-6, atol=0
    )
    assert (
        result.calls.forward == 3 + 4
    ).all()  # the classes, the gradients, the check: one step suffices; then the way back
    assert (result.calls.backward == 3).all()  # one per other class


def test_deepfool_looks_at_the_likeliest_classes_only():
    model, batch, weights, gaps = linear(classes=8)
    result = run(model, batch, name="deepfool", k_classes=2, overshoot=0.001, nearer=0)
    second = gaps.scatter(1, batch.y[:, None], torch.inf).argmin(1)
    rows = torch.arange(len(batch))
    exact = gaps[rows, second] / (weights[second] - weights[batch.y]).norm(dim=1)
    assert (result.calls.backward == 1).all()
    torch.testing.assert_close(
        (result.x_adv - batch.x).flatten(1).norm(dim=1), 1.001 * exact, rtol=1e-6, atol=0
    )


def as_published(model: Model, x: Tensor, y: Tensor, overshoot: float = 0.02, steps: int = 50) -> Tensor:
    """DeepFool under l2 as its authors and CrAdv wrote it, a picture at a time: every step is cut to the
    range, and steps add up."""
    found = x.clone()
    for i in range(len(x)):
        for _ in range(steps):
            leaf = found[i : i + 1].clone().requires_grad_()
            with torch.enable_grad():
                logits = model(leaf)[0]
                slopes = [
                    torch.autograd.grad(logits[k] - logits[y[i]], leaf, retain_graph=True)[0]
                    for k in range(len(logits))
                ]
            if logits.argmax() != y[i]:
                break
            others = [k for k in range(len(logits)) if k != y[i]]
            ways = {k: (logits[y[i]] - logits[k]).detach().abs() / slopes[k].norm() for k in others}
            k = min(ways, key=lambda k: float(ways[k]))
            found[i] = (
                found[i] + (1 + overshoot) * (ways[k] + 1e-4) * slopes[k][0] / slopes[k].norm()
            ).clamp(0, 1)
    return found


def test_deepfool_is_never_weaker_than_the_published_code():
    """Digits, of which half of the pixels stand at an end of the range."""
    model, batch = limen.load_model("mlp"), next(limen.load_data("digits", split="test", batch_size=80))
    right = (model(batch.x).argmax(1) == batch.y).nonzero().squeeze(1)
    batch = batch.rows(right)
    published = (as_published(model, batch.x, batch.y) - batch.x).flatten(1).norm(dim=1)
    for options in ({"nearer": 0, "refine": 6}, {}):
        result = run(model, batch, name="deepfool", **options)
        size = (result.x_adv - batch.x).flatten(1).norm(dim=1)
        assert result.success.all()
        assert size.mean() < published.mean()
        assert size.median() < published.median()
        assert (size < 1.03 * published).float().mean() > 0.95


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_deepfool_arrives_where_nearly_all_of_the_slope_lies_on_values_that_cannot_move(norm):
    """Black pixels that would have to become blacker, and one grey one with a hundredth of their slope."""
    layer = nn.Linear(25, 2).double()
    layer.weight.data = torch.cat(
        [torch.full((1, 24), 1.0), torch.tensor([[0.05]])], 1
    ).double() * torch.tensor([[1.0], [-1.0]])
    layer.bias.data = torch.zeros(2).double()
    x = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    x[0, 0, 4, 4] = 0.5
    layer.bias.data[0] = -0.03  # left: 0.05 * 0.5 * 2 - 0.03 = 0.02, which 0.2 less of the grey pixel makes 0
    result = run(
        Classifier(nn.Sequential(nn.Flatten(), layer), "picture", ["a", "b"]),
        Batch("picture", ["x"], x, torch.zeros(1).long()),
        name="deepfool",
        norm=norm,
        overshoot=0.001,
        nearer=0,
    )
    assert result.success.all()
    assert (result.x_adv - x).abs().sum() == pytest.approx(0.2, rel=2e-3)


class Bowl(Model):
    """Class a inside a ball around the middle of the picture's range that is stretched along one axis, b
    outside."""

    kind, output, classes = "picture", "class", ["a", "b"]
    centre, axes = (
        torch.full((4,), 0.5, dtype=torch.float64),
        torch.tensor([0.25, 0.35, 0.4, 0.45], dtype=torch.float64),
    )

    def forward(self, x, lengths=None, generators=None):
        value = ((x.flatten(1) - self.centre) / self.axes).square().sum(1) - 1
        return torch.stack([-value, value], 1)


def test_deepfool_slides_along_a_curved_boundary_to_where_it_is_nearest():
    x = 0.5 + torch.tensor(
        [[0.05, 0.2, 0.1, 0.02], [-0.02, 0.1, -0.1, 0.15], [0.1, 0.02, 0.05, -0.2]], dtype=torch.float64
    )
    batch = Batch("picture", list("abc"), x.view(3, 1, 2, 2), torch.zeros(3, dtype=torch.long))
    exact = torch.tensor([_to_ellipsoid((row - Bowl.centre).numpy(), Bowl.axes.numpy()) for row in x])
    short, slid = (
        (run(Bowl(), batch, name="deepfool", overshoot=1e-4, nearer=n).x_adv - batch.x).flatten(1).norm(dim=1)
        for n in (0, 30)
    )
    assert (slid <= short).all()
    assert (short > 1.02 * exact).any()
    assert (slid >= exact * (1 - 1e-9)).all()
    assert (slid <= 1.01 * exact).all()


def _to_ellipsoid(point, axes):
    """Distance from a point inside: at the nearest point y of the ellipsoid y_i = a_i^2 p_i / (a_i^2 + t),
    and t < 0 solves one equation (the shortest axis bounds it)."""
    t = scipy.optimize.brentq(
        lambda t: ((axes * point / (axes**2 + t)) ** 2).sum() - 1, -(axes.min() ** 2) * (1 - 1e-9), 0
    )
    return float(numpy.linalg.norm(point * axes**2 / (axes**2 + t) - point))


def test_deepfool_takes_no_target():
    model, batch, _, _ = linear()
    with pytest.raises(UserError, match="supports no target"):
        run(model, batch, name="deepfool", goal={"name": "target_class", "target": 1})


def test_cw_comes_within_one_percent_of_the_shortest_way():
    """Of two classes: of more, it goes to the class of the highest logit, which need not be the nearest."""
    model, batch, weights, gaps = linear(classes=2, n=20)
    exact = smallest(weights, gaps, batch.y, 2.0)
    far = (exact > 0.03).nonzero().squeeze(1)  # nearer ones are within a few steps of Adam at this rate
    assert len(far) >= 5
    batch, exact = batch.rows(far), exact[far]
    result = run(model, batch, name="cw_l2", steps=200, learning_rate=0.001, c_init=0.01)
    assert result.success.all()
    sizes = (result.x_adv - batch.x).flatten(1).norm(dim=1)
    assert (sizes >= exact * (1 - 1e-9)).all()
    assert (sizes <= exact * 1.01).all()


def test_cw_reaches_a_target_by_nearly_the_shortest_way():
    model, batch, weights, gaps = linear(classes=2, n=20)
    exact = gaps[:, 0] / (weights[0] - weights[1]).norm()  # zero for samples that are there already
    rows = ((exact == 0) | (exact > 0.03)).nonzero().squeeze(1)
    batch, exact = batch.rows(rows), exact[rows]
    result = run(
        model,
        batch,
        name="cw_l2",
        steps=200,
        learning_rate=0.001,
        c_init=0.01,
        goal={"name": "target_class", "target": 0},
    )
    assert result.reached.all()
    sizes = (result.x_adv - batch.x).flatten(1).norm(dim=1)
    assert (sizes[exact == 0] == 0).all()
    assert ((sizes / exact)[exact > 0] <= 1.01).all()


def test_cw_keeps_the_confidence_asked_for():
    model, batch, _, _ = linear()
    result = run(model, batch, name="cw_l2", steps=200, confidence=0.5, learning_rate=0.01)
    assert (result.goal.margin(result.adversarial) >= 0.5 - 1e-6).all()


def test_cw_moves_pixels_that_stand_at_the_ends_of_the_range():
    model, batch, _, _ = linear()
    batch.x.copy_((batch.x > 0.5).double())  # every pixel exactly 0 or 1
    with torch.no_grad():
        batch.y.copy_(model(batch.x).argmax(1))
    result = run(model, batch, name="cw_l2", learning_rate=0.05, c_init=1.0)
    assert result.success.all()
    assert ((result.x_adv != batch.x).flatten(1).any(1)).all()


@pytest.mark.parametrize("name", ["deepfool", "cw_l2"])
def test_what_is_wrong_already_is_left_alone(name):
    model, batch, _, _ = linear()
    batch.y.copy_((batch.y + 1) % 4)
    result = run(model, batch, name=name)
    assert torch.equal(result.x_adv, batch.x)
    assert result.reached.all()
