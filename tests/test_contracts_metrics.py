"""What every metric keeps: one number or reason per sample, padding never measured, a batch gives what its
members give alone."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from limen.core import components
from limen.core.errors import UserError
from limen.core.types import Batch, Samples
from limen.metrics.base.apply import applicable, columns, measure
from limen.metrics.base.metric import Missing, formatted

RATE_HZ = 16000
CLASSES = ["silence", "yes", "no", "up", "down", "left", "right"]


class Heard:
    """Transcripts of a recogniser that has already answered."""

    def __init__(self, texts: list[str]):
        self.said = texts

    def nll(self, texts: list[str]) -> Tensor:
        return torch.zeros(len(texts))

    def texts(self) -> list[str]:
        return self.said

    def rows(self, index: Tensor) -> "Heard":
        return Heard([self.said[i] for i in index.tolist()])


def syllables(seconds: float, seed: int) -> Tensor:
    """Bursts of a harmonic voice with pauses between them."""
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(int(seconds * RATE_HZ)) / RATE_HZ
    voice = sum(torch.sin(2 * math.pi * 120 * k * t) / k for k in range(1, 20))
    envelope = torch.sin(2 * math.pi * 2.5 * t).clamp_min(0)
    return 0.2 * voice * envelope + 0.001 * torch.randn(len(t), generator=g)


def pictures() -> Samples:
    g = torch.Generator().manual_seed(0)
    x = torch.rand(5, 3, 9, 7, generator=g)
    x_adv = (x + 0.1 * torch.randn(x.shape, generator=g)).clamp(0, 1)
    logits = torch.randn(2, 5, len(CLASSES), generator=g)
    return Samples(
        Batch("picture", list("abcde"), x, torch.arange(5)), x_adv, None, CLASSES, logits[0], logits[1]
    )


def clips(output: str) -> Samples:
    g = torch.Generator().manual_seed(1)
    ones = [syllables(s, i) for i, s in enumerate((1.3, 1.0, 0.8, 2.0))]
    x = torch.nn.utils.rnn.pad_sequence(ones, batch_first=True)
    lengths = torch.tensor([len(c) for c in ones])
    noise = 0.01 * torch.randn(x.shape, generator=g) * (torch.arange(x.shape[1]) < lengths[:, None])
    ids = list("abcd")
    if output == "class":
        logits = torch.randn(2, 4, len(CLASSES), generator=g)
        return Samples(
            Batch("clip", ids, x, torch.arange(4), lengths), x + noise, RATE_HZ, CLASSES, logits[0], logits[1]
        )
    truths = ["one two three", "four", "", "five six"]
    heard = Heard(["one two three", "four four", "", "five"]), Heard(["one too free", "", "uh", "five six"])
    return Samples(Batch("clip", ids, x, truths, lengths), x + noise, RATE_HZ, None, *heard)


def rows_of(samples: Samples, i: int) -> Samples:
    """Sample i alone, its padding cut off."""
    index = torch.tensor([i])
    batch = samples.batch.rows(index)
    pick = lambda o: o[index] if isinstance(o, Tensor) else o.rows(index)
    n = samples.batch.x.shape[-1] if batch.lengths is None else int(batch.lengths[0])
    return replace(
        samples,
        batch=replace(batch, x=batch.x[..., :n]),
        x_adv=samples.x_adv[index][..., :n],
        clean=pick(samples.clean),
        adversarial=pick(samples.adversarial),
    )


def output_of(samples: Samples) -> str:
    return "class" if samples.classes else "transcript"


KINDS = {
    "pictures": pictures,
    "clips with a class": lambda: clips("class"),
    "clips with a transcript": lambda: clips("transcript"),
}


def possible(name: str, samples: Samples) -> bool:
    try:
        return bool(metric(name, samples))
    except UserError:
        return False


def metric(name: str, samples: Samples) -> list:
    return applicable([name], samples.batch.kind, output_of(samples), with_model=True)


CASES = [
    (name, kind)
    for kind, make in KINDS.items()
    for name in components.names("metrics")
    if possible(name, make())
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_slow_metric_is_left_out_unless_it_is_named(name, kind):
    samples = KINDS[kind]()
    ((_, options),) = metric(name, samples)
    default = {c.name for c, _ in applicable(None, samples.batch.kind, output_of(samples), with_model=True)}
    assert (name in default) == (not options.on_request)


@pytest.mark.parametrize("name", components.names("metrics"))
def test_a_column_declares_how_tables_show_it(name):
    options = components.load("metrics", name).parse({})
    for column in options.columns().values():
        assert column.heading
        assert formatted(0.5, column.format)
        assert column.headline in (True, False, "picture", "clip", "class", "transcript")
    headings = [column.heading for column in options.columns().values()]
    assert len(set(headings)) == len(headings)


def test_every_metric_is_tried_here():
    assert {name for name, _ in CASES} == set(components.names("metrics"))


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_metric_gives_the_columns_it_declares_one_value_per_sample(name, kind):
    samples = KINDS[kind]()
    ((component, options),) = metric(name, samples)
    found = component.function(samples, options)
    assert list(found) == list(options.columns())
    for values in found.values():
        assert len(values) == len(samples.batch)
        assert all(isinstance(v, Missing | float) for v in values)
    assert all(c.meaning and c.better in ("", "higher", "lower") for c in options.columns().values())


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_batch_gives_what_its_members_give_alone(name, kind):
    samples = KINDS[kind]()
    together = measure(samples, metric(name, samples))
    for i, row in enumerate(together):
        (alone,) = measure(rows_of(samples, i), metric(name, samples))
        assert alone["missing"] == row["missing"]
        for column in columns(metric(name, samples)):
            assert alone[column] == (None if row[column] is None else pytest.approx(row[column], rel=1e-9))


@pytest.mark.parametrize(("name", "kind"), [c for c in CASES if c[1] != "pictures"])
def test_padding_is_not_measured_whatever_stands_in_it(name, kind):
    samples = KINDS[kind]()
    lengths = samples.batch.lengths
    assert lengths is not None
    longer = torch.nn.functional.pad(samples.batch.x, (0, 4000))
    rubbish = torch.nn.functional.pad(samples.x_adv, (0, 4000))
    rubbish[torch.arange(rubbish.shape[1]) >= lengths[:, None]] = 0.7
    padded = replace(samples, batch=replace(samples.batch, x=longer), x_adv=rubbish)
    assert measure(padded, metric(name, samples)) == measure(samples, metric(name, samples))


def awkward(samples: Samples) -> dict[str, Samples]:
    x, x_adv = samples.batch.x, samples.x_adv
    lengths = samples.batch.lengths
    nan, infinite = x_adv.clone(), x_adv.clone()
    nan[0].view(-1)[3], infinite[0].view(-1)[3] = torch.nan, torch.inf
    broken = torch.full_like(samples.clean, torch.nan) if isinstance(samples.clean, Tensor) else samples.clean
    cases = {
        "silence": replace(samples, batch=replace(samples.batch, x=torch.zeros_like(x))),
        "silent adversarial": replace(samples, x_adv=torch.zeros_like(x)),
        "all silent": replace(
            samples, batch=replace(samples.batch, x=torch.zeros_like(x)), x_adv=torch.zeros_like(x)
        ),
        "identical": replace(samples, x_adv=x),
        "NaN": replace(samples, x_adv=nan),
        "infinity": replace(samples, x_adv=infinite),
        "NaN answers": replace(samples, clean=broken, adversarial=broken),
        "no labels": replace(samples, classes=None),
    }
    if lengths is not None:
        for n in (0, 1, 2, 500, 4000):
            cases[f"{n} samples long"] = replace(
                samples, batch=replace(samples.batch, lengths=torch.full_like(lengths, n))
            )
    return cases


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_what_cannot_be_measured_is_null_with_a_reason(name, kind):
    samples = KINDS[kind]()
    chosen = metric(name, samples)
    for what, case in awkward(samples).items():
        for row in measure(case, chosen):
            for column in columns(chosen):
                if row[column] is None:
                    assert len(row["missing"][column]) > 10, what
                else:
                    assert math.isfinite(row[column]), what
                    assert column not in row["missing"], what


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_broken_sample_does_not_touch_its_neighbours(name, kind):
    samples = KINDS[kind]()
    chosen = metric(name, samples)
    assert measure(awkward(samples)["NaN"], chosen)[1:] == measure(samples, chosen)[1:]
