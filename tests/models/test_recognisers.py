"""The recognisers of the zoo: a batch gives what its members give alone, decoding does what the likelihoods say, and they hear."""

import functools
import itertools
import math

import pytest
import torch
import torch.nn.functional as F

from limen.audio.mel import LogMel
from limen.components import parse
from limen.errors import UserError
from limen.models._attention import AttentionTranscripts
from limen.models._beam import END, beam_search
from limen.models._ctc import ALPHABET, CtcTranscripts
from limen.models._encoders import Front, Recurrent, apart, convolved
from limen.models._load import load_model
from limen.models._recurrent import Order, both_ways
from limen.models._score import score
from limen.models.transformer_seq2seq import Convolution
from limen.types import Transcripts

SEQ2SEQ = ["lstm_seq2seq", "transformer_seq2seq"]
ANSWERING = [("ctc_small", {}), ("deepspeech2", {}), *((name, {"head": head}) for name in SEQ2SEQ for head in ("attention", "ctc"))]
LENGTHS = torch.tensor([16000, 401, 12345, 9000])


def fresh(name, **options):
    """Random weights; what decoders answer spread out, so that the likeliest token is clear."""
    model = load_model({"name": name, "weights": "random", **options})
    if name in SEQ2SEQ:
        with torch.no_grad():
            model.network.decoder.linear.weight *= 4
    return model


@functools.cache
def clips(n):
    component, options = parse("data", {"name": "short_sentences", "split": "test", "limit": n})
    return component.function(options)


def noise(lengths=LENGTHS):
    x = torch.rand(len(lengths), int(lengths.max()), generator=torch.Generator().manual_seed(0)) * 0.6 - 0.3
    return x * (torch.arange(x.shape[1]) < lengths[:, None])


@pytest.mark.parametrize(("name", "options"), ANSWERING)
@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_a_clip_in_a_batch_gets_what_it_gets_alone(name, options, decoding):
    model, x = fresh(name, decoding=decoding, beam_width=3, **options), noise()
    texts = ["a bad", "a", "say", ""]
    with torch.no_grad():
        together = model(x, LENGTHS)
        for i, n in enumerate(LENGTHS.tolist()):
            alone = model(x[i : i + 1, :n])
            assert alone.texts() == together.texts()[i : i + 1]
            torch.testing.assert_close(alone.nll(texts[i : i + 1]), together.nll(texts)[i : i + 1], rtol=1e-5, atol=1e-5)
            assert together.rows(torch.tensor([i])).texts() == alone.texts()
    assert isinstance(together, Transcripts)


@pytest.mark.parametrize(("name", "options"), ANSWERING)
def test_gradients_reach_the_clip_and_never_its_padding(name, options):
    model, x = fresh(name, **options), noise().requires_grad_()
    (gradient,) = torch.autograd.grad(model(x, LENGTHS).nll(["a", "b", "two", ""]).sum(), x)
    assert torch.isfinite(gradient).all()
    assert (gradient.abs().amax(1) > 0).all()
    assert all((gradient[i, n:] == 0).all() for i, n in enumerate(LENGTHS.tolist()))


