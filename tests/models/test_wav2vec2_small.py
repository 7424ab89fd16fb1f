"""wav2vec 2.0, small: the library's own numbers, masks and distractors as the paper has them, and fine-tuning
that starts where told."""

import pytest
import torch
from fitting import train
from safetensors.torch import load_file

from limen.core.components import load
from limen.core.errors import UserError
from limen.core.seeds import generators
from limen.core.types import Sample
from limen.data.base.dataset import Dataset
from limen.models.base.load import load_model
from limen.models.base.model import inner
from limen.models.speech.self_supervised import contextual, distractors, spans
from limen.models.training.options import TrainOptions
from limen.models.training.score import score

TINY = {
    "name": "wav2vec2_small",
    "weights": "random",
    "channels": [8, 16, 16],
    "width": 32,
    "layers": 2,
    "heads": 2,
    "codes": 8,
    "negatives": 6,
    "span_frames": 4,
    "span_starts": 0.1,
}
SSL = {**TINY, "head": "pretraining"}


def clips(*lengths):
    x, g = torch.zeros(len(lengths), max(lengths)), torch.Generator().manual_seed(5)
    for row, n in zip(x, lengths, strict=True):
        row[:n] = 0.02 + 0.1 * torch.randn(n, generator=g) * torch.sin(0.004 * torch.arange(n))
    return x, torch.tensor(lengths)


def words() -> Dataset:
    data = load("data", "digit_strings")
    return data.function(data.parse({"split": "train", "limit": 16, "longest": 2}))


def test_default_sizes_are_a_million_parameters_and_twenty_milliseconds():
    model = load_model({"name": "wav2vec2_small", "weights": "random"})
    assert 1.0e6 < sum(p.numel() for p in model.parameters()) < 1.5e6
    frames = model(torch.zeros(2, 32_000), torch.tensor([32_000, 16_000])).frames
    assert int(frames[0] - frames[1]) == 50


