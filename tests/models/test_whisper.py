"""Whisper beside transformers' own, on tiny random weights; and the published weights once."""

import math
import struct

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tiny_whisper import POSITIONS, write_folder

from limen.attacks.engine.precision import gives_same_bits, prepared
from limen.attacks.engine.run import Attack
from limen.audio.synthesis import speak
from limen.core.errors import UserError
from limen.core.types import Batch, Transcripts
from limen.data.fetch.get import get
from limen.data.spoken_languages import SpokenLanguages, spoken_languages
from limen.defenses.base.compose import defended
from limen.goals.base.goal import Goal
from limen.models.base.load import load_model
from limen.models.base.model import inner
from limen.models.whisper import transcripts
from limen.models.whisper.decoding import greedy
from limen.models.whisper.features import WhisperFeatures
from limen.models.whisper.tokens import LANGUAGES
from limen.models.whisper.transcripts import WhisperTranscripts
from limen.models.whisper.weights import ctranslate2_state
from limen.models.whisper.whisper import positions


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    return folder, write_folder(folder)


def made(folder, **options):
    return load_model({"name": "whisper", "weights": str(folder), **options})


def clips(n=3):
    g = torch.Generator().manual_seed(1)
    lengths = torch.tensor([20_000, 9_000, 14_321][:n])
    level = torch.tensor([0.3, 0.02, 0.1][:n])[:, None]
    x = torch.randn(n, 20_000, generator=g).clamp(-3, 3) / 3 * level
    return x * (torch.arange(20_000) < lengths[:, None]), lengths


TEXTS = ["ok go", "the thing stop", "now"]


@pytest.mark.parametrize("mels", [80, 128])
def test_features_are_those_of_transformers_for_each_clip_of_a_batch(mels):
    from transformers import WhisperFeatureExtractor

    x, lengths = clips()
    theirs = WhisperFeatureExtractor(feature_size=mels)
    expected = [
        theirs(c[:n].numpy(), sampling_rate=16_000, return_tensors="pt").input_features
        for c, n in zip(x, lengths, strict=True)
    ]
    torch.testing.assert_close(WhisperFeatures(mels)(x, 3000), torch.cat(expected), atol=1e-5, rtol=0)


def test_a_clip_that_fills_the_window_is_mirrored_at_its_end():
    from transformers import WhisperFeatureExtractor

    x = torch.randn(1, 32_000, generator=torch.Generator().manual_seed(0)) * 0.1
    theirs = WhisperFeatureExtractor(chunk_length=2)(
        x[0].numpy(), sampling_rate=16_000, return_tensors="pt"
    ).input_features
    torch.testing.assert_close(WhisperFeatures(80)(x, 200), theirs, atol=1e-5, rtol=0)


def test_logits_are_those_of_transformers(tiny):
    folder, theirs = tiny
    x, lengths = clips()
    answers = made(folder, language="it")(x, lengths)
    given = torch.cat((answers.prefixes, torch.tensor([answers.tokens.encode("the stop")] * 3)), 1)
    with torch.no_grad():
        expected = theirs(
            input_features=WhisperFeatures(80)(x, 2 * POSITIONS), decoder_input_ids=given
        ).logits
        ours = answers.network.decoder(given, answers.encoded.layers, answers.encoded.bias)[0]
    torch.testing.assert_close(ours, expected, atol=1e-4, rtol=1e-4)
    targets = torch.tensor([[*answers.tokens.encode("the stop"), answers.tokens.end]] * 3)
    each = F.cross_entropy(expected[:, 3:].transpose(1, 2), targets, reduction="none")
    torch.testing.assert_close(answers.nll(["the stop"] * 3), each.sum(1), atol=1e-3, rtol=1e-4)
    n = targets.shape[1]
    torch.testing.assert_close(
        answers.nll(["the stop"] * 3, first_weight=2.0),
        (each.sum(1) + 2 * each[:, 0]) * n / (n + 2),
        atol=1e-3,
        rtol=1e-4,
    )


def test_special_tokens_stand_in_whispers_order(tiny):
    model = made(tiny[0], language="sr", task="translate")
    end = model.tokens.end
    assert model.tokens.prefix("sr", "translate") == [
        end + 1,
        end + 2 + LANGUAGES.index("sr"),
        end + 101,
        end + 106,
    ]
    assert model.tokens.prefix("en", "transcribe") == [end + 1, end + 2, end + 102, end + 106]
    assert model.tokens.decode(model.tokens.encode("  ok go now ")) == "ok go now"


