r"""Adversarial sticker: a disc that fools the model at any position. Brown et al. 2017,
https://arxiv.org/abs/1712.09665:

    p = argmax_p  E_{x, t}[ L( A(p, x, t) ) ],    t: random place, size, rotation and print noise;
        A pastes the sticker on the picture

found as CrAdv's adversarial_sticker finds it: for every picture not yet fooled, `iter_per_img` momentum sign
steps on `transforms_per_img` copies of the sticker, which are then averaged:

    g_t <- mu * (2/3 g_t + 1/3 mean_t g_t) + sign(grad_t) / ||sign(grad_t)||_1,
        p_t <- p_t + alpha * sign(g_t)

Departs from CrAdv: `at_once` pictures are processed together (1 is its order); whether a picture is fooled is
decided by the goal, not by the five best classes; sizes are shares of the picture, so they apply to any
resolution; rotation is optional.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from PIL.Image import Resampling
from pydantic import Field, model_validator
from torch import Tensor

from limen.attacks.engine.options import AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.core.errors import UserError
from limen.core.seeds import uniform_like
from limen.images.files import open_picture, pixels, write_picture


class Patch(AttackOptions):
    own_limit: ClassVar[bool] = True
    """Changes what the sticker covers."""
    universal: ClassVar[bool] = True
    kinds: ClassVar[tuple[str, ...]] = ("picture",)
    # changes a disc as far as the range allows; its own exact problem is in tests/attacks/test_patch.py
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"iter_per_img": 3, "at_once": 2, "alpha": 0.1}

    base_image: str | None = None
    """Picture that the sticker starts from; null starts from black."""
    sticker: str | None = None
    """Picture of an existing sticker; then there is no search."""
    save_path: str | None = None
    """Where to save the sticker as PNG; null saves none (the run folder keeps it anyway)."""
    resolution: int = Field(default=0, ge=0)
    """Side of the sticker's own picture in pixels; 0 means the height of the pictures."""
    limit_samples: int = Field(default=1000, ge=1)
    """Largest number of pictures it is crafted on."""
    transforms_per_img: int = Field(default=6, ge=1)
    """Random placements of one picture."""
    iter_per_img: int = Field(default=10, ge=1)
    """Steps on one picture."""
    alpha: float = Field(default=0.015, gt=0)
    """Length of a step, in input units."""
    decay_factor: float = Field(default=1.0, ge=0)
    """Share mu of the last direction that is kept."""
    gradient_noise: float = Field(default=0.15, ge=0)
    """Size of the light falling off from one side to the other, in input units (2 of 7 placements)."""
    random_noise: float = Field(default=0.15, ge=0)
    """Size of uniform print noise, in input units (3 of 7 placements)."""
    min_scale: float = Field(default=0.27, gt=0, le=1)
    """Smallest diameter, as a share of the picture's shorter side (CrAdv: 60 of 224 pixels)."""
    max_scale: float = Field(default=0.4, gt=0, le=1)
    """Largest diameter, as a share of the picture's shorter side (CrAdv: 90 of 224 pixels)."""
    rotation_deg: float = Field(default=0.0, ge=0, le=180)
    """Largest rotation to either side."""
    at_once: int = Field(default=8, ge=1)
    """Pictures processed together."""

    @property
    def crafting_samples(self) -> int | None:
        return self.limit_samples

    def crafting_cost(self) -> float:
        return self.transforms_per_img * self.iter_per_img

    @torch.no_grad()
    def craft(self, problem: Problem) -> dict[str, Tensor]:
        _need_pictures(problem)
        side = self.resolution or problem.x.shape[2]
        if self.sticker:
            return {"sticker": _read(self.sticker, problem, side)}
        black = _in_range(problem.x.new_zeros(problem.x.shape[1], side, side), problem)
        sticker = _read(self.base_image, problem, side) if self.base_image else black
        order = torch.arange(min(len(problem), self.limit_samples), device=problem.x.device)
        for chunk in order.split(self.at_once):
            rows = problem.rows(chunk)
            one = _place(rows, self, side)
            rows = rows.rows(~rows.reached(rows.clip(one.lay(sticker.expand(len(rows), -1, -1, -1), rows.x))))
            if len(rows):
                sticker = _improved(rows, sticker, self)
        if self.save_path:
            _save(sticker, problem, self.save_path)
        return {"sticker": sticker}

    @model_validator(mode="after")
    def _scales_in_order(self) -> "Patch":
        if self.min_scale > self.max_scale:
            raise ValueError(
                f"min_scale must not exceed max_scale, got {self.min_scale:g} > {self.max_scale:g}."
            )
        return self


@dataclass
class _Placement:
    """Position and form of the sticker on each picture."""

    grid: Tensor
    """(B, H, W, 2) position in the sticker for each pixel."""
    disc: Tensor
    """(B, 1, H, W) 1 under the sticker."""
    noise: Tensor
    """(B, C, S, S) print noise."""

    def lay(self, stickers: Tensor, x: Tensor) -> Tensor:
        seen = F.grid_sample(stickers + self.noise, self.grid, padding_mode="border", align_corners=False)
        return torch.where(self.disc, seen, x)


