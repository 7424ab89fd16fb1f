"""Models whose weights are fetched, read from files in the layout of the published ones."""

import h5py
import numpy as np
import onnx
import pytest
import torch

from limen.audio.files import write_clip
from limen.core.errors import UserError
from limen.data.fetch.cache import RECORD
from limen.models.base.load import load_model
from limen.models.base.model import inner
from limen.models.speaker_encoder import slaney_filters, windows


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache folder in which `place(name)` makes the folder of something fetched."""
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))

    def place(name):
        (tmp_path / name).mkdir()
        (tmp_path / name / RECORD).write_text("{}")
        return tmp_path / name

    return place


def same(a, b):
    a, b = inner(a).state_dict(), inner(b).state_dict()
    return all(torch.equal(a[k], b[k]) for k in a if "tracked" not in k)


def test_lenet5_reads_the_file_of_each_variant(cache):
    folder = cache("lenet5")
    made = {}
    for seed, (variant, file) in enumerate((("standard", "clntrained"), ("adversarial", "advtrained"))):
        made[variant] = load_model({"name": "lenet5", "weights": "random", "init_seed": seed})
        torch.save(inner(made[variant]).state_dict(), folder / f"mnist_lenet5_{file}.pt")
    for variant, model in made.items():
        assert same(load_model({"name": "lenet5", "variant": variant}), model)


def test_efficientnet_reads_its_file(cache):
    made = load_model({"name": "efficientnet_lite0", "weights": "random", "init_seed": 2})
    state = inner(made).state_dict()
    assert state["_blocks.15._project_conv.weight"].shape == (320, 1152, 1, 1)
    torch.save(state, cache("efficientnet_lite0") / "efficientnet-lite0-57934424.pth")
    assert same(load_model("efficientnet_lite0"), made)


def test_cifar_resnet_reads_keras_weights_with_channels_last(cache):
    made = load_model({"name": "cifar_resnet", "weights": "random", "init_seed": 2})
    with h5py.File(cache("cifar_resnet") / "image_classification.h5", "w") as file:
        for name, layer in inner(made).named_modules():
            if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
                kernel = layer.weight.detach()
                kernel = kernel.permute(2, 3, 1, 0) if kernel.ndim == 4 else kernel.T
                file[f"model_weights/{name}/{name}/kernel:0"], file[f"model_weights/{name}/{name}/bias:0"] = (
                    kernel,
                    layer.bias.detach(),
                )
            elif isinstance(layer, torch.nn.BatchNorm2d):
                values = {"gamma": layer.weight.detach(), "beta": layer.bias.detach()}
                values |= {"moving_mean": layer.running_mean, "moving_variance": layer.running_var}
                for key, value in values.items():
                    file[f"model_weights/{name}/{name}/{key}:0"] = value
        file.create_group("model_weights/activation")
    assert same(load_model("cifar_resnet"), made)


def test_wake_word_reads_its_three_onnx_files(cache):
    made = load_model({"name": "wake_word", "weights": "random", "init_seed": 2})
    state, folder = inner(made).state_dict(), cache("wake_word")
    names = {
        "melspectrogram": {
            "0.stft.conv_real.weight": "real",
            "0.stft.conv_imag.weight": "imaginary",
            "1.melW": "bands",
        },
        "embedding_model": {"model/conv2d_19/Conv2D/ReadVariableOp:0": "last.weight"},
        "alexa_v0.1": {f"{2 * i + 1}.{p}": f"head.{2 * i}.{p}" for i in range(3) for p in ("weight", "bias")},
    }
    for i in range(19):
        layer = f"model/conv2d{f'_{i}' if i else ''}/Conv2D"
        names["embedding_model"] |= {
            f"{layer}_weights_fused_bn": f"convs.{i}.weight",
            f"{layer}_bias_fused_bn": f"convs.{i}.bias",
        }
    for file, table in names.items():
        tensors = [
            onnx.numpy_helper.from_array(state[ours].numpy(), theirs) for theirs, ours in table.items()
        ]
        graph = onnx.helper.make_graph([], file, [], [], initializer=tensors)
        onnx.save(onnx.helper.make_model(graph), folder / f"{file}.onnx")
    assert same(load_model("wake_word"), made)


def test_one_pass_over_a_clip_gives_the_embedding_of_every_window():
    network = inner(load_model({"name": "wake_word", "weights": "random"}))
    mel = torch.randn(1, 76 + 3 * 8, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        alone = torch.cat([network._embed(mel[:, 8 * i : 8 * i + 76]) for i in range(4)], 1)
        torch.testing.assert_close(network._embed(mel), alone, rtol=1e-5, atol=1e-6)


def clip(hz, n=24_000, seed=0):
    noise = torch.randn(n, generator=torch.Generator().manual_seed(seed))
    return 0.2 * torch.sin(2 * torch.pi * hz * torch.arange(n) / 16000) + 0.01 * noise.clamp(-3, 3)


@pytest.fixture
def enrolled(tmp_path):
    for name, hz in (("ann", 220), ("bob", 900)):
        write_clip(tmp_path / "people" / name / "1.wav", clip(hz), 16000)
    return str(tmp_path / "people")


def test_a_clip_is_most_like_the_speaker_it_was_enrolled_as(cache, enrolled):
    made = load_model({"name": "speaker_encoder", "weights": "random", "enrolled": enrolled})
    torch.save(
        {"step": 1, "model_state": inner(made).state_dict()}, cache("speaker_encoder") / "pretrained.pt"
    )
    model = load_model({"name": "speaker_encoder", "enrolled": enrolled})
    assert model.classes == ["ann", "bob"]
    logits = model(torch.stack([clip(220), clip(900)]))
    torch.testing.assert_close(
        logits.diagonal(), torch.tensor([5.0, 5.0]), atol=1e-3, rtol=0
    )  # 10 cos - 5 of a clip with itself
    assert logits.argmax(1).tolist() == [0, 1]


def test_speakers_of_a_padded_batch_are_those_of_the_clips_alone_and_gradients_are_finite(enrolled):
    model = load_model({"name": "speaker_encoder", "weights": "random", "enrolled": enrolled})
    clips, lengths = (
        [clip(300, 40_000), clip(500, 9_000), torch.zeros(16_000)],
        torch.tensor([40_000, 9_000, 16_000]),
    )
    x = torch.nn.utils.rnn.pad_sequence(clips, batch_first=True).requires_grad_()
    together = model(x, lengths)
    torch.testing.assert_close(together, torch.cat([model(c[None]) for c in clips]), rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(together.pow(2).sum(), x)
    assert torch.isfinite(gradient).all()
    assert all((gradient[i, n:] == 0).all() for i, n in enumerate(lengths.tolist()))


def test_enrolment_needs_two_speakers_with_clips(tmp_path):
    (tmp_path / "only").mkdir()
    for folder, words in ((tmp_path, "at least two folders"), (tmp_path / "absent", "no folder")):
        with pytest.raises(UserError, match=words):
            load_model({"name": "speaker_encoder", "weights": "random", "enrolled": str(folder)})


def test_windows_cover_a_clip_as_resemblyzer_cuts_it():
    assert windows(8_000) == [0]  # shorter than a window
    assert windows(16_000 * 3) == [0, 77, 154]  # the third holds 143 of 160 frames
    assert windows(16_000 * 2) == [0, 77]


def test_slaney_filters_are_triangles_of_area_one():
    filters = slaney_filters(40, 2001, 16_000).double()  # a fine grid: 4 Hz
    np.testing.assert_allclose(filters.sum(0) * 4, 1, rtol=0.02)
    peaks = filters.argmax(0) * 4
    low = peaks[peaks < 900].float()
    assert (low.diff() - low.diff().mean()).abs().max() <= 4  # evenly spaced below 1 kHz
    high = peaks[peaks > 1200].float().log()
    assert (high.diff() - high.diff().mean()).abs().max() < 0.01  # and evenly in the logarithm above
