"""Whisper's decoding: greedy or by beam search; keys and values of earlier tokens are cached."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from limen.models.whisper.network import KeysValues

if TYPE_CHECKING:
    from limen.models.whisper.transcripts import WhisperTranscripts


@torch.no_grad()
def greedy(answers: "WhisperTranscripts") -> list[list[int]]:
    """The tokens of each clip by greedy decoding; clips whose text has ended leave the batch."""
    tokens, decoder = answers.tokens, answers.network.decoder
    written: list[list[int]] = [[] for _ in range(len(answers))]
    active = torch.arange(len(answers), device=answers.device)
    encoded, given, past = answers.encoded, answers.prefixes, None
    for step in range(_most(answers)):
        logits, past = decoder(given, encoded.layers, encoded.bias, past)
        chosen = answers.suppress(logits[:, -1:], first=step == 0).argmax(2)
        going = (chosen[:, 0] != tokens.end).nonzero()[:, 0]
        if len(going) < len(active):
            active, chosen, encoded, past = (
                active[going],
                chosen[going],
                encoded.rows(going),
                _rows(past, going),
            )
        for i, token in zip(active.tolist(), chosen[:, 0].tolist(), strict=True):
            written[i].append(token)
        if len(active) == 0:
            break
        given = chosen
    return written


@torch.no_grad()
def beam_search(answers: "WhisperTranscripts", width: int) -> list[int]:
    """The tokens of one clip: the finished text with the highest mean log-likelihood per token."""
    tokens, decoder = answers.tokens, answers.network.decoder
    given, past, encoded = answers.prefixes, None, answers.encoded
    scores, texts = torch.zeros(1, device=answers.device), [[]]  # type: ignore[var-annotated]
    ended: list[tuple[float, list[int]]] = []
    for step in range(_most(answers)):
        logits, past = decoder(given, encoded.layers, encoded.bias, past)
        totals = scores[:, None] + answers.suppress(logits[:, -1:], first=step == 0)[:, 0].log_softmax(1)
        best, where = totals.flatten().topk(
            2 * width
        )  # at most one end token per beam, so at least `width` continue
        kept: list[tuple[float, int, int]] = []
        for score, at in zip(best.tolist(), where.tolist(), strict=True):
            beam, token = divmod(at, totals.shape[1])
            if token == tokens.end:
                ended.append((score / (len(texts[beam]) + 1), texts[beam]))
            else:
                kept.append((score, beam, token))
            if len(kept) == width:  # less likely ends are ignored
                break
        if len(ended) >= width:
            break
        beams = torch.tensor([beam for _, beam, _ in kept], device=answers.device)
        texts = [[*texts[beam], token] for _, beam, token in kept]
        scores = torch.tensor([score for score, _, _ in kept], device=answers.device)
        given, past = (
            torch.tensor([[token] for _, _, token in kept], device=answers.device),
            _rows(past, beams),
        )
        encoded = answers.encoded.rows(torch.zeros_like(beams))
    ended += (
        [(score / max(len(text), 1), text) for score, text in zip(scores.tolist(), texts, strict=True)]
        if not ended
        else []
    )
    return max(ended, key=lambda item: item[0])[1]


def _most(answers: "WhisperTranscripts") -> int:
    return min(answers.decoding.max_tokens, answers.network.dims.context - answers.prefixes.shape[1])


def _rows(past: list[KeysValues], index: Tensor) -> list[KeysValues]:
    return [(k[index], v[index]) for k, v in past]
