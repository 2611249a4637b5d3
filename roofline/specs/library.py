"""The libraries of accelerators and models: YAML files found by name, alias or path.

Specs are looked for in the package's own ``hardware_specs`` and ``model_specs`` and in the folders that the environment
variable ``ROOFLINE_SPECS`` lists (separated as in ``PATH``), each of which may hold folders of those names.
"""

from __future__ import annotations

import difflib
import os
import re
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ..errors import InvalidInput, SpecError, UnknownName
from ..files import read_text, read_yaml
from ..hardware import Accelerator
from ..model import Model

_HERE = Path(__file__).parent.parent


def list_accelerators() -> list[str]:
    """Names of all accelerators, sorted."""
    return sorted(_index("hardware_specs"))


def list_models() -> list[str]:
    """Names of all models, sorted."""
    return sorted(_index("model_specs"))


def get_accelerator(name: str | Path | Accelerator) -> Accelerator:
    """The accelerator of that name or alias, or the one in a YAML file at that path.

    Parameters
    ----------
    name : str, Path or Accelerator
        A name or alias that `list_accelerators` shows, or the path of a YAML spec.  An accelerator is returned as it
        is, so that functions can accept either.

    Returns
    -------
    Accelerator
        Its figures in base units, each with its source.

    Raises
    ------
    UnknownName
        Nothing has that name (the message offers the nearest), or several do (it lists them).
    SpecError
        The file can't be read as an accelerator; the message names every fault.
    InvalidInput
        Neither a name, a path nor an accelerator; a list, for example.

    Examples
    --------
    >>> import roofline as rl
    >>> gpu = rl.get_accelerator("h100-sxm")
    >>> round(gpu.ridge_flops_per_byte("bf16"), 1)
    295.3
    """
    if isinstance(name, Accelerator):
        return name
    path = _find("accelerator", "hardware_specs", name)
    from .schema import AcceleratorSpec, build

    return cast(Accelerator, build(read_yaml(path), AcceleratorSpec, path))


def load_accelerators() -> list[Accelerator]:
    """All accelerators, sorted by name.

    Raises
    ------
    SpecError
        A file can't be read as an accelerator.
    """
    index = _index("hardware_specs")
    return [get_accelerator(index[name]) for name in sorted(index)]


def get_model(name: str | Path | Mapping[str, Any] | Model) -> Model:
    """A model by name, from a file, or from a configuration.

    Parameters
    ----------
    name : str, Path, mapping or Model
        A name that `list_models` shows; the path of a YAML spec, of a ``config.json`` or of a folder that holds one,
        or of a GGUF file (with ``roofline[gguf]``); an id of the Hugging Face hub (with ``roofline[hub]``); or the
        object of a ``config.json`` itself.  A model is returned as it is, so that functions can accept either.

    Returns
    -------
    Model
        Its layers, exact counts and, where the checkpoint states one, its precision.

    Raises
    ------
    UnknownName
        Nothing has that name; the message offers the nearest.
    SpecError
        The file can't be read as a model; the message names every fault.
    InvalidInput
        None of these; a list, for example.

    Examples
    --------
    >>> import roofline as rl
    >>> rl.get_model("llama-3.1-70b").parameters.total
    70553706496
    """
    if isinstance(name, Model):
        return name
    if isinstance(name, Mapping):
        from ..huggingface import from_config

        return from_config(name)
    found = _checkpoint(name)
    if found is not None:
        return found
    path = _find("model", "model_specs", name)
    from .schema import ModelSpec, build

    return cast(Model, build(read_yaml(path), ModelSpec, path))


def _checkpoint(name: str | Path) -> Model | None:
    """The model of a configuration on disk or on the hub; None if the name is not that of one."""
    if not isinstance(name, str | Path) or not re.search(r"[\\/]|\.(json|gguf)$", str(name)):
        return None
    from ..huggingface import is_checkpoint, is_hub_id, read_checkpoint, read_hub

    path = Path(name)
    if is_checkpoint(path):
        return read_checkpoint(path)
    if isinstance(name, str) and is_hub_id(name) and not path.exists() and path.suffix not in (".yaml", ".yml"):
        return read_hub(name)
    return None


def spec_folders(kind: str) -> Iterator[Path]:
    """Where specs of a kind are: inside an installed package or beside it in a checkout, then the user's folders."""
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
    for folder in spec_folders(kind):
        for path in sorted(folder.glob("*.y*ml"), key=lambda path: path.name):
            if folder.name != kind and not re.search(f"^{key}", read_text(path), re.MULTILINE):
                continue
            if path.stem in found:
                raise SpecError(f"two specs are named {path.stem!r}: {found[path.stem]} and {path}; rename one")
            found[path.stem] = path
    return found


def _find(what: str, kind: str, name: object) -> Path:
    """The file of a name, an alias or a path."""
    if isinstance(name, Path) or (isinstance(name, str) and re.search(r"[\\/]|\.ya?ml$", name)):
        return Path(name)
    if not isinstance(name, str):
        several = ", not several: use one deployment for each" if isinstance(name, list | tuple | set) else ""
        raise InvalidInput(f"{what} must be a name or a path{several}: {reprlib.repr(name)}")
    index = _index(kind)
    if name in index:
        return index[name]
    stems = _called(index)
    found = stems.get(_spoken(name), [])
    if len(found) > 1:
        raise UnknownName(f"{name!r} may be {', '.join(found[:-1])} or {found[-1]}: say which")
    if not found:
        raise UnknownName(f"no {what} named {name!r}; {_nearest(_spoken(name), stems, len(index))}")
    return index[found[0]]


def _called(index: Mapping[str, Path]) -> dict[str, list[str]]:
    """Every name and alias as people say it -> the specs that are called so; a name goes before equal aliases."""
    stems: dict[str, list[str]] = {}
    for stem, path in index.items():
        for key in dict.fromkeys(map(_spoken, _aliases(path))):
            stems.setdefault(key, []).append(stem)
    return stems | {_spoken(stem): [stem] for stem in index}


_VENDORS = {"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon", "google", "intel", "aws", "apple"}


def _spoken(name: str) -> str:
    """``name`` without what people leave out: case, vendor, and separators unless they keep two numbers apart.

    ``NVIDIA A100-SXM4-80GB`` and ``a100 sxm4 80gb`` are one name, ``qwen3-8b`` and ``qwen-38b`` are not.
    """
    words = [word for word in re.split(r"[^a-z0-9.]+", name.lower()) if word and word not in _VENDORS]
    return re.sub(r"(?<!\d)-|-(?!\d)", "", "-".join(words))


def _nearest(wanted: str, stems: Mapping[str, list[str]], known: int) -> str:
    """What the nearest names are, those that begin the same way first."""
    begin = [key for key in stems if wanted and key.startswith(wanted)]
    near = begin + difflib.get_close_matches(wanted, stems, n=4, cutoff=0.6)
    offers = list(dict.fromkeys(stem for key in near for stem in stems[key]))[:6]
    if offers:
        return f"did you mean {' or '.join(map(repr, offers))}?"
    return f"`roofline list` shows all {known}"


def _aliases(path: Path) -> list[str]:
    """Aliases that a spec lists, in brackets or one a line, read without parsing the whole file."""
    listed = re.search(r"^aliases: *(?:\[([^\]]*)\]|((?:\n *- .*)+))", read_text(path), re.MULTILINE)
    if listed is None:
        return []
    words = re.split(r",|\n *- ", listed[1] or listed[2] or "")
    return [word.strip().strip("'\"") for word in words if word.strip()]
