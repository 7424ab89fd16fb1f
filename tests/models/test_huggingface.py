"""Checkpoints of the Hugging Face library answer through Limen what they answer by themselves, clip by clip,
and can be differentiated."""

import json

import numpy as np
import pytest
import torch
import transformers
from fitting import train
from torch import Tensor

from limen.core.errors import UserError
from limen.core.types import Sample
from limen.data.base.dataset import Dataset
from limen.models.base.load import load_model
from limen.models.training.loop import check_fit
from limen.models.training.options import TrainOptions

VOCABULARY = ["<s>", "</s>", "<unk>", "|", *"ETAONIHSRDLUMWCFGYPBVK'XJQZ", "<pad>"]
"""As the published English checkpoints have it, but with the blank at the end."""
SMALL = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    conv_dim=(16, 16, 16),
    conv_kernel=(20, 8, 8),
    conv_stride=(10, 8, 4),
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
    vocab_size=len(VOCABULARY),
    pad_token_id=len(VOCABULARY) - 1,
    bos_token_id=0,
    eos_token_id=1,
)
BASE, LARGE = {"feat_extract_norm": "group"}, {"feat_extract_norm": "layer", "do_stable_layer_norm": True}
KINDS = {
    "wav2vec2": ("Wav2Vec2", BASE),
    "wav2vec2 large": ("Wav2Vec2", LARGE),
    "hubert": ("Hubert", BASE),
    "hubert large": ("Hubert", LARGE),
    "data2vec": ("Data2VecAudio", {"num_conv_pos_embeddings": 3, "conv_pos_kernel_size": 9}),
    "wavlm": ("WavLM", BASE),
    "wavlm large": ("WavLM", LARGE),
    "unispeech-sat": ("UniSpeechSat", BASE),
    "unispeech-sat large": ("UniSpeechSat", LARGE),
    "sew": ("SEW", {"squeeze_factor": 2}),
}


def clips(*lengths: int) -> tuple[Tensor, Tensor]:
    """Noise around a tone that swells and fades like syllables, with an offset that normalisation must take
    off."""
    x, g = torch.zeros(len(lengths), max(lengths)), torch.Generator().manual_seed(5)
    for row, n in zip(x, lengths, strict=True):
        t = torch.arange(n)
        row[:n] = 0.05 + (4 * torch.sin(0.003 * t) - 3).exp() * (
            0.1 * torch.randn(n, generator=g) + 0.1 * torch.sin(0.2 * t)
        )
    return x, torch.tensor(lengths)


def save_ctc(folder, kind: str = "wav2vec2") -> str:
    name, more = KINDS[kind]
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **more})
    torch.manual_seed(0)
    getattr(transformers, f"{name}ForCTC")(config).save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor(
        do_normalize=True, return_attention_mask=more is LARGE
    ).save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(VOCABULARY)}))
    return str(folder)


@pytest.fixture(scope="module", params=KINDS)
def ctc(request, tmp_path_factory):
    """The model as Limen loads it, and as the library does."""
    folder = save_ctc(tmp_path_factory.mktemp("ctc"), request.param)
    return (
        load_model({"name": "huggingface_ctc", "path": folder}),
        transformers.AutoModelForCTC.from_pretrained(folder).eval(),
        folder,
    )


def test_a_batch_answers_what_the_library_answers_for_each_clip_alone(ctc):
    model, library, folder = ctc
    x, lengths = clips(9000, 5003, 7001, 9000)
    with torch.no_grad():
        answers = model(x, lengths)
        for i, n in enumerate(lengths.tolist()):
            alone = library(torch.from_numpy(extracted(folder, x[i, :n])))
            frames = alone.logits.shape[1]
            assert int(answers.frames[i]) == frames
            theirs = alone.logits.log_softmax(2)[0][
                :, [VOCABULARY.index("<pad>"), VOCABULARY.index("|"), VOCABULARY.index("E")]
            ]
            columns = [0, *(answers.alphabet.index(c) + 1 for c in " e")]
            torch.testing.assert_close(answers.log_probs[i, :frames][:, columns], theirs, atol=1e-4, rtol=0)
            assert answers.features[i, frames:].abs().sum() == 0
            assert answers.rows(torch.tensor([i])).texts() == model(x[i : i + 1, :n]).texts()


