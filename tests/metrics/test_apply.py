import pytest
import torch

from limen.core.errors import UserError
from limen.core.types import Batch, Samples
from limen.metrics.base.apply import applicable, columns, measure


def names(*args, **kwargs):
    return [c.name for c, _ in applicable(*args, **kwargs)]


def test_by_default_every_metric_that_applies_is_taken():
    assert {"l0", "l1", "l2", "linf", "dissimilarity"} <= set(names(None, "picture", None, with_model=False))
    clip = names(None, "clip", "class", with_model=True)
    assert {
        "snr_db",
        "peak_db",
        "mean_db",
        "pesq",
        "stoi",
        "loudness",
        "correct",
        "fooled",
        "confidence",
        "top_k",
    } <= set(clip)
    assert not {"wer", "cer"} & set(clip)
    recogniser = names(None, "clip", "transcript", with_model=True)
    assert {"wer", "cer", "correct", "fooled"} <= set(recogniser)
    assert not {"top_k", "confidence"} & set(recogniser)


def test_without_a_model_no_metric_asks_for_one():
    assert not {"correct", "fooled", "confidence", "top_k", "wer"} & set(
        names(None, "clip", None, with_model=False)
    )


@pytest.mark.parametrize(
    ("wanted", "kind", "output", "with_model", "why"),
    [
        ("snr_db", "picture", "class", True, "it measures clips, and these are pictures"),
        (
            "wer",
            "clip",
            "class",
            True,
            "it needs a model that outputs transcripts, and this one outputs classes",
        ),
        ("correct", "clip", None, False, "there is no model"),
    ],
)
def test_a_metric_asked_for_that_cannot_apply_is_an_error_that_says_why(
    wanted, kind, output, with_model, why
):
    with pytest.raises(UserError, match=why) as error:
        applicable([wanted], kind, output, with_model)
    assert "These can: " in str(error.value)


def test_an_unknown_metric_gets_a_suggestion():
    with pytest.raises(UserError, match='Did you mean "snr_db"'):
        applicable(["snr_bd"], "clip", None, False)


def test_options_are_read_and_columns_follow_them():
    chosen = applicable([{"name": "top_k", "k": 3}, "l2"], "picture", "class", with_model=True)
    assert list(columns(chosen)) == ["clean_top_3", "top_3", "l2"]


def test_rows_carry_id_columns_and_reasons():
    x = torch.tensor([[0.5, 0.0], [0.0, 0.0]])
    samples = Samples(
        Batch("clip", ["a", "b"], x, torch.zeros(2).long(), torch.tensor([2, 2])), x + 0.05, 16000
    )
    rows = measure(samples, applicable(["snr_db", "linf"], "clip", None, with_model=False))
    assert [r["id"] for r in rows] == ["a", "b"]
    assert rows[0]["snr_db"] == pytest.approx(10 * torch.log10(torch.tensor(50.0)).item(), abs=1e-5)
    assert rows[0]["missing"] == {}
    assert rows[1]["snr_db"] is None
    assert rows[1]["missing"] == {"snr_db": "the clean sample is silent"}
    assert rows[1]["linf"] == pytest.approx(0.05)