@pytest.mark.parametrize(("name", "options"), ANSWERING)
def test_silence_and_clips_without_samples_have_answers_and_finite_gradients(name, options):
    model = fresh(name, **options)
    for x in (torch.zeros(2, 8000), torch.zeros(1, 1), torch.zeros(1, 0)):
        x.requires_grad_()
        outputs = model(x)
        assert len(outputs.texts()) == len(x)
        (gradient,) = torch.autograd.grad(outputs.nll(["a"] * len(x)).sum(), x)
        assert torch.isfinite(gradient).all()
    nothing = model(torch.zeros(2, 4000), torch.tensor([4000, 0]))
    assert nothing.texts()[1:] == model(torch.zeros(1, 0)).texts()


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_teacher_forcing_gives_what_one_step_after_another_gives(name):
    model, x = fresh(name).double(), noise().double()
    outputs = model(x, LENGTHS)
    texts = ["four five", "", "say it", "no"]
    logits, tokens = outputs._teacher_forced(texts)
    memory, decoder = outputs._read(), model.network.decoder
    state, given = decoder.start(memory), torch.zeros(4, dtype=torch.long)
    for t in range(tokens.shape[1]):
        now, state = decoder.step(given, state, memory)
        torch.testing.assert_close(now, logits[:, t], rtol=1e-9, atol=1e-9)
        given = tokens[:, t].clamp_min(0)
    log_probs = logits.log_softmax(2)
    for i, text in enumerate(texts):
        wanted = [*(ALPHABET.index(c) + 1 for c in text), END]
        parts = torch.stack([-log_probs[i, t, s] for t, s in enumerate(wanted)])
        torch.testing.assert_close(outputs.nll(texts)[i], parts.sum())
        scaled = (parts.sum() + 3 * parts[0]) * len(wanted) / (len(wanted) + 3)
        torch.testing.assert_close(outputs.nll(texts, first_weight=3.0)[i], scaled)


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_says_is_true_of_the_greedy_text_and_of_no_other(name):
    batch = clips(8).all()
    with torch.no_grad():
        outputs = load_model(name)(batch.x, batch.lengths)
        heard = outputs.texts()
        assert outputs.says(heard).all()
        for others in ([text[:-1] for text in heard], [text + "s" for text in heard], ["b" + text[1:] for text in heard]):
            expected = [text == other for text, other in zip(heard, others, strict=True)]
            assert outputs.says(others).tolist() == expected
        assert outputs.says([text[:3] + "xyz" for text in heard], first=3).all()
        assert outputs.says([text[:3] + "xyz" for text in heard], [3, 2, 1, 4, 4, 0, 3, 9]).tolist() == [
            True,
            True,
            True,
            False,
            False,
            True,
            True,
            False,
        ]


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_text_that_fills_its_clip_needs_no_end(name):
    model = fresh(name)
    with torch.no_grad():
        model.network.decoder.linear.bias[END] = -100.0
        outputs = model(noise(), LENGTHS)
        assert [len(text) for text in outputs.texts()] == outputs.frames.tolist()
        assert outputs.says(outputs.texts()).all()


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_says_and_nll_of_the_same_texts_run_the_decoder_once(name):
    model = fresh(name)
    outputs, runs = model(noise(), LENGTHS), []
    forced = model.network.decoder.forced
    model.network.decoder.forced = lambda *given: runs.append(1) or forced(*given)
    outputs.nll(["a"] * 4)
    outputs.says(["a"] * 4)
    outputs.nll(["a"] * 4, first_weight=2.0)
    assert len(runs) == 1
    outputs.nll(["b"] * 4)
    assert len(runs) == 2


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_the_head_that_is_not_asked_does_no_work(name):
    for head, idle in (("ctc", "decoder"), ("attention", "ctc")):
        model, runs = fresh(name, head=head), []
        for layer in getattr(model.network, idle).modules():
            layer.register_forward_hook(lambda *_, runs=runs: runs.append(1))
        outputs = model(noise(), LENGTHS)
        outputs.nll(["a"] * 4)
        outputs.texts()
        assert isinstance(outputs, CtcTranscripts if head == "ctc" else AttentionTranscripts)
        assert not runs


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_both_heads_share_their_encoder_and_learn_from_the_same_loss(name):
    x, texts = noise(), ["four", "a", "say it", ""]
    attention, ctc = fresh(name, training_ctc_weight=0.3), fresh(name, head="ctc", training_ctc_weight=0.3)
    one, other = attention(x, LENGTHS), ctc(x, LENGTHS)
    torch.testing.assert_close(one.training_loss(texts), other.training_loss(texts))
    mixed = (0.3 * other.nll(texts) + 0.7 * one.nll(texts)) / torch.tensor([len(t) + 1 for t in texts])
    torch.testing.assert_close(one.training_loss(texts), mixed)
    other.training_loss(texts).sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in ctc.parameters())


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_text_longer_than_the_clip_or_outside_the_alphabet_is_named(name):
    outputs = fresh(name)(noise()[:1])
    with pytest.raises(UserError, match=r"has 26 characters, but a clip of 25 frames of 40 ms is given at most 25"):
        outputs.nll(["a" * 26])
    with pytest.raises(UserError, match="cannot spell: 'Ä'"):
        outputs.nll(["Ä"])
    assert max(len(text) for text in fresh(name)(noise(), LENGTHS).texts()) <= 25


def table(seed, tokens=4, longest=4):
    """A decoder that is a table: log-probabilities of the next token after every prefix."""
    g = torch.Generator().manual_seed(seed)
    rows = {p: torch.randn(tokens, generator=g, dtype=torch.float64).log_softmax(0)
            for n in range(longest) for p in itertools.product(range(1, tokens), repeat=n)}  # fmt: skip

    def step(last, state, clips):
        prefixes = [tuple(s for s in [*row, t] if s != END) for row, t in zip(state[0].tolist(), last.tolist(), strict=True)]
        return torch.stack([rows[p] for p in prefixes]), (torch.cat([state[0], last[:, None]], 1),)

    return rows, step