def extracted(folder, clip: Tensor) -> np.ndarray:
    extractor = transformers.AutoFeatureExtractor.from_pretrained(folder)
    return extractor(clip.numpy(), sampling_rate=16_000, return_tensors="np").input_values


def test_the_loss_of_a_text_is_the_librarys_ctc_loss(ctc):
    model, library, folder = ctc
    x, lengths = clips(9000, 6000)
    texts = ["one two", "zero"]
    ours = model(x, lengths).nll(texts)
    library.config.ctc_loss_reduction = "sum"
    for i, (n, text) in enumerate(zip(lengths.tolist(), texts, strict=True)):
        labels = torch.tensor([[VOCABULARY.index("|" if c == " " else c.upper()) for c in text]])
        theirs = library(torch.from_numpy(extracted(folder, x[i, :n])), labels=labels).loss
        torch.testing.assert_close(ours[i], theirs, atol=1e-3, rtol=1e-4)


def test_gradients_reach_the_waveform_and_nothing_else_also_in_training_mode(ctc):
    model = ctc[0]
    x, lengths = clips(6000, 4000)
    for mode in (False, True):
        model.train(mode)
        leaf = x.clone().requires_grad_()
        gradient = torch.autograd.grad(model(leaf, lengths).nll(["one", "two"]).sum(), leaf)[0]
        assert (gradient.abs().amax(1) > 0).all()
        assert gradient[1, 4000:].abs().max() == 0
    model.eval()


def test_silence_and_clips_shorter_than_a_frame_have_finite_answers(ctc):
    model = ctc[0]
    answers = model(torch.zeros(3, 4000), torch.tensor([4000, 1, 4000]))
    assert torch.isfinite(answers.log_probs).all()
    short = int(answers.frames[1])  # SEW makes two frames at a time, the others one
    assert short <= 2
    torch.testing.assert_close(
        answers.log_probs[1, :short], model(torch.zeros(1, 1)).log_probs[0], atol=1e-4, rtol=0
    )


def test_the_waveform_is_normalised_as_the_librarys_extractor_does_it():
    from limen.models.speech.huggingface import standardised

    x, lengths = clips(9000, 5003, 801)
    extractor = transformers.Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True)
    theirs = extractor(
        [row[:n].numpy() for row, n in zip(x, lengths, strict=True)],
        sampling_rate=16_000,
        padding=True,
        return_tensors="pt",
    )
    torch.testing.assert_close(standardised(x, lengths), theirs.input_values, atol=1e-5, rtol=0)


def test_a_delimiter_is_a_space_upper_case_becomes_lower_and_the_blank_may_be_anywhere(tmp_path):
    model = load_model({"name": "huggingface_ctc", "path": save_ctc(tmp_path)})
    assert model.alphabet == " etaonihsrdlumwcfgypbvk'xjqz"
    answers = model(*clips(4000))
    wanted = [VOCABULARY.index(t) for t in ("A", "A", "<pad>", "A", "|", "B", "<pad>", "B")]
    scores = torch.full((1, len(wanted), len(VOCABULARY)), -9.0)
    scores[0, torch.arange(len(wanted)), wanted] = 0
    answers.log_probs, answers.frames = scores[..., model.columns], torch.tensor([len(wanted)])
    assert answers.texts() == ["aa bb"]


def test_a_checkpoint_learns_through_limens_training_and_its_weights_come_back(tmp_path):
    model = load_model({"name": "huggingface_ctc", "path": save_ctc(tmp_path / "from", "wav2vec2 large")})
    data = tones()
    history = train(model, data, None, TrainOptions(epochs=12, batch_size=8, lr=3e-3), tmp_path / "run")
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    again = load_model(
        {
            "name": "huggingface_ctc",
            "path": str(tmp_path / "from"),
            "weights": str(tmp_path / "run" / "weights.safetensors"),
        }
    )
    batch = data.all()
    torch.testing.assert_close(
        again(batch.x, batch.lengths).log_probs, model(batch.x, batch.lengths).log_probs
    )