@torch.no_grad()
def patch(problem: Problem, options: Patch, crafted: dict[str, Tensor]) -> Tensor:
    _need_pictures(problem)
    sticker = crafted["sticker"].to(problem.x)
    placed = _place(problem, options, sticker.shape[-1])
    return problem.project(placed.lay(sticker.expand(len(problem), -1, -1, -1), problem.x))


def _improved(problem: Problem, sticker: Tensor, options: Patch) -> Tensor:
    """The mean of the stickers after `iter_per_img` steps on every placement of every picture."""
    n, copies = len(problem), options.transforms_per_img
    problem = problem.rows(torch.arange(n, device=sticker.device).repeat_interleave(copies))
    placed = _place(problem, options, sticker.shape[-1])
    stickers = sticker.expand(len(problem), -1, -1, -1).clone()
    g = torch.zeros_like(stickers)
    for _ in range(options.iter_per_img):
        gradient, _, _ = problem.gradient(stickers, through=lambda p: problem.clip(placed.lay(p, problem.x)))
        direction = gradient.sign()
        size = direction.flatten(1).abs().sum(1).clamp_min(1).view(-1, 1, 1, 1)
        shared = g.view(n, copies, *g.shape[1:]).mean(1).repeat_interleave(copies, 0)
        g = options.decay_factor * (2 / 3 * g + 1 / 3 * shared) + direction / size
        stickers = problem.clip(stickers + options.alpha * g.sign())
    return stickers.mean(0)


def _place(problem: Problem, options: Patch, side: int) -> _Placement:
    """Draws a size, a place, a rotation and a print noise for every row, from its own stream."""
    x = problem.x
    height, width = x.shape[2:]
    u = uniform_like(x.new_zeros(len(x), 7), problem.generators)
    diameter = (options.min_scale + (options.max_scale - options.min_scale) * u[:, 0]) * min(height, width)
    middle_y, middle_x = (
        diameter / 2 + (extent - diameter) * u[:, 1 + k] for k, extent in enumerate((height, width))
    )
    angle = (2 * u[:, 3] - 1) * torch.pi * options.rotation_deg / 180
    dy = torch.arange(height, device=x.device, dtype=x.dtype)[None, :, None] + 0.5 - middle_y[:, None, None]
    dx = torch.arange(width, device=x.device, dtype=x.dtype)[None, None, :] + 0.5 - middle_x[:, None, None]
    cos, sin, radius = (v[:, None, None] for v in (angle.cos(), angle.sin(), diameter / 2))
    grid = torch.stack(
        [(cos * dx + sin * dy) / radius, (cos * dy - sin * dx) / radius], -1
    )  # (x, y) in [-1, 1] on the sticker
    disc = (dx.square() + dy.square() <= radius.square())[:, None]
    return _Placement(grid, disc, _print_noise(problem, options, side, u[:, 4:]))


def _print_noise(problem: Problem, options: Patch, side: int, u: Tensor) -> Tensor:
    """Print noise by u (B, 3): of seven placements two have light falling off (one across, one down), three
    have uniform noise, two have none."""
    kind = (u[:, 0] * 7).long().view(-1, 1, 1, 1)
    ramp = torch.linspace(0, 1, side, device=u.device, dtype=u.dtype)
    a, b = ((2 * u[:, k] - 1).view(-1, 1, 1, 1) * options.gradient_noise for k in (1, 2))
    across = (a + (b - a) * ramp).expand(-1, 1, side, side)
    grain = (
        2 * uniform_like(problem.x.new_zeros(len(u), problem.x.shape[1], side, side), problem.generators) - 1
    ) * options.random_noise
    light = torch.where(kind == 0, across, across.transpose(2, 3))
    return torch.where(kind < 2, light, torch.where(kind < 5, grain, 0.0))


def _need_pictures(problem: Problem) -> None:
    need_classes(problem, "patch")
    if problem.x.dim() != 4:
        raise UserError(
            "The attack patch pastes a sticker on pictures, but these samples are clips. Use uap for one "
            "perturbation of all clips."
        )


def _ends(problem: Problem) -> tuple[Tensor, Tensor]:
    """Black and white: the ends of the samples' range."""
    return torch.as_tensor(problem.low).to(problem.x), torch.as_tensor(problem.high).to(problem.x)


def _in_range(picture: Tensor, problem: Problem) -> Tensor:
    """[0, 1] -> the range of the samples."""
    low, high = _ends(problem)
    return low + (high - low) * picture


def _read(path: str, problem: Problem, side: int) -> Tensor:
    """A picture file as (C, side, side), black and white being the ends of the samples' range."""
    picture = open_picture(path)[0].resize((side, side), Resampling.BILINEAR)
    return _in_range(pixels(picture, 1 if problem.x.shape[1] == 1 else 3).to(problem.x), problem)


def _save(sticker: Tensor, problem: Problem, path: str) -> None:
    low, high = _ends(problem)
    write_picture(path, ((sticker - low) / (high - low)).float())
