"""The recogniser's answers: likelihoods, spelling, and texts that cannot be."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from limen.errors import UserError
from limen.models._ctc import ALPHABET, CtcTranscripts
from limen.types import Transcripts


def random_answers(frames, alphabet=ALPHABET):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(len(frames), max(frames), len(alphabet) + 1, generator=g, dtype=torch.float64) * 2
    return CtcTranscripts(x.log_softmax(2), torch.tensor(frames), alphabet)


def spelled(path, alphabet):
    merged = [s for s, _ in itertools.groupby(path)]
    return "".join(alphabet[s - 1] for s in merged if s)


@pytest.mark.parametrize("text", ["", "a", "ab", "aa", "aba", " b"])
def test_the_likelihood_is_the_sum_over_all_alignments(text):
    answers = random_answers([4], alphabet=" ab")
    p = sum(math.exp(sum(answers.log_probs[0, t, s].item() for t, s in enumerate(path)))
            for path in itertools.product(range(4), repeat=4) if spelled(path, " ab") == text)  # fmt: skip
    assert answers.nll([text]).item() == pytest.approx(-math.log(p), rel=1e-9)


def test_each_row_is_the_ctc_loss_of_that_clip_alone():
    answers, texts = random_answers([30, 17, 25]), ["hello", "two", ""]
    for i, (text, n) in enumerate(zip(texts, [30, 17, 25], strict=True)):
        target = torch.tensor([[ALPHABET.index(c) + 1 for c in text]], dtype=torch.long)
        frames, length = torch.tensor([n]), torch.tensor([len(text)])
        alone = F.ctc_loss(answers.log_probs[i : i + 1, :n].transpose(0, 1), target, frames, length, reduction="none")
        torch.testing.assert_close(answers.nll(texts)[i : i + 1], alone)


def test_greedy_spelling_merges_repeats_and_drops_blanks_beyond_the_clip():
    path = [3, 3, 0, 3, 4, 1, 1, 5, 0, 0]  # b b - b c _ _ d - -
    answers = CtcTranscripts(F.one_hot(torch.tensor([path, path]), len(ALPHABET) + 1).float().log(), torch.tensor([10, 5]))
    assert answers.texts() == ["bbc d", "bbc"]
    assert answers.rows(torch.tensor([1])).texts() == ["bbc"]
    assert isinstance(answers, Transcripts)


def test_a_text_outside_the_alphabet_or_too_long_is_named():
    answers = random_answers([5])
    with pytest.raises(UserError, match=r"'Año 2'.*'2' 'A' 'ñ'"):
        answers.nll(["Año 2"])
    with pytest.raises(UserError, match="'aabb' needs 6 frames, but the clip has only 5"):
        answers.nll(["aabb"])