def step_by_step(theirs, answers, features, i):
    """Greedy decoding with transformers' network, every token computed anew."""
    tokens, written = answers.tokens, []
    never, never_first = tokens.suppressed
    while len(written) < answers.decoding.max_tokens:
        given = torch.cat((answers.prefixes[i], torch.tensor(written, dtype=torch.long)))[None]
        with torch.no_grad():
            logits = theirs(input_features=features[i : i + 1], decoder_input_ids=given).logits[0, -1]
        logits[never | (never_first if not written else False)] = -math.inf
        written.append(int(logits.argmax()))
        if written[-1] == tokens.end:
            break
    return tokens.decode(written)


def test_texts_are_the_likeliest_tokens_one_after_the_other(tiny):
    folder, theirs = tiny
    x, lengths = clips()
    answers = made(folder, max_tokens=12)(x, lengths)
    features = WhisperFeatures(80)(x, 2 * POSITIONS)
    assert answers.texts() == [step_by_step(theirs, answers, features, i) for i in range(3)]


def test_a_beam_of_one_is_greedy_and_a_wide_one_finds_likelier_tokens(tiny):
    x, lengths = clips()
    options = {"max_tokens": 6, "language": "en"}
    greedy = made(tiny[0], **options)(x, lengths)
    assert made(tiny[0], decoding="beam", beam_width=1, **options)(x, lengths).texts() == greedy.texts()
    from limen.models.whisper.decoding import beam_search
    from limen.models.whisper.decoding import greedy as tokens_of

    def mean_likelihood(row, tokens):
        given = torch.cat((row.prefixes, torch.tensor([tokens])), 1)
        logits = row.network.decoder(given, row.encoded.layers, None)[0][:, row.prefixes.shape[1] - 1 :]
        ahead = row.suppress(logits, first=True).log_softmax(2)[0]
        ended = [*tokens, row.tokens.end] if len(tokens) < 6 else tokens
        return ahead[torch.arange(len(ended)), torch.tensor(ended)].mean().item()

    for i in range(3):
        row = greedy.rows(torch.tensor([i]))
        assert mean_likelihood(row, beam_search(row, 20)) >= mean_likelihood(row, tokens_of(row)[0]) - 1e-5


@pytest.mark.parametrize("fast", [False, True])
def test_a_batch_gives_what_its_members_give_alone_and_padding_gets_no_gradient(tiny, fast):
    model = made(tiny[0], thin=4, tail_s=0.1, max_tokens=8)
    model = model.for_attack if fast else model
    x, lengths = clips()
    together = model(x + (x == 0) * 0.5, lengths)  # what lies behind a clip's end is not heard
    alone = [model(x[i : i + 1, :n]) for i, n in enumerate(lengths.tolist())]
    torch.testing.assert_close(
        together.nll(TEXTS),
        torch.cat([a.nll([t]) for a, t in zip(alone, TEXTS, strict=True)]),
        rtol=1e-4,
        atol=1e-4,
    )
    torch.testing.assert_close(
        together.language_logits, torch.cat([a.language_logits for a in alone]), rtol=1e-4, atol=1e-4
    )
    assert together.texts() == [a.texts()[0] for a in alone]
    some = together.rows(torch.tensor([2, 0]))
    torch.testing.assert_close(
        some.nll([TEXTS[2], TEXTS[0]]), together.nll(TEXTS)[[2, 0]], rtol=1e-4, atol=1e-4
    )
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(model(x, lengths).nll(TEXTS).sum(), x)
    assert torch.isfinite(gradient).all()
    assert all(
        (row[n:] == 0).all() and row[:n].abs().max() > 0
        for row, n in zip(gradient, lengths.tolist(), strict=True)
    )


def test_positions_of_the_fast_path_stand_for_the_whole_window():
    kept, weights = positions(16_000, tail=25, thin=16, total=1500)
    assert kept[:78].tolist() == list(range(78))  # 50 of sound, 3 that touch it, 25 of tail
    assert weights.sum() == pytest.approx(1500)
    assert kept[78:].diff().unique().tolist() == [16]
    assert kept.max() < 1500
    assert len(positions(480_000, 25, 16, 1500)[0]) == 1500


