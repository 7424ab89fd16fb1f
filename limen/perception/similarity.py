r"""Similarity of two pictures: structural similarity, with or without aligning them first.

Structural similarity, Wang et al. 2004, https://doi.org/10.1109/TIP.2003.819861, in windows of 11 x 11 pixels
(Gaussian, sigma 1.5):

    SSIM(x, y) = mean of  (2 m_x m_y + c1) (2 s_xy + c2) / ( (m_x^2 + m_y^2 + c1) (s_x^2 + s_y^2 + c2) ),
        c1 = 0.01^2, c2 = 0.03^2

Perceptual adversarial similarity score, Rozsa et al. 2016, https://arxiv.org/abs/1605.01775:

    PASS(x_adv, x) = SSIM( psi(x_adv, x), x ),   psi: the homography under which x_adv correlates best with x

psi is found by the steps of Evangelidis & Psarakis 2008, https://doi.org/10.1109/TPAMI.2008.113. With r the
picture x and w the moved one, both of zero mean, and G the slopes of w along the eight parameters:

    d = (G'G)^-1 G' ( lambda r - w ),   lambda = ( w'w - w'Pw ) / ( r'w - r'Pw ),   P = G (G'G)^-1 G'

Departs from the papers: the homography is searched on smaller pictures first, so that it may move far; it is
only used if it makes SSIM larger, because moving a picture blurs it; pictures smaller than a window have the
largest odd window that fits. Pictures are in [0, 1]. Rotations of more than about 20 degrees are often not
found: the score is then too low, never too high.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

WINDOW, SIGMA = 11, 1.5
C1, C2 = 0.01**2, 0.03**2
STEPS = 8
"""Steps towards the best homography at each size."""
SMALLEST = 16
"""Pictures are not made smaller than this, in pixels of the shorter side."""


def ssim(x: Tensor, y: Tensor) -> Tensor:
    """(B, C, H, W), (B, C, H, W) -> (B,), differentiable, 1 for equal pictures. The mean over the colours and
    over all positions at which a complete window fits."""
    side = min(WINDOW, *x.shape[2:])
    offsets = torch.arange(side - (side + 1) % 2, dtype=x.dtype, device=x.device)
    window = (-0.5 * ((offsets - offsets.mean()) / SIGMA).square()).softmax(0)
    blur = lambda t: F.conv2d(
        F.conv2d(t.flatten(0, 1)[:, None], window.view(1, 1, 1, -1)), window.view(1, 1, -1, 1)
    )
    m_x, m_y = blur(x), blur(y)
    s_x, s_y, s_xy = blur(x * x) - m_x * m_x, blur(y * y) - m_y * m_y, blur(x * y) - m_x * m_y
    alike = (2 * m_x * m_y + C1) * (2 * s_xy + C2) / ((m_x * m_x + m_y * m_y + C1) * (s_x + s_y + C2))
    return alike.view(len(x), -1).mean(1)


@torch.no_grad()
def pass_score(x_adv: Tensor, x: Tensor) -> Tensor:
    """(B, C, H, W), (B, C, H, W) -> (B,)."""
    return torch.maximum(ssim(x_adv, x), ssim(moved(x_adv, homographies(x_adv, x)), x))


@torch.no_grad()
def homographies(x_adv: Tensor, x: Tensor) -> Tensor:
    """(B, 3, 3): maps positions in x to those in x_adv, in coordinates from -1 to 1 across the picture."""
    found = torch.eye(3, dtype=x.dtype, device=x.device).repeat(len(x), 1, 1)
    height, width = x.shape[2:]
    largest = max(1, min(height, width) // SMALLEST).bit_length() - 1
    for level in range(largest, -1, -1):
        size = (height >> level, width >> level)
        moving, still = (F.interpolate(t.mean(1, keepdim=True), size, mode="area") for t in (x_adv, x))
        found = _refined(found, moving, still)
    return found


def moved(x: Tensor, homography: Tensor) -> Tensor:
    """Each pixel read at the position that the homography gives; beyond the border, the nearest pixel."""
    mapped = _places(x) @ homography.mT
    grid = mapped[..., :2] / mapped[..., 2:]
    return F.grid_sample(x, grid.view(len(x), *x.shape[2:], 2), padding_mode="border", align_corners=False)


def _places(x: Tensor) -> Tensor:
    """(H W, 3): u, v and 1 of every pixel."""
    v, u = ((2 * torch.arange(n, dtype=x.dtype, device=x.device) + 1) / n - 1 for n in x.shape[2:])
    return torch.stack([u.repeat(len(v)), v.repeat_interleave(len(u)), torch.ones_like(u).repeat(len(v))], 1)


def _refined(first: Tensor, moving: Tensor, still: Tensor) -> Tensor:
    """The homography with the highest correlation among those of all steps."""
    r = _centred(still.flatten(1)[..., None])
    here = best = first
    highest = torch.full_like(r[:, 0, 0], -torch.inf)
    for _ in range(STEPS + 1):
        picture = moved(moving, here)
        w = _centred(picture.flatten(1)[..., None])
        product, sizes = (r * w).sum((1, 2)), r.square().sum((1, 2)) * w.square().sum((1, 2))
        correlation = torch.where(
            sizes > 0, product / sizes.clamp_min(torch.finfo(w.dtype).tiny).sqrt(), -torch.inf
        )
        better = correlation > highest
        highest, best = (
            torch.where(better, correlation, highest),
            torch.where(better[:, None, None], here, best),
        )
        here = here @ _step(picture, r, w)
        here = here / here[:, 2:, 2:]
    return best


def _step(picture: Tensor, r: Tensor, w: Tensor) -> Tensor:
    """(B, 3, 3) the homography to be applied before the present one."""
    g = _centred(_slopes(picture))
    curvature = g.mT @ g
    # a picture without detail in some direction would make the system singular
    ridge = 1e-6 * curvature.diagonal(dim1=1, dim2=2).mean(1) + torch.finfo(g.dtype).tiny
    to_r, to_w = torch.linalg.solve(
        curvature + ridge[:, None, None] * torch.eye(8).to(g), g.mT @ torch.cat([r, w], 2)
    ).split(1, 2)
    below = ((r - g @ to_r) * w).sum((1, 2))
    scale = torch.where(below > 0, ((w - g @ to_w) * w).sum((1, 2)) / torch.where(below > 0, below, 1), 0)
    d = torch.where((below > 0)[:, None], (scale[:, None, None] * to_r - to_w)[..., 0], 0).nan_to_num(
        0.0, 0.0, 0.0
    )
    return torch.eye(3).to(d) + F.pad(d, (0, 1)).view(-1, 3, 3)


def _slopes(picture: Tensor) -> Tensor:
    """(B, H W, 8) derivative of each pixel by each parameter of a small homography."""
    height, width = picture.shape[2:]
    u, v, _ = _places(picture).unbind(1)
    padded = F.pad(picture, (1, 1, 1, 1), mode="replicate")
    along_u = ((padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2]) * width / 4).flatten(1)
    along_v = ((padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]) * height / 4).flatten(1)
    outwards = along_u * u + along_v * v
    return torch.stack(
        [along_u * u, along_u * v, along_u, along_v * u, along_v * v, along_v, -u * outwards, -v * outwards],
        2,
    )


def _centred(columns: Tensor) -> Tensor:
    """(B, n, k) minus the mean of each column."""
    return columns - columns.mean(1, keepdim=True)