def test_contrastive_loss_and_targets_are_the_librarys():
    model = load_model(SSL)
    library = inner(model)
    x, lengths = clips(9000, 6000)
    with torch.no_grad():
        outputs = model(x, lengths)
        shape, g = outputs.extracted.shape[:2], torch.Generator().manual_seed(1)
        mask = spans(torch.rand(shape, generator=g), outputs.frames, 0.1, 4)
        negatives = distractors(torch.rand(*shape, 6, generator=g), mask)
        codes = outputs.codes()
        ours = outputs.contrastive(outputs.targets(codes), codes, negatives, mask)
        attention = torch.arange(9000) < lengths[:, None]
        normal = [
            (row[:n] - row[:n].mean()) / (row[:n].var(correction=0) + 1e-7).sqrt()
            for row, n in zip(x, lengths, strict=True)
        ]
        flat = negatives + torch.arange(2)[:, None, None] * shape[1]
        theirs = library(
            torch.nn.utils.rnn.pad_sequence(normal, batch_first=True),
            attention_mask=attention.long(),
            mask_time_indices=mask,
            sampled_negative_indices=flat,
        )
    own = torch.arange(shape[1]) < outputs.frames[:, None]
    torch.testing.assert_close(
        outputs.targets(codes)[own], theirs.projected_quantized_states[own], atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close((ours * mask.sum(1)).sum(), theirs.contrastive_loss, atol=1e-3, rtol=1e-4)


def test_spans_lie_within_their_clip_and_every_clip_has_one():
    frames = torch.tensor([400] * 50 + [3] * 50)
    draws = torch.rand(100, 400, generator=torch.Generator().manual_seed(0))
    mask = spans(draws, frames, 0.065, 10)
    assert not (mask & (torch.arange(400) >= frames[:, None])).any()
    assert mask[50:, :3].all()
    # a frame is hidden unless none of the ten before it starts a span: 1 - (1 - 0.065)^10 = 49 %
    assert abs(mask[:50, 10:390].float().mean() - 0.49) < 0.03
    few = spans(draws, frames, 0.0, 10)
    assert (few[:50].sum(1) == 10).all()


def test_distractors_are_other_masked_frames_of_the_clip_all_alike():
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[0, [1, 4, 6, 8]] = mask[1, [0, 2]] = True
    drawn = distractors(torch.rand(2, 9, 3000, generator=torch.Generator().manual_seed(0)), mask)
    assert drawn[0, 4].unique().tolist() == [1, 6, 8]
    assert drawn[0, 8].unique().tolist() == [1, 4, 6]
    assert drawn[1, 0].unique().tolist() == [2]
    assert (torch.bincount(drawn[0, 4], minlength=9)[[1, 6, 8]].float() / 3000 - 1 / 3).abs().max() < 0.04


def test_an_encoder_is_scored_by_the_hidden_frames_it_tells_from_their_distractors():
    model = load_model(SSL)
    x, lengths = clips(9000, 6000)
    ids = ["a", "b"]
    with torch.no_grad():
        outputs = model(x, lengths)
        mask, negatives = outputs.drawn(generators(0, ids), 0.1, 4)
        codes, context = (
            outputs.codes(),
            contextual(model.network.wav2vec2, outputs.extracted, outputs.frames, mask),
        )
        targets, context = outputs.targets(codes), model.network.project_hid(context)
        near = lambda i, t, k: torch.cosine_similarity(context[i, t], targets[i, k], dim=0)
        expected = [0, 0]
        for i, t in mask.nonzero().tolist():
            others = [k for k in negatives[i, t].tolist() if not torch.equal(codes[i, k], codes[i, t])]
            expected[i] += all(near(i, t, t) > near(i, t, k) for k in others)
        counts = outputs.identified_frames(generators(0, ids))
        assert counts == list(zip(expected, mask.sum(1).tolist(), strict=True))
        assert model(x[1:, :6000]).identified_frames(generators(0, ids)[1:]) == counts[1:]
    samples = [Sample(i, x[k, :n], "") for k, (i, n) in enumerate(zip(ids, lengths, strict=True))]
    scored = score(
        model, Dataset("two", "clip", range(2), lambda k: samples[k], rate_hz=16_000, truth="transcript")
    )
    again = model(x, lengths).identified_frames(generators(0, ids, "hidden"))
    assert scored["accuracy"] == sum(k for k, _ in again) / sum(n for _, n in again)


@pytest.mark.parametrize("spec", [TINY, SSL], ids=["ctc", "pretraining"])
def test_a_batch_gives_the_features_its_members_have_alone(spec):
    model = load_model(spec)
    x, lengths = clips(9000, 5003, 100, 1)
    with torch.no_grad():
        together = model(x, lengths)
        for i, n in enumerate(lengths.tolist()):
            alone = model(x[i : i + 1, :n])
            frames = int(alone.frames)
            torch.testing.assert_close(together.features[i, :frames], alone.features[0], atol=1e-4, rtol=0)
            assert together.features[i, frames:].abs().sum() == 0
            torch.testing.assert_close(
                together.rows(torch.tensor([i])).features[0, :frames], alone.features[0], atol=1e-4, rtol=0
            )


def test_gradients_reach_the_waveform_in_both_modes_and_never_the_padding():
    model = load_model(TINY)
    x, lengths = clips(6000, 4000)
    for mode in (False, True):
        leaf = x.clone().requires_grad_()
        gradient = torch.autograd.grad(model.train(mode)(leaf, lengths).nll(["a", "b"]).sum(), leaf)[0]
        assert (gradient.abs().amax(1) > 0).all()
        assert gradient[1, 4000:].abs().max() == 0


def test_pre_training_needs_no_transcripts_and_repeats(tmp_path):
    options = TrainOptions(epochs=3, batch_size=8, bucket_batches=2, lr=3e-3)
    data = words()
    mute = Dataset(
        data.name,
        "clip",
        data.keys,
        lambda key: Sample(data.load(key).id, data.load(key).x, ""),
        rate_hz=16_000,
        truth="transcript",
    )
    first, second = (load_model(SSL) for _ in range(2))
    history = train(first, data, None, options, tmp_path / "a")
    assert history == train(second, mute, None, options, tmp_path / "b")
    assert history[-1]["loss"] < history[0]["loss"]
    assert first(*clips(4000)).texts() == [""]
    with pytest.raises(UserError, match="without a head"):
        first(*clips(4000)).nll(["one"])


def test_fine_tuning_starts_from_the_encoder_and_leaves_frozen_convolutions_alone(tmp_path):
    train(load_model(SSL), words(), None, TrainOptions(epochs=1, batch_size=8), tmp_path / "ssl")
    encoder = str(tmp_path / "ssl" / "weights.safetensors")
    spec = {**TINY, "encoder": encoder, "freeze_front": True}
    model, before = load_model(spec), load_file(encoder)
    names = [name for name in before if name.startswith("wav2vec2.")]
    assert all(torch.equal(model.network.state_dict()[name], before[name]) for name in names)
    history = train(model, words(), None, TrainOptions(epochs=6, batch_size=8, lr=3e-3), tmp_path / "ft")
    assert history[-1]["loss"] < 0.7 * history[0]["loss"]
    after = load_file(tmp_path / "ft" / "weights.safetensors")
    front = [name for name in names if "feature_extractor" in name]
    assert all(torch.equal(after[name], before[name]) for name in front)
    assert not any(
        torch.equal(after[name], before[name])
        for name in names
        if "encoder.layers.0" in name and "weight" in name
    )


def test_an_encoder_that_cannot_be_had_is_told(tmp_path):
    with pytest.raises(UserError, match="no weights file"):
        load_model({**TINY, "encoder": str(tmp_path / "none.safetensors")})
    with pytest.raises(UserError, match="must be used with weights: random"):
        load_model({"name": "wav2vec2_small", "encoder": "zoo:ssl"})
    with pytest.raises(UserError, match="width must be a multiple of heads"):
        load_model({**TINY, "heads": 3})