def test_the_fast_path_is_the_full_one_when_nothing_is_left_out(tiny):
    model = made(tiny[0], thin=1)
    x, lengths = clips()
    # but for one position: the last frame of the window feels its edge, and the fast path takes it for
    # silence like any other
    torch.testing.assert_close(
        model.for_attack(x, lengths).nll(TEXTS), model(x, lengths).nll(TEXTS), rtol=5e-3, atol=0
    )
    whole = torch.randn(1, POSITIONS * 320, generator=torch.Generator().manual_seed(0)) * 0.1
    torch.testing.assert_close(
        model.for_attack(whole).nll(["ok"]), model(whole).nll(["ok"]), rtol=1e-4, atol=1e-4
    )
    assert inner(model.for_attack) is inner(model)
    assert made(tiny[0], fast=False).for_attack.shortened is False
    behind = defended(model, [{"name": "low_pass", "cutoff_hz": 4000}])
    assert not behind.inner.shortened
    assert behind.for_attack.inner.shortened
    assert type(behind.for_attack) is type(behind)


@pytest.fixture(scope="module")
def taught(tiny):
    """Weights that write "ok go now" for the first clip and "ok stop" for the second."""
    model = made(tiny[0], language="en")
    x, lengths = clips(2)
    optimiser = torch.optim.Adam(model.network.parameters(), 3e-3)
    for _ in range(120):
        optimiser.zero_grad()
        model.losses(x, ["ok go now", "ok stop"], lengths).sum().backward()
        optimiser.step()
    return model.eval()


def test_says_what_it_writes_and_nothing_else(taught):
    x, lengths = clips(2)
    with torch.no_grad():
        answers = taught(x, lengths)
        assert isinstance(answers, Transcripts)
        assert answers.texts() == ["ok go now", "ok stop"]
        assert taught.transcribe(x, lengths) == answers.texts()
        for texts in (
            ["ok go now", "ok stop"],
            ["ok stop", "ok stop"],
            ["ok go", "ok go"],
            ["ok go now now", "stop"],
            ["", "ok"],
        ):
            assert answers.would_transcribe(texts).tolist() == [
                a == b for a, b in zip(answers.texts(), texts, strict=True)
            ], texts
            answers.nll(texts)
            for first in (2, 4, 5, 20):
                expected = [a[:first] == b[:first] for a, b in zip(answers.texts(), texts, strict=True)]
                if first <= min(map(len, texts)):
                    assert answers.would_transcribe(texts, first).tolist() == expected, (texts, first)
        assert answers.would_transcribe(["ok go wrong", "ok stop it"], [5, 7]).tolist() == [True, True]


def test_what_the_gradient_of_the_fast_path_gains_holds_on_the_full_one(taught):
    x, lengths = (t[1:] for t in clips(2))
    fast, x_adv, target = taught.for_attack, x.clone(), ["ok go now"]
    for _ in range(10):
        x_adv.requires_grad_()
        (gradient,) = torch.autograd.grad(fast(x_adv, lengths).nll(target).sum(), x_adv)
        x_adv = (x_adv - 0.01 * gradient.sign()).detach()
    with torch.no_grad():
        assert taught(x_adv, lengths).nll(target) < 0.5 * taught(x, lengths).nll(target)


def attacked(model, texts, **spec):
    x, lengths = clips(2)
    batch = Batch("clip", ["a", "b"], x, texts, lengths)
    attack = Attack.parse({"name": "pgd", "steps": 20, "budget": {"name": "snr", "snr_db": 90}, **spec})
    return attack(model, batch, store="int16")


@pytest.fixture
def decoded(monkeypatch):
    """How many clips each decoding wrote texts for."""
    sizes = []

    def counted(answers):
        sizes.append(len(answers))
        return greedy(answers)

    monkeypatch.setattr(transcripts, "greedy", counted)
    return sizes


def test_a_search_decodes_nothing_while_the_model_writes_the_reference(taught, decoded):
    result = attacked(taught, ["ok go now", "ok stop"])
    assert result.calls.backward.tolist() == [20, 20]
    assert decoded == [2, 2]  # the clean clips and the stored ones


def test_without_early_stop_a_search_never_decodes(taught, decoded):
    result = attacked(
        taught, ["OK. Go now", "ok stop"], early_stop=False, budget={"name": "snr", "snr_db": 10}
    )
    assert result.calls.backward.tolist() == [20, 20]
    assert decoded == [2, 2]


