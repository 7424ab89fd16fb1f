"""Whisper's vocabulary: byte pairs of text, then the end, the start, one token per language, tasks and
timestamps, in this order."""

import base64
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from limen.core.errors import UserError, missing_package
from limen.data.fetch.cache import RECORD, cache_folder

CODES = """
en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr
bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn
yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su
yue
"""
LANGUAGES = CODES.split()
"""Codes in the order of their tokens; Cantonese, the last, was added with large-v3."""
TASKS = ("translate", "transcribe")
AFTER_LANGUAGES = 1501 + 6
"""Special tokens after the languages: two tasks, four marks, and timestamps from 0.00 to 30.00 s."""

SPLIT_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's split of a text before its byte pairs are joined."""
SINGLE_SIGNS = '"#()*+/:;<=>@[\\]^_`{|}~「」『』'
SIGNS = """ << >> <<< >>> -- --- -( -[ (' (" (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪ """
NOT_SPOKEN = [*SINGLE_SIGNS, *SIGNS.split()]
NOTES = "♩♪♫♬♭♮♯"
"""Symbols that describe a sound instead of speech, which Whisper never outputs."""


class Tokens:
    def __init__(self, ranks: dict[bytes, int], vocabulary: int, multilingual: bool):
        try:
            import tiktoken
        except ImportError:
            raise missing_package("The model whisper", "tiktoken", "models") from None
        self._pairs = tiktoken.Encoding(
            "whisper", pat_str=SPLIT_PATTERN, mergeable_ranks=ranks, special_tokens={}
        )
        self.end = len(ranks)
        self.start = self.end + 1
        self.vocabulary = vocabulary
        self.languages = LANGUAGES[: vocabulary - self.end - 2 - AFTER_LANGUAGES] if multilingual else []
        self._tasks = vocabulary - AFTER_LANGUAGES
        if self._tasks <= self.start:
            raise UserError(
                f"model whisper: {vocabulary} tokens cannot hold {len(ranks)} byte pairs and the special "
                "tokens: the vocabulary file belongs to another model."
            )

    @property
    def language_ids(self) -> slice:
        return slice(self.start + 1, self.start + 1 + len(self.languages))

    def prefix(self, language: str | None, task: str) -> list[int]:
        """Tokens before every text: start, language and task for a multilingual model, and no timestamps."""
        without_timestamps = self._tasks + 5
        if not self.languages:
            return [self.start, without_timestamps]
        assert language is not None
        return [
            self.start,
            self.start + 1 + self.languages.index(language),
            self._tasks + TASKS.index(task),
            without_timestamps,
        ]

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, after a space as in Whisper's outputs."""
        return self._pairs.encode_ordinary(f" {text.strip()}") if text.strip() else []

    def decode(self, tokens: Sequence[int]) -> str:
        return self._pairs.decode([t for t in tokens if t < self.end]).strip()

    @cached_property
    def suppressed(self) -> tuple[Tensor, Tensor]:
        """Masks (vocabulary,) of the tokens that are suppressed everywhere (symbols that are not spoken,
        special tokens except the end), and of those suppressed at the first position (a space, the end)."""
        encode = self._pairs.encode_ordinary
        found = {encode(" -")[0], encode(" '")[0]}
        for sign in (*NOT_SPOKEN, *NOTES):
            found |= {
                pieces[0]
                for pieces in (encode(sign), encode(f" {sign}"))
                if len(pieces) == 1 or sign in NOTES
            }
        never, never_first = torch.zeros(2, self.vocabulary, dtype=torch.bool)
        never[sorted(found)] = never[self.start :] = True
        never_first[[*encode(" "), self.end]] = True
        return never, never_first


def find_ranks(path: Path | None, multilingual: bool) -> dict[bytes, int]:
    """The byte pairs in the folder of the user's weights, otherwise the downloaded ones."""
    file = "multilingual.tiktoken" if multilingual else "gpt2.tiktoken"
    own = (
        []
        if path is None
        else [
            (path if path.is_dir() else path.parent) / name for name in (file, "tokenizer.json", "vocab.json")
        ]
    )
    name = "whisper-base" if multilingual else "whisper-tiny.en"
    fetched = [cache_folder() / name / file] if (cache_folder() / name / RECORD).is_file() else []
    for candidate in (*own, *fetched):
        if candidate.is_file():
            return _read_ranks(candidate)
    raise UserError(
        f"model whisper: its vocabulary {file} is not on this machine. Download it: limen data get {name}"
        + (f", or put {file} or tokenizer.json into {own[0].parent}." if own else ".")
    )


def _read_ranks(path: Path) -> dict[bytes, int]:
    try:
        if path.suffix == ".json":
            read = json.loads(path.read_text(encoding="utf-8"))
            return _from_printable(read["model"]["vocab"] if path.name == "tokenizer.json" else read)
        lines = (line.split() for line in path.read_bytes().splitlines() if line)
        return {base64.b64decode(token): int(rank) for token, rank in lines}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: cannot be read as a vocabulary ({error}).") from None


def _from_printable(vocabulary: dict[str, int]) -> dict[bytes, int]:
    """Hugging Face represents bytes as printable characters: printable bytes as themselves, the others as
    characters from 256 on."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in prints]
    byte_of = {chr(b): b for b in prints} | {chr(256 + i): b for i, b in enumerate(others)}
    pairs = sorted(vocabulary.items(), key=lambda item: item[1])
    return {
        bytes(byte_of[c] for c in text): rank
        for text, rank in pairs
        if not (text.startswith("<|") and text.endswith("|>"))
    }
