"""Class and split of the files in a folder."""

from pathlib import Path

from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.functional import pad

from limen.core.errors import UserError
from limen.data.base.dataset import FileOptions
from limen.data.base.split import split_of

SPLIT_FOLDERS = {
    "train": ("train", "training"),
    "valid": ("valid", "val", "validation", "dev"),
    "test": ("test", "testing"),
}
"""Usual names of the folders of the splits."""


class SplitOptions(FileOptions):
    """Options of data sets whose files may have to be split here."""

    valid_fraction: float = Field(default=0.1, ge=0, le=1)
    """Share of the files in the valid split, by a hash of the file name, if no folder names the splits."""
    test_fraction: float = Field(default=0.2, ge=0, le=1)
    """Share of the files in the test split; the rest is train."""

    @model_validator(mode="after")
    def _fractions(self) -> "SplitOptions":
        if self.valid_fraction + self.test_fraction > 1:
            raise ValueError(
                "valid_fraction + test_fraction must not exceed 1, but is "
                f"{self.valid_fraction + self.test_fraction:g}."
            )
        return self


class ClassFolderOptions(SplitOptions):
    """Options of data sets with one folder per class."""

    path: str
    """Folder with one folder per class, or with folders train, valid (or val) and test that hold these."""
    class_names: list[str] | None = None
    """Names of the class folders in the order of the model's outputs; folders may be missing. Null: the
    folders there are, sorted."""


def existing_folder(path: str, who: str) -> Path:
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"{who}: {folder} {'is a file' if folder.exists() else 'does not exist'}; a folder was expected."
        )
    return folder


def files_below(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """All files with one of the endings, sorted, without hidden ones."""
    return sorted(
        p
        for p in folder.rglob("*")
        if p.suffix.lower() in suffixes and not p.name.startswith(".") and p.is_file()
    )


def split_folders(folder: Path) -> dict[str, Path]:
    """Split -> its folder; empty if no folder is named after a split."""
    found = {
        split: folder / name
        for split, names in SPLIT_FOLDERS.items()
        for name in reversed(names)
        if (folder / name).is_dir()
    }
    if "valid" in found and "test" not in found:  # ImageNet: published results are measured on the folder val
        found["test"] = found["valid"]
    return found


def labelled_files(
    who: str, options: ClassFolderOptions, suffixes: tuple[str, ...]
) -> tuple[list[tuple[Path, int, str]], list[str]]:
    """(file, class, id) of each file of the split, and the names of the classes. An id is the path below the
    folder of the data set."""
    folder = existing_folder(options.path, who)
    splits = split_folders(folder)
    if splits and options.split not in splits:
        raise UserError(
            f"{who}: {folder} has the splits {', '.join(sorted(splits))}, but no folder for the split "
            f"{options.split}."
        )
    tops = sorted(set(splits.values())) or [folder]
    there = sorted(
        {
            sub.name
            for top in tops
            for sub in top.iterdir()
            if sub.is_dir() and not sub.name.startswith((".", "_"))
        }
    )
    classes = options.class_names or there
    if not there:
        raise UserError(f"{who}: {tops[0]} holds no class folders; one folder per class was expected.")
    if strangers := [name for name in there if name not in classes]:
        raise UserError(
            f"{who}: {folder} has class folders that class_names does not list: {', '.join(strangers[:5])}."
        )
    found = []
    for name in there:
        for path in files_below(splits.get(options.split, folder) / name, suffixes):
            identity = path.relative_to(folder).as_posix()
            if splits or split_of(identity, options.valid_fraction, options.test_fraction) == options.split:
                found.append((path, classes.index(name), identity))
    if not found:
        raise UserError(
            f"{who}: no file for the split {options.split} was found below "
            f"{splits.get(options.split, folder)} (endings looked for: {' '.join(suffixes)})."
        )
    return found, classes


def fit(x: Tensor, frames: int) -> Tensor:
    """(T,) -> (frames,): cut or zero-padded at the end."""
    return pad(x[:frames], (0, max(0, frames - len(x))))