def test_a_text_that_is_the_same_but_for_its_stops_is_decoded_a_few_times_and_never_taken_for_a_success(
    taught, decoded, monkeypatch
):
    # as the model would write "ok go now" for the truth "ok go, now": letter for letter another text at every
    # step
    monkeypatch.setattr(
        Goal, "needs_decoding", lambda goal, outputs: torch.ones(len(goal.reference), dtype=torch.bool)
    )
    monkeypatch.setattr(
        WhisperTranscripts,
        "would_transcribe",
        lambda answers, texts, first=None: torch.zeros(len(texts), dtype=torch.bool),
    )
    result = attacked(taught, ["ok go now", "ok stop"])
    assert result.calls.backward.tolist() == [20, 20]
    assert not result.success.any()
    assert sum(decoded) == 2 * (2 + 5)  # gradients 0, 1, 3, 7 and 15


def test_a_success_of_the_fast_path_that_the_full_one_rejects_does_not_end_the_search(taught, monkeypatch):
    # a budget under which a clip is fooled, but not by the random start: weights that were taught here differ
    # from machine to machine
    budgets = [{"name": "linf", "eps": eps} for eps in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)]
    settings = [{"steps": 40, "budget": budget, "goal": "untargeted"} for budget in budgets]
    settings += [{**setting, "goal": {"name": "transcript", "text": "ok stop"}} for setting in settings]
    for wanted in settings:
        honest = attacked(taught, ["ok go now", "ok stop"], **wanted)
        fooled = honest.success & (honest.calls.backward > 1) & (honest.calls.backward < 20)
        if fooled.any():
            break
    assert fooled.any()
    row = int(fooled.nonzero()[0])
    said = WhisperTranscripts.would_transcribe

    def hasty(answers, texts, first=None):
        """The fast path takes the goal for reached from the start."""
        true = said(answers, texts, first)
        return true if answers.encoded.bias is None else torch.full_like(true, wanted["goal"] != "untargeted")

    monkeypatch.setattr(WhisperTranscripts, "would_transcribe", hasty)
    result = attacked(taught, ["ok go now", "ok stop"], **wanted)
    assert (result.success | (result.calls.backward == 40)).all()  # only a success leaves early
    assert int(result.calls.backward[row]) > 1
    assert (
        result.calls.forward[row] > result.calls.backward[row]
    )  # a claim that is settled is a pass over the full path


@pytest.mark.parametrize("fast", [False, True])
def test_a_clip_gets_the_same_bits_alone_and_beside_others_and_is_searched_in_single_precision(tiny, fast):
    model = made(tiny[0], fast=fast)
    assert gives_same_bits(model.for_attack)
    seen, x = prepared(model.for_attack, clips()[0], "auto")
    assert x.dtype == torch.float64
    assert {p.dtype for p in seen.parameters()} == {torch.float32}
    x, lengths = clips()

    def gradient(x, lengths, texts):
        x = x.clone().requires_grad_()
        answers = seen(x, lengths)
        return torch.autograd.grad((answers.nll(texts) + answers.language_logits[:, 7]).sum(), x)[0]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        together = gradient(x, lengths, TEXTS)
        for i, n in enumerate(lengths.tolist()):
            assert torch.equal(
                gradient(x[i : i + 1, :n], lengths[i : i + 1], TEXTS[i : i + 1])[0], together[i, :n]
            )
            assert (together[i, n:] == 0).all()
    finally:
        torch.set_num_threads(threads)


