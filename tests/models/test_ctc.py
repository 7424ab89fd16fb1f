"""The recogniser's answers: likelihoods, spelling, and texts that cannot be."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from limen.core.errors import UserError
from limen.core.types import Transcripts
from limen.models.speech.beam import prefix_beam
from limen.models.speech.ctc import ALPHABET, CtcTranscripts, viterbi


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
    p = sum(
        math.exp(sum(answers.log_probs[0, t, s].item() for t, s in enumerate(path)))
        for path in itertools.product(range(4), repeat=4)
        if spelled(path, " ab") == text
    )
    assert answers.nll([text]).item() == pytest.approx(-math.log(p), rel=1e-9)


def test_each_row_is_the_ctc_loss_of_that_clip_alone():
    answers, texts = random_answers([30, 17, 25]), ["hello", "two", ""]
    for i, (text, n) in enumerate(zip(texts, [30, 17, 25], strict=True)):
        target = torch.tensor([[ALPHABET.index(c) + 1 for c in text]], dtype=torch.long)
        frames, length = torch.tensor([n]), torch.tensor([len(text)])
        alone = F.ctc_loss(
            answers.log_probs[i : i + 1, :n].transpose(0, 1), target, frames, length, reduction="none"
        )
        torch.testing.assert_close(answers.nll(texts)[i : i + 1], alone)


def test_greedy_spelling_merges_repeats_and_drops_blanks_beyond_the_clip():
    path = [3, 3, 0, 3, 4, 1, 1, 5, 0, 0]  # b b - b c _ _ d - -
    answers = CtcTranscripts(
        F.one_hot(torch.tensor([path, path]), len(ALPHABET) + 1).float().log(), torch.tensor([10, 5])
    )
    assert answers.texts() == ["bbc d", "bbc"]
    assert answers.rows(torch.tensor([1])).texts() == ["bbc"]
    assert isinstance(answers, Transcripts)


def test_a_text_outside_the_alphabet_or_too_long_is_named():
    answers = random_answers([5])
    with pytest.raises(UserError, match=r"'Año 2'.*'2' 'A' 'ñ'"):
        answers.nll(["Año 2"])
    with pytest.raises(UserError, match="'aabb' needs 6 frames, but the clip has only 5"):
        answers.nll(["aabb"])


def test_says_is_what_greedy_decoding_writes():
    answers = random_answers([30, 17, 25])
    heard = answers.texts()
    assert answers.would_transcribe(heard).all()
    assert not answers.would_transcribe([text + "a" for text in heard]).any()
    assert answers.would_transcribe([text[:2] + "zz" for text in heard], first=2).all()
    assert answers.would_transcribe([text[:3] + "zz" for text in heard], [3, 4, 3]).tolist() == [
        True,
        False,
        True,
    ]


def test_first_weight_changes_nothing():
    answers = random_answers([30, 17])
    assert torch.equal(answers.nll(["hello", "two"], 10.0), answers.nll(["hello", "two"]))


def ranked(log_probs, alphabet):
    """Every text that the frames can spell with its log-probability, likeliest first, by going through all
    alignments."""
    texts = {}
    for path in itertools.product(range(log_probs.shape[1]), repeat=log_probs.shape[0]):
        text = spelled(path, alphabet)
        texts[text] = texts.get(text, 0.0) + math.exp(sum(log_probs[t, s].item() for t, s in enumerate(path)))
    return sorted(((text, math.log(p)) for text, p in texts.items()), key=lambda pair: -pair[1])


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_ranks_texts_as_all_alignments_do(seed):
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log_softmax(1)
    expected = ranked(x, " ab")
    found = [("".join(" ab"[s - 1] for s in symbols), p) for symbols, p in prefix_beam(x.numpy(), 10_000)]
    assert [text for text, _ in found] == [text for text, _ in expected]
    assert [p for _, p in found] == pytest.approx([p for _, p in expected], rel=1e-9)


# "a" has 0.6 * 0.4 * 2 + 0.4 * 0.4, the best path is two blanks with 0.6 * 0.6
def test_the_beam_finds_a_text_that_no_single_path_shows():
    x = torch.tensor([[[0.6, 0.0, 0.4], [0.6, 0.0, 0.4]]]).log()
    frames = torch.tensor([2])
    assert CtcTranscripts(x, frames).texts() == [""]
    assert CtcTranscripts(x, frames, beam=4).texts() == ["a"]
    assert CtcTranscripts(x, frames, beam=4).would_transcribe([""]).all()


def test_the_beam_looks_at_the_clip_and_not_at_its_padding():
    both = CtcTranscripts(random_answers([30, 17]).log_probs, torch.tensor([30, 17]), beam=4)
    alone = CtcTranscripts(both.log_probs[1:, :17], torch.tensor([17]), beam=4)
    assert both.texts()[1:] == alone.texts() == both.rows(torch.tensor([1])).texts()


def test_a_beam_survives_a_clip_longer_than_the_smallest_float():
    x = torch.full((1, 400, 29), -8.0, dtype=torch.float64).log_softmax(2)
    assert math.isfinite(prefix_beam(x[0].numpy(), 2)[0][1])


@pytest.mark.parametrize("text", ["a", "ab", "aa", "a b", "aba"])
def test_the_alignment_is_the_likeliest_of_all_that_spell_the_text(text):
    answers = random_answers([6], alphabet=" ab")
    paths = [path for path in itertools.product(range(4), repeat=6) if spelled(path, " ab") == text]
    best = max(paths, key=lambda path: sum(answers.log_probs[0, t, s].item() for t, s in enumerate(path)))
    runs, t = [], 0
    for s, group in itertools.groupby(best):
        n = len(list(group))
        runs += [(t, t + n - 1)] if s else []
        t += n
    symbols = [" ab".index(c) + 1 for c in text]
    assert viterbi(answers.log_probs[0].numpy(), symbols) == runs


def test_words_carry_the_times_of_their_letters():
    path = [0, 3, 3, 0, 4, 1, 0, 5, 5, 0]  # - b b - c _ - d d -
    log_probs = (F.one_hot(torch.tensor([path]), len(ALPHABET) + 1) * 0.9 + 0.001).log()
    (words,) = CtcTranscripts(log_probs, torch.tensor([10]), frame_s=0.04).align()
    assert words == [
        ("bc", pytest.approx(0.04), pytest.approx(0.2)),
        ("d", pytest.approx(0.28), pytest.approx(0.36)),
    ]
    (words,) = CtcTranscripts(log_probs, torch.tensor([10]), frame_s=0.04).align(["d"])
    assert words == [("d", pytest.approx(0.28), pytest.approx(0.36))]
    assert CtcTranscripts(log_probs, torch.tensor([10])).align([""]) == [[]]
    with pytest.raises(UserError, match="needs 11 frames"):
        CtcTranscripts(log_probs, torch.tensor([10])).align(["abcdefghijk"])