def tones() -> Dataset:
    """Rising tones are "a", falling ones "b"."""
    samples = []
    for i in range(8):
        x = 0.3 * torch.sin(torch.linspace(0.1, 0.9, 3000 + 300 * i).cumsum(0))
        x = x if i % 2 else x.flip(0)
        samples.append(Sample(f"{i}", x, "a" if i % 2 else "b"))
    return Dataset("tones", "clip", range(8), lambda i: samples[i], rate_hz=16_000, truth="transcript")


def test_what_cannot_be_read_is_told(tmp_path):
    def said(name: str, path) -> str:
        with pytest.raises(UserError) as told:
            load_model({"name": name, "path": str(path)})
        return str(told.value)

    assert "neither as a local folder" in said("huggingface_ctc", tmp_path / "nothing")
    assert "config.json" in said("huggingface_ctc", tmp_path)
    save_ctc(tmp_path)
    assert "speech_to_text" in said("huggingface_seq2seq", tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({"<pad>": 0, "A": 500}))
    assert "vocab.json must map single characters" in said("huggingface_ctc", tmp_path)
    (tmp_path / "vocab.json").unlink()
    assert "vocab.json" in said("huggingface_ctc", tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    assert "preprocessor_config.json" in said("huggingface_ctc", tmp_path)
    transformers.BertConfig().save_pretrained(tmp_path)
    assert "got bert" in said("huggingface_ctc", tmp_path)


def test_clips_at_another_rate_are_refused(tmp_path):
    model = load_model({"name": "huggingface_ctc", "path": save_ctc(tmp_path)})
    data = tones()
    data.rate_hz = 8000
    with pytest.raises(UserError, match="16000 Hz, but those of tones are at 8000 Hz"):
        check_fit(model, data)


@pytest.fixture(scope="module")
def s2t(tmp_path_factory):
    """A Speech2Text checkpoint with a tokenizer of word pieces."""
    import sentencepiece

    folder = tmp_path_factory.mktemp("s2t")
    words = ["a", "b", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "zero"]
    (folder / "text").write_text("\n".join([" ".join(words[i:] + words[:i]) for i in range(len(words))] * 5))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "pieces"),
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))
    known = [
        pieces.id_to_piece(i)
        for i in range(pieces.get_piece_size())
        if not pieces.id_to_piece(i).startswith("<")
    ]
    vocabulary = {piece: i for i, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *known])}
    (folder / "all.json").write_text(json.dumps(vocabulary))
    config = transformers.Speech2TextConfig(
        vocab_size=len(vocabulary),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        conv_channels=32,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        max_source_positions=300,
        max_target_positions=24,
        init_std=0.15,
    )
    torch.manual_seed(0)
    transformers.Speech2TextForConditionalGeneration(config).save_pretrained(folder)
    transformers.Speech2TextFeatureExtractor().save_pretrained(folder)
    transformers.Speech2TextTokenizer(str(folder / "all.json"), str(folder / "pieces.model")).save_pretrained(
        folder
    )
    return str(folder)


def features(folder: str, clip: Tensor) -> Tensor:
    extractor = transformers.Speech2TextFeatureExtractor.from_pretrained(folder)
    return extractor(clip.numpy(), sampling_rate=16_000, return_tensors="pt").input_features


def test_the_filter_bank_is_the_librarys_for_every_clip_of_a_batch(s2t):
    model = load_model({"name": "huggingface_seq2seq", "path": s2t})
    x, lengths = clips(9000, 5003, 7001)
    ours, frames = model.features(x, lengths)
    for i, n in enumerate(lengths.tolist()):
        theirs = features(s2t, x[i, :n])[0]
        assert int(frames[i]) == len(theirs)
        torch.testing.assert_close(ours[i, : len(theirs)], theirs, atol=1e-5, rtol=0)
        assert ours[i, len(theirs) :].abs().sum() == 0


