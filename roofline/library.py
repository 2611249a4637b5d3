"""The libraries of accelerators and models: YAML files found by name, alias or path.

Specs are looked for in the package's own ``hardware_specs`` and ``model_specs`` and in the folders that the environment
variable ``ROOFLINE_SPECS`` lists (separated as in ``PATH``), each of which may hold folders of those names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from .errors import InvalidInput, SpecError, UnknownName, unknown
from .files import read_text, read_yaml
from .hardware import Accelerator
from .model import Model

_HERE = Path(__file__).parent


def list_accelerators() -> list[str]:
    """Names of all accelerators, sorted."""
    return sorted(_index("hardware_specs"))


def list_models() -> list[str]:
    """Names of all models, sorted."""
    return sorted(_index("model_specs"))


def get_accelerator(name: str | Path) -> Accelerator:
    """The accelerator of that name or alias, or the one in a YAML file at that path.

    Raises
    ------
    UnknownName
        Nothing has that name (the message offers the nearest), or several do (it lists them).
    SpecError
        The file can't be read as an accelerator; the message names every fault.

    Examples
    --------
    >>> import roofline as rl
    >>> gpu = rl.get_accelerator("h100-sxm")
    >>> round(gpu.ridge_flops_per_byte("bf16"), 1)
    295.3
    """
    path = _find("accelerator", "hardware_specs", name)
    from .schema import AcceleratorSpec, build

    return cast(Accelerator, build(read_yaml(path), AcceleratorSpec, path))


def get_model(name: str | Path | Mapping[str, Any]) -> Model:
    """The model of that name, or the one that a YAML file describes.

    Raises
    ------
    UnknownName
        Nothing has that name; the message offers the nearest.
    SpecError
        The file can't be read as a model; the message names every fault.

    Examples
    --------
    >>> import roofline as rl
    >>> rl.get_model("llama-3.1-70b").parameters.total
    70553706496
    """
    if isinstance(name, Mapping):
        raise InvalidInput("a model is named by a string or a path, not by a mapping")
    path = _find("model", "model_specs", name)
    from .schema import ModelSpec, build

    return cast(Model, build(read_yaml(path), ModelSpec, path))


def _folders(kind: str) -> Iterator[Path]:
    """Where specs of a kind are: inside an installed package, beside it in a checkout, then the user's folders."""
    yield next(folder for folder in (_HERE / kind, _HERE.parent / kind) if folder.is_dir())
    for entry in filter(None, os.environ.get("ROOFLINE_SPECS", "").split(os.pathsep)):
        folder = Path(entry)
        if not folder.is_dir():
            raise SpecError(f"ROOFLINE_SPECS names {entry!r}, which is not a folder")
        yield folder / kind if (folder / kind).is_dir() else folder


def _index(kind: str) -> dict[str, Path]:
    """Name -> file.

    Raises
    ------
    SpecError
        Two files have the same name.
    """
    key = {"hardware_specs": "dense_flops_per_s:", "model_specs": "layers:"}[kind]
    found: dict[str, Path] = {}
    for folder in _folders(kind):
        for path in sorted(folder.glob("*.y*ml")):
            if folder.name != kind and not re.search(f"^{key}", read_text(path), re.MULTILINE):
                continue
            if path.stem in found:
                raise SpecError(f"two specs are named {path.stem!r}: {found[path.stem]} and {path}; rename one")
            found[path.stem] = path
    return found


def _find(what: str, kind: str, name: str | Path) -> Path:
    """The file of a name, an alias or a path."""
    if isinstance(name, Path) or (isinstance(name, str) and re.search(r"[\\/]|\.ya?ml$", name)):
        return Path(name)
    if not isinstance(name, str):
        raise InvalidInput(f"{what} must be a name or a path: {name!r}")
    index = _index(kind)
    wanted = re.sub(r"[\s_]+", "-", name.strip().lower())
    if wanted in index:
        return index[wanted]
    aliased = [stem for stem, path in index.items() if wanted in _aliases(path)]
    if len(aliased) == 1:
        return index[aliased[0]]
    if aliased:
        raise UnknownName(f"{name!r} may be {', '.join(aliased[:-1])} or {aliased[-1]}: say which")
    raise unknown(what, name, index)


def _aliases(path: Path) -> list[str]:
    """Aliases that a spec lists, read without parsing the whole file."""
    line = re.search(r"^aliases: *\[(.*)\]", read_text(path), re.MULTILINE)
    return [alias.strip().strip("'\"").lower() for alias in line[1].split(",")] if line else []
