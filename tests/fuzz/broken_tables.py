"""Tables of transcripts and of targets (CSV, TSV): empty, binary, with the wrong columns, a field of
megabytes."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from broken_media import damaged, opened, sound
from judging import Mutant

FIXED = [
    b"",
    b"\n",
    b"\0" * 1000,
    b"\xff\xfe" + "path,text\na.wav,x\n".encode("utf-16-le"),
    b"path",
    b"path,text",
    b"path,text\n",
    b"path,text\n\n\n",
    b"path,text\n,x\n",
    b"path,text\na.wav\n",
    b"path,text\na.wav,\n",
    b"path,text\na.wav,x,y,z\n",
    b"a,b\n1,2\n",
    b",\n,\n",
    b"text,text\nx,y\n",
    b"path,text\n../../../etc/passwd,x\n",
    b"path,text\n/dev/zero,x\n",
    b"path,text\n" + b"x" * 5000 + b",x\n",
    b"path,text\na.wav," + b"x" * 2_000_000,
    b'path,text\n"a.wav,x\n',
    b'path,text\n"a.wav"y,"x"\n',
    b"path,text\r\na.wav,one\r\n",
    b"path;text\na.wav;one\n",
    b"path\ttext\na.wav\tone\n",
    b"path,text\n" + b"a.wav,one\n" * 3000,
    b"path,text\na\0.wav,x\n",
    b"path,text\n.,x\n",
    b"path,text\na.wav,\xe2\x80\xae\xf0\x9f\x92\xa9\n",
    b"id,path,text\n,a.wav,one\n,a.wav,one\n",
    b"path," * 50_000 + b"text\na.wav,x\n",
    b"path,text\n~/a.wav,x\n",
]


def goal(table: Path) -> Callable[[], None]:
    def run() -> None:
        import torch

        from limen.core.components import parse
        from limen.goals.base.goal import GoalContext

        component, options = parse("goals", {"name": "transcript", "table": str(table)})
        component.function(
            GoalContext(["x"], None, [torch.Generator()], ["a.wav"], torch.zeros(1, 10), None), options
        )  # type: ignore[arg-type]

    return run


def mutants(draw: random.Random, count: int, folder: Path) -> Iterator[Mutant]:
    (folder / "a.wav").write_bytes(sound("WAV", "PCM_16"))
    whole = b"id,path,text,target\na.wav,a.wav,one two,three\ntwo,a.wav,three,four\n"
    for number in range(count + len(FIXED)):
        path = folder / f"table.{draw.choice(['csv', 'csv', 'tsv'])}"
        content = FIXED[number] if number < len(FIXED) else damaged(draw, whole)
        path.write_bytes(content if path.suffix == ".csv" else content.replace(b",", b"\t"))
        yield Mutant(f"transcripts #{number}", opened({"name": "transcripts", "path": str(path)}), path)
        yield Mutant(f"targets #{number}", goal(path), path)
