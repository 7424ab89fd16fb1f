"""Layers of the recognisers, on clips that lie end to end: what torch's own layers give to each clip, and the
same bits in any batch."""

import pytest
import torch
import torch.nn.functional as F

from limen.audio.mel import LogMel
from limen.models.base.load import load_model
from limen.models.speech.encoders import Front, Recurrent, convolved
from limen.models.speech.packed_clips import unpack
from limen.models.speech.recurrent import Order, both_ways
from limen.models.speech.transformer_layers import Convolution

HEADS = [
    (name, {"head": head})
    for name in ("lstm_seq2seq", "transformer_seq2seq")
    for head in ("attention", "ctc")
]
LENGTHS = torch.tensor([16000, 401, 12345, 9000])


@pytest.fixture
def one_thread():
    """In which every share of a batch, and every single clip, is searched; products in two are cut by the
    number of rows."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def fresh(name, **options):
    return load_model({"name": name, "weights": "random", **options})


def noise(lengths=LENGTHS):
    x = torch.rand(len(lengths), int(lengths.max()), generator=torch.Generator().manual_seed(0)) * 0.6 - 0.3
    return x * (torch.arange(x.shape[1]) < lengths[:, None])


@pytest.mark.parametrize("clips", [[9, 1, 4], [5], [3, 3], [2, 7, 1, 6, 4, 4]])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_both_directions_at_once_and_all_their_gradients_are_those_of_the_layers_of_torch(kind, clips):
    peer = kind(6, 5, bidirectional=True).double()
    x = torch.randn(
        sum(clips), 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True
    )
    found = both_ways(x, Order.of(clips, x), peer.all_weights)
    expected = torch.cat([peer(clip)[0] for clip in x.split(clips)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    asked, weights = (
        [x, *peer.parameters()],
        torch.randn(found.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64),
    )
    ours, theirs = (torch.autograd.grad((y * weights).sum(), asked) for y in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_the_recurrent_layers_are_layers_of_torch_with_norms_between_them():
    ours, frames = Recurrent(6, 5, 2, dropout=0.0), [9, 1, 4]
    x = torch.randn(14, 6, generator=torch.Generator().manual_seed(0))
    expected = x
    for ahead, back, norm in zip(ours.forwards, ours.backwards, ours.norms, strict=True):
        peer = torch.nn.LSTM(expected.shape[1], 5, bidirectional=True)
        peer.load_state_dict(
            {**ahead.state_dict(), **{f"{k}_reverse": v for k, v in back.state_dict().items()}}
        )
        expected = norm(torch.cat([peer(clip)[0] for clip in expected.split(frames)]))
    torch.testing.assert_close(ours(x, frames), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (torch.nn.Conv1d(6, 5, 5, stride=2, padding=2), (11, 6)),
        (torch.nn.Conv1d(6, 5, 5, padding=2), (1, 6)),
        (torch.nn.Conv2d(3, 4, 3, stride=2, padding=1), (10, 7, 3)),
    ],
)
def test_convolutions_as_products_of_windows_and_their_gradients_are_those_of_torch(layer, shape):
    layer = layer.double()
    x = torch.randn(
        shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True
    )
    found, expected = convolved(x, layer), layer(x.movedim(-1, 0)[None])[0].movedim(0, -1)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    asked = [x, *layer.parameters()]
    ours, theirs = (torch.autograd.grad(y.square().sum(), asked) for y in (found, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("name", "options"), [("ctc_small", {}), ("deepspeech2", {}), *HEADS])
def test_in_single_precision_a_clip_gets_the_very_bits_that_it_gets_alone(name, options):
    model, texts = (
        load_model({"name": name, **options}),
        ["one", "say it again", "four five", "a", "nine two", "seven", "the door"],
    )
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
    found = ours(x[kept], [7, 4], F.pad(kept, (0, 9)).float().log()[:, None, None])
    torch.testing.assert_close(found, expected[kept], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", [1, 3, 15])
def test_frames_mixed_end_to_end_and_their_gradients_are_those_of_a_depthwise_convolution_of_each_clip(
    kernel,
):
    ours, frames = Convolution(6, kernel).double(), [9, 1, 4]
    ours.gated, ours.norm, ours.out = (
        torch.nn.Linear(6, 12).double(),
        torch.nn.Identity(),
        torch.nn.Identity(),
    )
    x = torch.randn(
        14, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True
    )
    asked = [x, *ours.depthwise.parameters()]
    found = ours(x, frames)
    expected = torch.cat(
        [F.silu(ours.depthwise(F.glu(ours.gated(clip), 1).t())).t() for clip in x.split(frames)]
    )
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(found.square().sum(), asked),
        torch.autograd.grad(expected.square().sum(), asked),
        rtol=1e-10,
        atol=1e-10,
    )


@pytest.mark.parametrize(
    "lengths",
    [[16000, 401, 12345, 9000], [400, 7, 0], [3000, 3001, 3160, 3161, 3320, 3321, 3480, 3481], [5000]],
)
def test_clips_end_to_end_on_one_row_get_what_padded_ones_and_lonely_ones_get(lengths):
    front, mel = Front(40, 4).double(), LogMel(channels=40).double()
    x = noise(torch.tensor(lengths)).double().requires_grad_()
    row, frames = front(x, torch.tensor(lengths), mel)
    padded = unpack(row, frames)
    assert row.shape == (sum(frames), front.width)
    for i, n in enumerate(lengths):
        (alone, own), steps = front(x[i : i + 1, :n], torch.tensor([n]), mel), frames[i]
        assert own == [steps]
        torch.testing.assert_close(padded[i, :steps], alone, rtol=1e-10, atol=1e-10)
        assert (padded[i, steps:] == 0).all()
        both = (
            torch.autograd.grad(padded[i].square().sum(), x, retain_graph=True)[0],
            torch.autograd.grad(alone.square().sum(), x)[0],
        )
        torch.testing.assert_close(*both, rtol=1e-10, atol=1e-10)
        hidden = mel(F.pad(x[i : i + 1, :n], (0, max(400 - n, 0)))).unsqueeze(1)
        for convolution, norm in zip(front.convolutions, front.norms, strict=True):
            hidden = convolution(hidden)
            hidden = (
                norm(hidden.transpose(1, 2).flatten(2))
                .relu()
                .unflatten(2, hidden.shape[1::2])
                .transpose(1, 2)
            )
        torch.testing.assert_close(alone, hidden.transpose(1, 2).flatten(2)[0], rtol=1e-10, atol=1e-10)


def test_the_two_directions_of_the_small_recogniser_are_those_of_its_layer():
    network = fresh("ctc_small").network.double()
    heard = []
    network.linear.register_forward_pre_hook(lambda _, given: heard.append(given[0]))
    seen = []
    network.norm2.register_forward_hook(lambda _, __, out: seen.append(out.relu()))
    with torch.no_grad():
        _, frames = network(noise().double(), LENGTHS)
        for i, clip in enumerate(seen[0].split(frames.tolist())):
            torch.testing.assert_close(
                heard[0][i, : len(clip)], network.gru(clip[None])[0][0], rtol=1e-10, atol=1e-10
            )