def likelihood(rows, text, longest):
    total = sum(rows[text[:i]][s].item() for i, s in enumerate(text))
    return total + (rows[text][END].item() if len(text) < longest else 0.0)


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_of_one_is_greedy_and_a_wide_one_finds_the_likeliest_text(seed):
    rows, step = table(seed)
    start = (torch.zeros(1, 0, dtype=torch.long),)
    greedy = ()
    while len(greedy) < 4 and (token := int(rows[greedy].argmax())) != END:
        greedy = (*greedy, token)
    ((text, value),) = beam_search(step, start, [4], 1)
    assert tuple(text) == greedy
    assert value == pytest.approx(likelihood(rows, greedy, 4))
    every = [p for n in range(5) for p in itertools.product(range(1, 4), repeat=n)]
    best = max(every, key=lambda p: likelihood(rows, p, 4))
    ((text, wide),) = beam_search(step, start, [4], 200)
    assert tuple(text) == best
    assert wide == pytest.approx(likelihood(rows, best, 4))
    for width in (2, 3, 5):
        ((text, value),) = beam_search(step, start, [4], width)
        assert value == pytest.approx(likelihood(rows, tuple(text), 4))
        assert value <= wide + 1e-12


def clips_of_a_beam_search_keep_to_themselves():
    _, step = table(3)
    alone = [beam_search(step, (torch.zeros(1, 0, dtype=torch.long),), [limit], 3)[0] for limit in (1, 4, 2)]
    assert beam_search(step, (torch.zeros(3, 0, dtype=torch.long),), [1, 4, 2], 3) == alone
    assert len(alone[0][0]) <= 1


@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_beam_is_never_less_likely_than_greedy_decoding_on_these_clips(name):
    batch = clips(8).all()

    def heard(**options):
        return load_model({"name": name, **options})(batch.x, batch.lengths)

    with torch.no_grad():
        greedy = heard()
        for width in (2, 6):
            beam = heard(decoding="beam", beam_width=width)
            assert (greedy.nll(beam.texts()) <= greedy.nll(greedy.texts()) + 1e-4).all()
        assert beam.says(greedy.texts()).all()  # says speaks of greedy decoding, whatever texts() does
        assert heard(decoding="beam", beam_width=1).texts() == greedy.texts()


