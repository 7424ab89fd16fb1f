"""In which precision a search computes, and that a clip gets the same whatever stands beside it."""

import os
import subprocess
import sys

import pytest
import torch

from limen.attacks.engine.precision import gives_same_bits, prepared
from limen.budgets.families.balls import length
from limen.models.base.load import load_model
from limen.models.base.model import Classifier
from limen.models.speech.ctc import Recogniser

STEADY = [
    {"name": "ctc_small"},
    {"name": "deepspeech2"},
    {"name": "lstm_seq2seq"},
    {"name": "transformer_seq2seq", "head": "ctc"},
]
CLIPS = torch.randint(-3000, 3000, (2, 8000), generator=torch.Generator().manual_seed(0)) / 32768


PRODUCTS = """
import limen, torch
torch.set_num_threads(1)
draw = torch.Generator().manual_seed(0)
for inner, out in [(9, 32), (40, 128), (256, 1024), (640, 256)]:
    x, w = (torch.randn(n, inner, generator=draw) for n in (600, out))
    y, back = x @ w.T, (x @ w.T) @ w
    for n in (16, 50, 129, 255, 500):
        print(torch.equal(x[:n] @ w.T, y[:n]), torch.equal(y[:n] @ w, back[:n]))
"""


def test_a_row_of_a_matrix_product_is_the_same_among_sixteen_rows_or_more():
    """In single precision. For three rows or fewer, and in double precision, some processors differ: no
    recogniser relies on these."""
    environment = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    said = subprocess.run(
        [sys.executable, "-c", PRODUCTS], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert said.split() == ["True"] * 2 * 4 * 5


class Swayed(torch.nn.Module):
    """A recogniser whose answers hang, by a rounding error, on how many clips there are."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, lengths):
        return self.inner(x * (1 + 1e-6 * len(x)), lengths)


@pytest.mark.parametrize("spec", STEADY, ids=lambda s: s["name"])
def test_a_steady_recogniser_is_asked_in_single_precision_and_searched_in_double(spec):
    model = load_model(spec)
    seen, x = prepared(model, CLIPS, "auto")
    assert gives_same_bits(model)
    assert x.dtype == torch.float64
    assert {p.dtype for p in seen.parameters()} == {torch.float32}
    assert not any(p.requires_grad for p in seen.parameters())
    assert all(p.requires_grad and p.dtype == torch.float32 for p in model.parameters())


def test_one_whose_answers_hang_on_the_size_of_the_batch_is_asked_in_double_precision():
    swayed = Recogniser(Swayed(load_model("ctc_small").network), rate_hz=16_000)
    seen, x = prepared(swayed, CLIPS, "auto")
    assert not gives_same_bits(swayed)
    assert x.dtype == torch.float64
    assert {p.dtype for p in seen.parameters()} == {torch.float64}


def test_the_copy_that_is_searched_sees_points_of_a_grid_finer_than_16_bit_audio_and_passes_gradients_on():
    model = load_model("ctc_small")
    seen, x = prepared(model, CLIPS, "auto")
    x = x.requires_grad_()
    outputs = seen(x, None, None)
    (gradient,) = torch.autograd.grad(outputs.nll(["one", "two"]).sum(), x)
    near = (x.detach() + 1e-12).requires_grad_()
    (again,) = torch.autograd.grad(seen(near, None, None).nll(["one", "two"]).sum(), near)
    assert torch.equal(gradient, again)
    (exact,) = torch.autograd.grad(model.double()(x).nll(["one", "two"]).sum(), x)
    assert float((gradient - exact).norm() / exact.norm()) < 1e-3
    assert gradient.dtype == torch.float64


def test_a_copy_is_kept_until_the_weights_change():
    model = load_model("ctc_small")
    first, _ = prepared(model, CLIPS, "auto")
    assert prepared(model, CLIPS, "auto")[0] is first
    assert prepared(model, CLIPS, "double")[0] is not first
    with torch.no_grad():
        model.network.linear.bias += 1
    changed, _ = prepared(model, CLIPS, "auto")
    assert torch.equal(changed.network.linear.bias, model.network.linear.bias)


def test_single_and_double_are_taken_at_their_word_and_classifiers_stay_as_they_are():
    model = load_model("ctc_small")
    for precision, dtype in (("single", torch.float32), ("double", torch.float64)):
        seen, x = prepared(model, CLIPS, precision)
        assert x.dtype == next(seen.parameters()).dtype == dtype
    classifier = Classifier(torch.nn.Linear(8000, 2), "clip", ["a", "b"])
    assert prepared(classifier, CLIPS, "auto") == (classifier, CLIPS)
    assert next(prepared(classifier, CLIPS, "double")[0].parameters()).dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 4095, 4096, 4097, 50_000])
def test_the_norm_of_a_clip_is_the_same_to_the_last_bit_however_much_padding_follows(n, dtype):
    clip = torch.randn(1, n, generator=torch.Generator().manual_seed(n), dtype=dtype)
    exact = clip.double().square().sum().sqrt()
    torch.testing.assert_close(
        length(clip)[0].double(), exact, rtol=1e-6 if dtype == torch.float32 else 1e-13, atol=0
    )
    for padding in (1, 100, 5000, 20_000):
        beside = torch.cat(
            [torch.nn.functional.pad(clip, (0, padding)), torch.ones(1, n + padding, dtype=dtype)]
        )
        assert torch.equal(length(beside)[0], length(clip)[0])
