"""How networks are asked: pictures lie as convolutions like them, and the clean pass gives the first gradient
where it can."""

import pytest
import torch
from awkward import pictures
from torch import Tensor, nn

from limen.attacks.engine.forward import CleanPass, forward_pass
from limen.attacks.engine.run import Attack
from limen.core.types import Batch
from limen.models.base.model import Classifier

LINF = {"name": "linf", "eps": 0.1}


class Seen(nn.Module):
    """Writes down how pictures lie; with `view`, insists on the usual order after the convolution."""

    def __init__(self, channels: int, view: bool = False):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.out, self.view = nn.Conv2d(channels, 6, 3), nn.Linear(6 * 36, 4), view
        self.strides: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.strides.append(x.stride(1))
        h = self.conv(x).tanh()
        return self.out(h.view(len(x), -1) if self.view else h.flatten(1))


def classifier(network: nn.Module) -> Classifier:
    return Classifier(network, "picture", list("abcd")).eval()


@pytest.mark.parametrize("channels", [1, 3])
def test_the_channels_of_a_pixel_lie_side_by_side_and_the_answer_is_the_same(channels):
    network, x = Seen(channels), torch.rand(5, channels, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(forward_pass(classifier(network), x), network(x))
    assert network.strides == [1, 64]


@pytest.mark.parametrize("name", ["fgsm", "pgd", "square", "deepfool"])
def test_a_network_that_insists_on_the_usual_order_gets_it_and_is_attacked_alike(name):
    x, found = torch.rand(5, 3, 8, 8), []
    for view in (False, True):
        model = classifier(Seen(3, view))
        with torch.no_grad():
            batch = Batch("picture", list("abcde"), x, model(x).argmax(1))
        spec = {"name": name, "budget": LINF, **({"queries": 20} if name == "square" else {})}
        found.append(Attack.parse(spec)(model, batch).x_adv)
        assert found[-1].is_contiguous()
    torch.testing.assert_close(found[0], found[1], atol=1e-4, rtol=0)


def test_a_mistake_of_the_network_is_shown_as_it_is():
    with pytest.raises(RuntimeError, match="to have 3 channels"):
        forward_pass(classifier(Seen(3)), torch.rand(2, 5, 8, 8))


def test_fgsm_has_its_gradient_from_the_clean_pass():
    model, batch = pictures()
    attack = Attack.parse({"name": "fgsm", "budget": LINF})
    model.asked = 0
    result = attack(model, batch)
    assert model.asked == 2 * len(batch)  # the clean pass and the judge's
    assert (result.calls.forward == 0).all()
    assert (result.calls.backward == 1).all()
    with torch.no_grad():
        fresh = attack.spec.search[0].function(attack.pose(model, batch), attack.spec.options)
    torch.testing.assert_close(result.x_adv, fresh)


@pytest.mark.parametrize("name", ["fgsm", "bim", "mi_fgsm"])
def test_what_is_wrong_already_has_no_part_in_the_gradients_of_the_others(name):
    model, batch = pictures(torch.float64)
    y = torch.as_tensor(batch.y).clone()
    y[1] = (y[1] + 1) % 4
    attack, others = Attack.parse({"name": name, "budget": LINF}), [0, 2, 3, 4]
    together = attack(model, Batch("picture", batch.ids, batch.x, y))
    torch.testing.assert_close(together.x_adv[others], attack(model, batch.rows(others)).x_adv)
    assert torch.equal(together.x_adv[1], batch.x[1])


def test_the_graph_is_let_go_with_the_first_question():
    model, batch = pictures()
    for x in (batch.x, batch.x + 0.1):
        kept = CleanPass.of(model, batch.x, None, [])
        assert (kept.take(x, torch.arange(5)) is not None) == (x is batch.x)
        assert kept.leaf is None
        assert kept.outputs is None


def test_where_few_samples_are_left_a_fresh_pass_over_them_is_cheaper():
    model, batch = pictures()
    assert CleanPass.of(model, batch.x, None, []).take(batch.x[:4], torch.arange(4)) is not None
    assert CleanPass.of(model, batch.x, None, []).take(batch.x[:3], torch.arange(3)) is None


@pytest.mark.parametrize("wrong", [0, 2, 5])
def test_what_comes_back_as_it_was_is_not_asked_about_again_and_the_answers_are_those_of_a_fresh_pass(wrong):
    model, x = classifier(network := Seen(3)), torch.rand(5, 3, 8, 8)
    with torch.no_grad():
        labels = model(x).argmax(1)
    labels[:wrong] = (labels[:wrong] + 1) % 4
    asked: list[int] = []
    network.register_forward_hook(lambda module, inputs, output: asked.append(len(output)))
    Attack.parse({"name": "random_noise", "budget": LINF})(model, Batch("picture", list("abcde"), x, labels))
    assert asked[-1] == 5  # the control changes everyone
    asked.clear()
    result = Attack.parse({"name": "pgd", "steps": 3, "budget": LINF})(
        model, Batch("picture", list("abcde"), x, labels)
    )
    assert asked[0] == 5  # the clean pass
    assert len(asked) == 1 if wrong == 5 else asked[-1] == 5 - wrong
    with torch.no_grad():
        torch.testing.assert_close(result.adversarial, model(result.x_adv))
    assert torch.equal(result.reached, result.adversarial.argmax(1) != labels)