@pytest.mark.parametrize("clips", [[9, 1, 4], [5], [3, 3], [2, 7, 1, 6, 4, 4]])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_both_directions_at_once_and_all_their_gradients_are_those_of_the_layers_of_torch(kind, clips):
    peer = kind(6, 5, bidirectional=True).double()
    x = torch.randn(sum(clips), 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    found = both_ways(x, Order(clips, x), peer.all_weights)
    expected = torch.cat([peer(clip)[0] for clip in x.split(clips)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    asked, weights = [x, *peer.parameters()], torch.randn(found.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((y * weights).sum(), asked) for y in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_the_recurrent_layers_are_layers_of_torch_with_norms_between_them():
    ours, frames = Recurrent(6, 5, 2, dropout=0.0), [9, 1, 4]
    x = torch.randn(14, 6, generator=torch.Generator().manual_seed(0))
    expected = x
    for ahead, back, norm in zip(ours.forwards, ours.backwards, ours.norms, strict=True):
        peer = torch.nn.LSTM(expected.shape[1], 5, bidirectional=True)
        peer.load_state_dict({**ahead.state_dict(), **{f"{k}_reverse": v for k, v in back.state_dict().items()}})
        expected = norm(torch.cat([peer(clip)[0] for clip in expected.split(frames)]))
    torch.testing.assert_close(ours(x, frames), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("layer", "shape"), [
    (torch.nn.Conv1d(6, 5, 5, stride=2, padding=2), (11, 6)),
    (torch.nn.Conv1d(6, 5, 5, padding=2), (1, 6)),
    (torch.nn.Conv2d(3, 4, 3, stride=2, padding=1), (10, 7, 3)),
])  # fmt: skip
def test_convolutions_as_products_of_windows_and_their_gradients_are_those_of_torch(layer, shape):
    layer = layer.double()
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    found, expected = convolved(x, layer), layer(x.movedim(-1, 0)[None])[0].movedim(0, -1)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    asked = [x, *layer.parameters()]
    ours, theirs = (torch.autograd.grad(y.square().sum(), asked) for y in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), ANSWERING)
def test_in_single_precision_a_clip_gets_the_very_bits_that_it_gets_alone(name, options):
    model, texts = load_model({"name": name, **options}), ["one", "say it again", "four five", "a", "nine two", "seven", "the door"]
    lengths = torch.tensor([16000, 9001, 12345, 44000, 30300, 4321, 27777])
    x = noise(lengths)

    def slopes(rows):
        longest = int(lengths[rows].max())
        leaf = x[rows, :longest].clone().requires_grad_()
        losses = model(leaf, lengths[rows]).nll([texts[i] for i in rows])
        return losses, torch.autograd.grad(losses.sum(), leaf)[0]

    losses, together = slopes(list(range(7)))
    for rows in ([0], [5], [3], [2, 6], [5, 1, 0], [4, 3, 2, 1, 0]):
        some, gradients = slopes(rows)
        for loss, gradient, i in zip(some, gradients, rows, strict=True):
            assert torch.equal(gradient[: lengths[i]], together[i, : lengths[i]])
            assert torch.equal(loss, losses[i])


def test_one_transformer_layer_equals_the_one_of_torch():
    model = fresh("transformer_seq2seq", dropout=0.0, kernel=0, inner_width=512)
    ours, d = model.network.encoder.layers[0], 128
    peer = torch.nn.TransformerEncoderLayer(d, 4, 512, 0.0, batch_first=True, norm_first=True)
    own = ours.itself
    peer.self_attn.in_proj_weight.data = torch.cat([own.query.weight, own.key_value.weight]).data
    peer.self_attn.in_proj_bias.data = torch.cat([own.query.bias, own.key_value.bias]).data
    peer.self_attn.out_proj.load_state_dict(own.out.state_dict())
    peer.norm1.load_state_dict(ours.norms[0].state_dict())
    peer.norm2.load_state_dict(ours.norms[1].state_dict())
    peer.linear1.load_state_dict(ours.inner[0].state_dict())
    peer.linear2.load_state_dict(ours.inner[3].state_dict())
    x = torch.randn(2, 7, d, generator=torch.Generator().manual_seed(0))
    kept = torch.arange(7) < torch.tensor([[7], [4]])
    expected = peer.train()(x, src_key_padding_mask=~kept)  # in training mode torch takes no shortcut
    torch.testing.assert_close(ours(x[kept], [7, 4]), expected[kept], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", [1, 3, 15])
def test_frames_mixed_end_to_end_and_their_gradients_are_those_of_a_depthwise_convolution_of_each_clip(kernel):
    ours, frames = Convolution(6, kernel).double(), [9, 1, 4]
    ours.gated, ours.norm, ours.out = torch.nn.Linear(6, 12).double(), torch.nn.Identity(), torch.nn.Identity()
    x = torch.randn(14, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    asked = [x, *ours.depthwise.parameters()]
    found = ours(x, frames)
    expected = torch.cat([F.silu(ours.depthwise(F.glu(ours.gated(clip), 1).t())).t() for clip in x.split(frames)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), asked), torch.autograd.grad(expected.square().sum(), asked), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("lengths", [[16000, 401, 12345, 9000], [400, 7, 0], [3000, 3001, 3160, 3161, 3320, 3321, 3480, 3481], [5000]])
def test_clips_end_to_end_on_one_row_get_what_padded_ones_and_lonely_ones_get(lengths):
    front, mel = Front(40, 4).double(), LogMel(channels=40).double()
    x = noise(torch.tensor(lengths)).double().requires_grad_()
    row, frames = front(x, torch.tensor(lengths), mel)
    padded = apart(row, frames)
    assert row.shape == (sum(frames), front.width)
    for i, n in enumerate(lengths):
        (alone, own), steps = front(x[i : i + 1, :n], torch.tensor([n]), mel), frames[i]
        assert own == [steps]
        torch.testing.assert_close(padded[i, :steps], alone, rtol=1e-10, atol=1e-10)
        assert (padded[i, steps:] == 0).all()
        both = torch.autograd.grad(padded[i].square().sum(), x, retain_graph=True)[0], torch.autograd.grad(alone.square().sum(), x)[0]
        torch.testing.assert_close(*both, rtol=1e-10, atol=1e-10)
        hidden = mel(F.pad(x[i : i + 1, :n], (0, max(400 - n, 0)))).unsqueeze(1)
        for convolution, norm in zip(front.convolutions, front.norms, strict=True):
            hidden = convolution(hidden)
            hidden = norm(hidden.transpose(1, 2).flatten(2)).relu().unflatten(2, hidden.shape[1::2]).transpose(1, 2)
        torch.testing.assert_close(alone, hidden.transpose(1, 2).flatten(2)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("name", "options"), ANSWERING)
def test_in_double_precision_a_batch_gives_losses_and_gradients_of_its_members_to_ten_digits(name, options):
    model, x, texts = fresh(name, **options).double(), noise().double().requires_grad_(), ["a bad", "a", "say", ""]
    losses = model(x, LENGTHS).nll(texts)
    (together,) = torch.autograd.grad(losses.sum(), x)
    for i, n in enumerate(LENGTHS.tolist()):
        one = x[i : i + 1, :n].detach().requires_grad_()
        loss = model(one).nll(texts[i : i + 1])
        torch.testing.assert_close(loss[0], losses[i], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(torch.autograd.grad(loss.sum(), one)[0][0], together[i, :n], rtol=1e-8, atol=1e-10)


def test_the_two_directions_of_the_small_recogniser_are_those_of_its_layer():
    network = fresh("ctc_small").network.double()
    heard = []
    network.linear.register_forward_pre_hook(lambda _, given: heard.append(given[0]))
    seen = []
    network.norm2.register_forward_hook(lambda _, __, out: seen.append(out.relu()))
    with torch.no_grad():
        _, frames = network(noise().double(), LENGTHS)
        for i, clip in enumerate(seen[0].split(frames.tolist())):
            torch.testing.assert_close(heard[0][i, : len(clip)], network.gru(clip[None])[0][0], rtol=1e-10, atol=1e-10)


def test_the_attention_of_the_lstm_decoder_is_the_equation_of_the_paper():
    decoder = fresh("lstm_seq2seq").network.decoder
    g = torch.Generator().manual_seed(0)
    hidden, before = torch.randn(1, 6, 256, generator=g), torch.rand(1, 6, generator=g).softmax(1)
    state = torch.randn(1, 192, generator=g), torch.randn(1, 192, generator=g), torch.randn(1, 256, generator=g), before
    mask = torch.tensor([[True] * 5 + [False]])
    _, (s, _, context, alpha) = decoder.step(torch.tensor([3]), state, decoder.read(hidden, mask))
    f = F.conv1d(before[:, None], decoder.location.weight, padding=7)[0]
    w, w_s, u = decoder.energy.weight[0], decoder.of_state.weight, decoder.of_location.weight
    e = [w @ torch.tanh(w_s @ s[0] + decoder.of_frames(hidden[0, j]) + u @ f[:, j]) for j in range(5)]
    torch.testing.assert_close(alpha[0], torch.cat([torch.stack(e).softmax(0), torch.zeros(1)]), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(context[0], sum(alpha[0, j] * hidden[0, j] for j in range(5)), rtol=1e-4, atol=1e-6)


def test_heads_must_divide_the_width():
    with pytest.raises(UserError, match="width must be a multiple of heads, but 128 and 3 came"):
        load_model({"name": "transformer_seq2seq", "weights": "random", "heads": 3})


@pytest.mark.parametrize(
    ("name", "options"),
    [("deepspeech2", {"layers": 1, "width": 16, "bands": 80, "channels": 4}),
     ("lstm_seq2seq", {"layers": 1, "width": 16, "decoder_width": 20}),
     ("transformer_seq2seq", {"width": 24, "heads": 2, "encoder_layers": 1, "decoder_layers": 1})],
)  # fmt: skip
def test_other_sizes_come_by_options(name, options):
    model = load_model({"name": name, "weights": "random", **options})
    assert len(model(noise(), LENGTHS).texts()) == 4
    assert sum(p.numel() for p in model.parameters()) < 200_000


def test_words_of_a_shipped_recogniser_are_found_where_they_are_said():
    model, data = load_model("deepspeech2"), clips(8)
    for sample in data:
        outputs = model(sample.x[None])
        (words,) = outputs.align([sample.y])
        assert [word for word, _, _ in words] == sample.y.split()
        times = [t for _, start, end in words for t in (start, end)]
        assert times == sorted(times)
        assert 0 <= times[0] < times[-1] <= math.ceil(len(sample.x) / 16_000 / 0.04) * 0.04 + 1e-9


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [("deepspeech2", {}, 0.15), *((name, {"head": head}, most) for name in SEQ2SEQ for head, most in (("attention", 0.06), ("ctc", 0.18)))],
)
def test_shipped_recognisers_hear_voices_and_sentences_they_never_met(name, options, most):
    # the cards hold what 300 clips give; of 50 the rate strays by a few points
    assert score(load_model({"name": name, **options}), clips(50))["wer"] < most