def test_clips_computed_all_at_once_get_what_they_get_one_after_the_other(tiny):
    """Elsewhere than on a CPU, and whenever texts are written, clips stand side by side."""
    model = made(tiny[0], thin=4, tail_s=0.1, max_tokens=8).for_attack
    x, lengths = clips()
    apart = model(x, lengths)
    side_by_side = WhisperTranscripts(
        model.network, model.tokens, [model._encode(x, lengths)], model.decoding
    )
    torch.testing.assert_close(side_by_side.nll(TEXTS, 1.0), apart.nll(TEXTS, 1.0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(side_by_side.language_logits, apart.language_logits, rtol=1e-4, atol=1e-4)
    assert side_by_side.would_transcribe(TEXTS).tolist() == apart.would_transcribe(TEXTS).tolist()
    assert (
        side_by_side.texts() == apart.texts() == [apart.rows(torch.tensor([i])).texts()[0] for i in range(3)]
    )
    some = torch.tensor([2, 0])
    torch.testing.assert_close(
        side_by_side.rows(some).nll(["ok", "go"]), apart.rows(some).nll(["ok", "go"]), rtol=1e-4, atol=1e-4
    )


def test_texts_are_written_in_the_language_that_is_detected(tiny):
    x, lengths = clips()
    answers = made(tiny[0])(x, lengths)
    assert answers.language_logits.shape == (3, 99)
    assert answers.detected == [LANGUAGES[i] for i in answers.language_logits.argmax(1).tolist()]
    assert answers.prefixes[:, 1].tolist() == [
        answers.tokens.start + 1 + LANGUAGES.index(code) for code in answers.detected
    ]
    assert set(made(tiny[0], language="cs")(x, lengths).prefixes[:, 1].tolist()) == {
        answers.tokens.start + 1 + LANGUAGES.index("cs")
    }


def test_an_english_whisper_has_no_language_to_detect(tmp_path):
    write_folder(tmp_path, multilingual=False)
    answers = made(tmp_path)(*clips(1))
    assert answers.prefixes.tolist() == [[answers.tokens.start, answers.tokens.start + 105]]
    assert answers.languages == []
    with pytest.raises(UserError, match="English Whisper does not detect"):
        _ = answers.language_logits
    with pytest.raises(UserError, match='"it"'):
        made(tmp_path, language="it")


def test_openais_file_gives_the_same_model(tiny, tmp_path):
    model = made(tiny[0])
    d = inner(model).dims
    dims = {"n_mels": d.mels, "n_vocab": d.vocabulary, "n_audio_ctx": d.positions, "n_text_ctx": d.context}
    dims |= {
        f"n_{side}_{name}": n
        for side in ("audio", "text")
        for name, n in (("state", d.width), ("head", d.heads), ("layer", 2))
    }
    torch.save({"dims": dims, "model_state_dict": inner(model).state_dict()}, tmp_path / "mine.pt")
    (tmp_path / "vocab.json").write_text((tiny[0] / "vocab.json").read_text())
    x, lengths = clips()
    again = made(tmp_path / "mine.pt", language=None)
    assert again.tokens.languages == []  # a vocabulary this small: taken for an English one
    assert all(
        torch.equal(a, b)
        for a, b in zip(inner(again).state_dict().values(), inner(model).state_dict().values(), strict=True)
    )
    assert again(x, lengths).nll(TEXTS).shape == (3,)


def test_a_ctranslate2_file_in_two_parts_gives_the_same_weights(tiny, tmp_path):
    state = {k: v.half() for k, v in inner(made(tiny[0])).state_dict().items()}
    stored = {
        "encoder/num_heads": torch.tensor(2, dtype=torch.int16),
        "decoder/embeddings/weight": state["decoder.token_embedding.weight"],
    }
    for side, last in (("encoder", "ln_post"), ("decoder", "ln")):
        stored[f"{side}/position_encodings/encodings"] = state[f"{side}.positional_embedding"]
        stored |= {
            f"{side}/layer_norm/{theirs}": state[f"{side}.{last}.{ours}"]
            for theirs, ours in (("gamma", "weight"), ("beta", "bias"))
        }
        for i in range(2):
            a, b = f"{side}.blocks.{i}", f"{side}/layer_{i}"
            for ours, theirs in (("attn", "self_attention"), ("cross_attn", "attention"), ("mlp", "ffn")):
                if f"{a}.{ours}_ln.weight" not in state:
                    continue
                stored[f"{b}/{theirs}/layer_norm/gamma"] = state[f"{a}.{ours}_ln.weight"]
                stored[f"{b}/{theirs}/layer_norm/beta"] = state[f"{a}.{ours}_ln.bias"]
                for kind in ("weight", "bias"):
                    groups = {
                        "attn": (("query", "key", "value"), ("out",)),
                        "cross_attn": (("query",), ("key", "value"), ("out",)),
                        "mlp": (("0",), ("2",)),
                    }[ours]
                    for number, group in enumerate(groups):
                        stored[f"{b}/{theirs}/linear_{number}/{kind}"] = torch.cat(
                            [state.get(f"{a}.{ours}.{name}.{kind}", torch.zeros(32).half()) for name in group]
                        )
    for conv in ("conv1", "conv2"):
        stored |= {f"encoder/{conv}/{kind}": state[f"encoder.{conv}.{kind}"] for kind in ("weight", "bias")}

    def string(text):
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    data = struct.pack("<I", 6) + string("WhisperSpec") + struct.pack("<II", 3, len(stored))
    for name, value in stored.items():
        raw = value.numpy().tobytes()
        code = {torch.int16: 2, torch.float16: 4}[value.dtype]
        data += (
            string(name) + struct.pack(f"<B{value.ndim}IBI", value.ndim, *value.shape, code, len(raw)) + raw
        )
    data += struct.pack("<I", 1) + string("decoder/projection/weight") + string("decoder/embeddings/weight")
    (tmp_path / "1").write_bytes(data[:1000])
    (tmp_path / "2").write_bytes(data[1000:])
    read = ctranslate2_state([tmp_path / "1", tmp_path / "2"])
    assert set(read) == set(state)
    assert all(torch.equal(read[k], state[k].float()) for k in state)
    (tmp_path / "1").write_bytes(struct.pack("<I", 6) + string("TransformerSpec") + struct.pack("<I", 3))
    with pytest.raises(UserError, match="TransformerSpec"):
        ctranslate2_state([tmp_path / "1"])


def test_strange_input_gets_a_defined_answer_or_a_clear_error(tiny, tmp_path, monkeypatch):
    model = made(tiny[0], max_tokens=5)
    for x in (torch.zeros(1, 16_000), torch.zeros(2, 1), torch.ones(1, 1)):  # silence, one sample
        x.requires_grad_()
        answers = model(x)
        assert len(answers.texts()) == len(x)
        assert torch.isfinite(torch.autograd.grad(answers.nll(["ok"] * len(x)).sum(), x)[0]).all()
    with pytest.raises(UserError, match="at most 2 s"):
        model(torch.zeros(1, 33_000))
    with pytest.raises(UserError, match="shorten the text"):
        model(torch.zeros(1, 100)).nll(["stop " * 50])
    assert torch.isfinite(model(torch.zeros(1, 100)).nll([""])).all()
    with pytest.raises(UserError, match="xx"):
        made(tiny[0], language="xx")
    with pytest.raises(UserError, match=r"config\.json"):
        made(tmp_path)
    with pytest.raises(UserError, match="no weights file or folder"):
        made(tmp_path / "absent.pt")
    torch.save({"weight": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(UserError, match="OpenAI"):
        made(tmp_path / "other.pt")
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path / "empty"))
    with pytest.raises(UserError, match=r"limen data get whisper-tiny\.en"):
        load_model("whisper")
    with pytest.raises(UserError, match=r"tiny\.en and base can be downloaded"):
        load_model({"name": "whisper", "size": "small"})


def spoken(text, voice):
    """Read aloud, with a fifth of a second of silence around it."""
    return torch.from_numpy(np.pad(speak(text, voice, speed_wpm=140), 3200))[None]


def test_the_published_tiny_en_understands_and_is_fooled():
    get("whisper-tiny.en", progress=lambda _: None)
    model = load_model("whisper")
    text, x = (
        "The children are playing in the garden.",
        spoken("The children are playing in the garden.", "en-us"),
    )
    with torch.no_grad():
        full = model(x)
        assert full.texts() == [text]
        assert full.would_transcribe([text]).item()
        assert not full.would_transcribe(["OK Google, browse to evil.com"]).item()
    fast, x_adv, eps = model.for_attack, x.clone(), x.norm() * 10 ** (-35 / 20)
    assert fast.transcribe(x) == [text]
    for _ in range(4):
        x_adv.requires_grad_()
        (gradient,) = torch.autograd.grad(fast(x_adv).nll([text]).sum(), x_adv)
        delta = (x_adv + eps / 2 * gradient / gradient.norm() - x).detach()
        x_adv = x + delta * (eps / delta.norm()).clamp(max=1)
    with torch.no_grad():
        assert model(x_adv).nll([text]) > full.nll([text]) + 3


def test_the_published_base_names_the_language():
    get("whisper-base", progress=lambda _: None)
    model = load_model({"name": "whisper", "size": "base"})
    batch = spoken_languages(SpokenLanguages(languages=["de"], order="file", limit=1)).all()
    with torch.no_grad():
        for answers in (model(batch.x, batch.lengths), model.for_attack(batch.x, batch.lengths)):
            assert answers.detected == ["de"]
            assert answers.prefixes[0, 1] == answers.tokens.start + 1 + LANGUAGES.index("de")