def test_a_decoder_loses_and_writes_what_the_library_does_for_each_clip_alone(s2t):
    model = load_model({"name": "huggingface_seq2seq", "path": s2t, "max_tokens": 12})
    library = transformers.Speech2TextForConditionalGeneration.from_pretrained(s2t).eval()
    tokenizer = transformers.Speech2TextTokenizer.from_pretrained(s2t)
    x, lengths = clips(9000, 5003, 7001)
    texts = ["one two", "zero", "three four five"]
    with torch.no_grad():
        answers = model(x, lengths)
        losses, written = answers.nll(texts), answers.texts()
        for i, (n, text) in enumerate(zip(lengths.tolist(), texts, strict=True)):
            alone, labels = features(s2t, x[i, :n]), tokenizer(text, return_tensors="pt").input_ids
            torch.testing.assert_close(
                losses[i], library(alone, labels=labels).loss * labels.shape[1], atol=1e-3, rtol=1e-4
            )
            tokens = library.generate(alone, num_beams=1, do_sample=False, max_new_tokens=12)
            assert written[i] == tokenizer.decode(tokens[0], skip_special_tokens=True).strip()
            torch.testing.assert_close(
                model(x[i : i + 1, :n]).nll([text])[0], losses[i], atol=1e-4, rtol=1e-4
            )
    beam = load_model(
        {"name": "huggingface_seq2seq", "path": s2t, "max_tokens": 12, "decoding": "beam", "beam_width": 3}
    )
    tokens = library.generate(features(s2t, x[:1]), num_beams=3, do_sample=False, max_new_tokens=12)
    assert beam(x[:1]).texts() == [tokenizer.decode(tokens[0], skip_special_tokens=True).strip()]


def test_a_speech2text_learns_through_limens_training_and_then_says_what_it_writes(s2t, tmp_path):
    model = load_model({"name": "huggingface_seq2seq", "path": s2t})
    data = tones()
    history = train(model, data, None, TrainOptions(epochs=25, batch_size=8, lr=5e-3), tmp_path)
    assert history[-1]["loss"] < 0.3 * history[0]["loss"]
    batch = data.all()
    answers = model(batch.x, batch.lengths)
    written = answers.texts()
    assert written == list(batch.y)
    assert answers.would_transcribe(written).all()
    assert not answers.would_transcribe([text + " one" for text in written]).any()
    assert answers.would_transcribe([text + " one" for text in written], first=1).all()
    assert not answers.rows(torch.tensor([1, 3])).would_transcribe(["b", "b"]).any()


def test_the_first_token_can_weigh_more(s2t):
    model = load_model({"name": "huggingface_seq2seq", "path": s2t})
    answers = model(*clips(6000))
    n = len(model.tokens("one two"))
    logits, tokens = answers._teacher_forced(["one two"])
    losses = -logits.log_softmax(2).gather(2, tokens[:, :, None])[0, :, 0]
    expected = n / (n + 2.0) * (3.0 * losses[0] + losses[1:].sum())
    torch.testing.assert_close(answers.nll(["one two"], first_weight=2.0)[0], expected)


def test_gradients_go_through_the_filter_bank_to_the_waveform_even_from_silence(s2t):
    model = load_model({"name": "huggingface_seq2seq", "path": s2t})
    x, lengths = clips(6000, 4000, 5000)
    x[2] = 0
    leaf = x.requires_grad_()
    gradient = torch.autograd.grad(model(leaf, lengths).nll(["one", "two", "six"]).sum(), leaf)[0]
    assert torch.isfinite(gradient).all()
    assert (gradient[:2].abs().amax(1) > 0).all()
    assert gradient[1, 4000:].abs().max() == 0
    assert model(torch.zeros(1, 1)).texts() == model(torch.zeros(2, 300), torch.tensor([1, 300])).texts()[:1]


def test_texts_and_clips_a_decoder_cannot_take_are_told(s2t):
    model = load_model({"name": "huggingface_seq2seq", "path": s2t})
    answers = model(*clips(4000))
    with pytest.raises(UserError, match="not in its vocabulary"):
        answers.nll(["ONE 2"])
    with pytest.raises(UserError, match="shorten the text"):
        answers.nll(["zero " * 30])
    with pytest.raises(UserError, match="up to 300 frames"):
        model(torch.zeros(1, 60_000))
