"""An image example as three panels: clean, perturbation and adversarial, embedded as PNG."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np


def picture_panels(paths: dict[str, Path | None]) -> list[dict[str, Any]]:
    """The perturbation is shown around mid-grey, multiplied by the power of two in its note."""
    from PIL import Image

    clean, adversarial = paths["clean"], paths["adversarial"]
    assert clean is not None
    assert adversarial is not None
    with Image.open(clean) as a, Image.open(adversarial) as b:
        mode = "L" if a.mode in ("L", "1", "I;16") else "RGB"
        x, x_adv = (np.asarray(im.convert(mode), float) for im in (a, b))
    change = x_adv - x if x.shape == x_adv.shape else np.zeros_like(x)
    largest = np.abs(change).max()
    # the largest power of two (up to 64) that keeps the change inside the grey range
    factor = 2 ** int(np.clip(np.floor(np.log2(127 / largest)), 0, 6)) if largest else 1
    shown = Image.fromarray(np.clip(127.5 + factor * change, 0, 255).astype(np.uint8), mode)
    tiny = max(x.shape[:2]) <= 64
    note = f"×\u00a0{factor}" if largest else "smaller than one grey level"
    return [
        {"role": "clean", "image": data_uri(clean.read_bytes(), "image/png"), "tiny": tiny, "note": ""},
        {"role": "perturbation", "image": data_uri(png(shown), "image/png"), "tiny": tiny, "note": note},
        {
            "role": "adversarial",
            "image": data_uri(adversarial.read_bytes(), "image/png"),
            "tiny": tiny,
            "note": "",
        },
    ]


def data_uri(data: bytes, mime: str) -> str:
    """A file as the address of an embedded one."""
    return f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"


def png(image: Any) -> bytes:
    """A PIL image as PNG."""
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()
