"""YAML and JSON files as plain data."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from limen.errors import UserError


class _Yaml(yaml.SafeLoader):
    """YAML as 1.2 has it: only true and false are booleans (the words yes, no, on and off are spoken commands), and 1e-3 is a number."""


_Yaml.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:float")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Yaml.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Yaml.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\.\d+|\d+\.\d*|\d+(?=[eE]))([eE][-+]?\d+)?$"), list("-+.0123456789")
)


def read_yaml(path: Path) -> Any:
    """The file's content; a file named *.json is read as JSON."""
    json_file = path.suffix.lower() == ".json"
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if json_file else yaml.load(text, _Yaml)
    # an anchor that holds itself, or brackets a thousand deep, end the recursion
    except (UnicodeDecodeError, json.JSONDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserError(f"{path} cannot be read as {'JSON' if json_file else 'YAML'}: {error}") from None
