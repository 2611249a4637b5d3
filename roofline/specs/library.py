"""The libraries of accelerators and models: YAML files found by name, alias, hub id, instance or path.

Specs are searched in the package's ``hardware_specs`` and ``model_specs`` and in the directories of the environment
variable ``ROOFLINE_SPECS`` (separated as in ``PATH``), each of which may have subdirectories of those names.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ..errors import InvalidInput, SpecError, UnknownName
from ..files import parse_yaml, read_spec, read_text
from ..hardware import Accelerator
from ..model import Model
from ..values import Value
from .folders import spec_folders
from .instances import counted, find_instance
from .name_index import NameIndex, names_of, nearest
from .names import (
    leaves_type_open,
    plain_name,
    specs_called,
    spoken,
    spoken_hardware,
    stored_precision,
)
from .variants import Variant, variant_called


@dataclass(frozen=True, eq=False)
class Hardware(Value):
    """An accelerator and a count, as given by a name.

    Attributes
    ----------
    accelerator : Accelerator
        The accelerator.
    count : int
        Number of accelerators; 1 if the name has no count.
    """

    accelerator: Accelerator
    count: int


def list_accelerators() -> list[str]:
    """List the names of all accelerators, sorted."""
    return sorted(_index("hardware_specs"))


def list_models() -> list[str]:
    """List the names of all models, sorted."""
    return sorted(_index("model_specs"))


def get_accelerator(name: str | Path | Accelerator) -> Accelerator:
    """Look up an accelerator by name, or read it from a YAML file.

    Parameters
    ----------
    name : str, Path or Accelerator
        A name from `list_accelerators`, an alias, a title, or the name that a driver prints; a cloud instance
        (``p5.48xlarge``, ``ND H100 v5``) or a name with a count (``8xh100``), for which one accelerator is returned; or
        the path of a YAML spec. An accelerator is returned as it is, so that functions can accept either.

    Returns
    -------
    Accelerator
        The accelerator, with values in base units, each with its source.

    Raises
    ------
    UnknownName
        The name is unknown (the message suggests the nearest) or ambiguous (it lists the candidates).
    SpecError
        The file cannot be read or is invalid; the message lists every error.
    InvalidInput
        The argument is not a name, a path or an accelerator, but a list, for example.

    Examples
    --------
    >>> import roofline as rl
    >>> gpu = rl.get_accelerator("h100-sxm")
    >>> round(gpu.ridge_flops_per_byte("bf16"), 1)
    295.3
    >>> rl.get_accelerator("g6e.xlarge").name
    'l40s'
    """
    return get_hardware(name).accelerator


def get_hardware(name: str | Path | Accelerator) -> Hardware:
    """Look up an accelerator and the count that a name gives.

    Parameters
    ----------
    name : str, Path or Accelerator
        As for `get_accelerator`; ``8xh100``, ``h100:8`` and cloud instances include a count.

    Returns
    -------
    Hardware
        ``accelerator`` and ``count``.

    Raises
    ------
    UnknownName
        The name is unknown (the message suggests the nearest) or ambiguous (it lists the candidates).
    SpecError
        The file cannot be read or is invalid; the message lists every error.

    Examples
    --------
    >>> import roofline as rl
    >>> rl.get_hardware("8xh100").count, rl.get_hardware("p5.48xlarge").count, rl.get_hardware("h100").count
    (8, 8, 1)
    """
    if isinstance(name, Accelerator):
        return Hardware(name, 1)
    path, count = _hardware_path(name)
    return Hardware(_accelerator_of(read_spec(path), path), count)


def load_accelerators() -> list[Accelerator]:
    """Load all accelerators, sorted by name.

    Raises
    ------
    SpecError
        A file cannot be read or is invalid.
    """
    index = _index("hardware_specs")
    return [get_accelerator(index[name]) for name in sorted(index)]


def called_accelerators(name: str) -> list[str]:
    """Accelerators that ``name`` may refer to; empty if there are none."""
    names = names_of("hardware_specs", _index("hardware_specs"))
    return names.called.get(spoken(name), [])


def accelerators_like(text: str) -> list[str]:
    """Accelerators whose name contains ``text``, else those with such an alias or title, sorted."""
    return _like("hardware_specs", text)


def models_like(text: str) -> list[str]:
    """Models whose name contains ``text``, else those with such an alias, variant, title or hub id, sorted."""
    index, found = _index("model_specs"), []
    for stem in _like("model_specs", text):
        meant = [] if text.lower() in stem else [each.name for each in _variants(index[stem])]
        found += [name for name in meant if spoken(text) in spoken(name)] or [stem]
    return found


def _like(kind: str, text: str) -> list[str]:
    index, wanted = _index(kind), spoken(text)
    found = {stem for stem in index if text.lower() in stem}
    if not found:  # other names are compared without separators, in which Qwen-32B contains Qwen3
        found = {stem for key, stems in names_of(kind, index).called.items() if wanted in key for stem in stems}
    return sorted(found)


def get_model(name: str | Path | Mapping[str, Any] | Model) -> Model:
    """Look up a model by name, or read it from a file or a configuration.

    Parameters
    ----------
    name : str, Path, mapping or Model
        A name from `list_models`, an alias, a title, or a Hugging Face hub id; the path of a YAML spec, of a
        ``config.json`` or a directory with one, or of a GGUF file (with ``roofline[gguf]``); or the contents of a
        ``config.json`` as a mapping. Parts of a name that do not change the shapes are ignored (``-Instruct``, ``-it``,
        ``-2507``); a format in the name (``-FP8``, ``-AWQ``) sets the precision. Ids that the library does not know are
        fetched from the hub (with ``roofline[hub]``). A model is returned as it is, so that functions can accept
        either.

    Returns
    -------
    Model
        The model, with exact counts and, if the checkpoint or the name states it, its precision.

    Raises
    ------
    UnknownName
        The name is unknown; the message suggests the nearest.
    SpecError
        The file cannot be read or is invalid; the message lists every error.
    InvalidInput
        The argument is none of these, but a list, for example.

    Examples
    --------
    >>> import roofline as rl
    >>> rl.get_model("llama-3.1-70b").parameters.total
    70553706496
    >>> rl.get_model("Qwen/Qwen3-32B-AWQ").precision.weights
    'int4_g128'
    """
    if isinstance(name, Model):
        return name
    if isinstance(name, Mapping):
        from ..huggingface import from_config

        return from_config(name)
    found = _on_disk(name)
    if found is not None:
        return found
    if _is_path(name):
        return _read_model(Path(name))
    if not isinstance(name, str):
        raise _no_name("model", name)
    index = _index("model_specs")
    if name in index:
        return _read_model(index[name])
    names = names_of("model_specs", index)
    stems = specs_called(name, names.called, names.loosely)
    if not stems:
        return _from_hub(name, names, len(index))
    path = index[_only(stems, name)]
    model, variant = _read_model(path), variant_called(_variants(path), name, path.stem)
    return _as_named(model if variant is None else variant.of(model), name)


def _read_model(path: Path) -> Model:
    return _model_of(read_spec(path), path)


@lru_cache(maxsize=256)
def _accelerator_of(text: str, path: Path) -> Accelerator:
    """The accelerator that a file holds: one object for a file that did not change, which caches recognize at once."""
    from .schema import AcceleratorSpec, value_of

    return cast(Accelerator, value_of(parse_yaml(text, path), AcceleratorSpec, path))


@lru_cache(maxsize=256)
def _model_of(text: str, path: Path) -> Model:
    """The model that a file holds, in the same way."""
    from .model_schema import ModelSpec
    from .schema import value_of

    return cast(Model, value_of(parse_yaml(text, path), ModelSpec, path))


def _variants(path: Path) -> tuple[Variant, ...]:
    text = read_spec(path)
    return _variants_of(text, path) if "\nvariants:" in text else ()


@lru_cache(maxsize=64)
def _variants_of(text: str, path: Path) -> tuple[Variant, ...]:
    """The checkpoints that share the shapes of the model that a file holds."""
    from .model_schema import variants_of

    return variants_of(parse_yaml(text, path))


def _as_named(model: Model, name: str) -> Model:
    """The model in the format of its name's suffix, if that is another, and with the repository of a hub id."""
    from ..huggingface import is_hub_id

    wanted = stored_precision(name)
    if is_hub_id(name) and name.lower() != model.repository.lower() and not leaves_type_open(name):
        model = model.replace(repository=name)
    if leaves_type_open(name):
        said = f"{name!r} does not say which GGUF type: sizes are those of {model.name}; add one, such as -Q4_K_M"
        return model.replace(doubts=(*model.doubts, said), assumptions=(*model.assumptions, said))
    if wanted is None or name == model.name or model.precision == wanted:
        return model
    if model.precision is not None and model.precision.weights.startswith(wanted.weights):
        return model  # the vendor's own variant of that format, with its exceptions
    said = f"formats by the name {name!r}: every linear layer in {wanted.weights}; a checkpoint may keep some wider"
    return model.replace(precision=wanted, repository=name, assumptions=(*model.assumptions, said))


def _from_hub(name: str, names: NameIndex, known: int) -> Model:
    """Fetch the model of a hub id that is not in the library."""
    from ..huggingface import is_hub_id, read_hub

    offer = nearest(plain_name(name), names, f"`roofline list models` shows all {known}")
    if not is_hub_id(name):
        raise UnknownName(f"no model named {name!r}; {offer}")
    try:
        return read_hub(name)
    except SpecError as error:
        hint = f"; {offer}" if offer.startswith("did you mean") else ""
        raise SpecError(f"{error}{hint}") from None


def _on_disk(name: str | Path) -> Model | None:
    """Read the model of a configuration on disk; None if the name is not a path of one."""
    if not isinstance(name, str | Path) or not re.search(r"[\\/]|\.(json|gguf)$", str(name)):
        return None
    from ..huggingface import is_checkpoint, read_checkpoint

    path = Path(name)
    try:
        return read_checkpoint(path) if is_checkpoint(path) else None
    except OSError as error:
        raise SpecError(f"{str(name)[:80]!r} can't be read: {error.strerror or error}") from None


def _is_path(name: object) -> bool:
    """Whether ``name`` is the path of a spec; hub ids are not."""
    if isinstance(name, Path):
        return True
    if not isinstance(name, str):
        return False
    return re.search(r"\.ya?ml$", name) is not None or re.match(r"[./~\\]|[A-Za-z]:\\", name) is not None


def _hardware_path(name: str | Path) -> tuple[Path, int]:
    """The file of an accelerator and the count in its name."""
    if isinstance(name, Path) or (isinstance(name, str) and re.search(r"[\\/]|\.ya?ml$", name)):
        return Path(name), 1
    if not isinstance(name, str):
        raise _no_name("accelerator", name)
    index = _index("hardware_specs")
    if name in index:
        return index[name], 1
    several = counted(name)
    if several is not None and several[0] in index:
        return index[several[0]], several[1]
    names = names_of("hardware_specs", index)
    found = names.called.get(spoken(name), [])
    if found:
        return index[_only(found, name)], 1
    if several is not None:
        bare = names.called.get(spoken(several[0]), [])
        if bare:
            return index[_only(bare, several[0])], several[1]
    instance = find_instance(name)  # late, as the lists of cloud instances are slow to read
    if instance is not None and instance.accelerator in index:
        return index[instance.accelerator], instance.accelerators
    bare_name, count = several or (name, 1)
    found = _with_memory(bare_name, names, index)
    if found:
        return index[_only(found, bare_name)], count
    if "mig" in re.split(r"[^a-z0-9]+", name.lower()):
        raise UnknownName(f"{name!r:.100} is a part of an accelerator (MIG); parts are not in the library")
    offer = nearest(spoken(name), names, f"`roofline list hardware` shows all {len(index)}")
    raise UnknownName(f"no accelerator named {name!r:.100}; {offer}")


STATED_SIZE = 0.075
"""How far the memory that a name states may be from the accelerator's: 24 GiB, 25.8 GB, are sold as 24 GB."""


def _with_memory(name: str, names: NameIndex, index: Mapping[str, Path]) -> list[str]:
    """Accelerators of a name that also says the machine around it or the size of its memory, which has to be right."""
    bare, size_gb = spoken_hardware(name)
    found = names.called.get(bare, [])
    if size_gb is None or not found:
        return found
    right, known = [], []
    for stem in found:
        accelerator = _accelerator_of(read_spec(index[stem]), index[stem])
        # Apple's titles say what is installed; its memory_bytes is what a GPU may use of that.
        reported_gb = float(accelerator.memory_bytes) / 1e9
        sold_gb = spoken_hardware(accelerator.title)[1] or reported_gb
        known.append(f"{stem} with {sold_gb:.0f} GB")
        if any(abs(size_gb / each - 1) <= STATED_SIZE for each in (sold_gb, reported_gb)):
            right.append(stem)
    if not right:
        raise UnknownName(f"{name!r:.100} is not in the library, only {', '.join(known)}")
    return right


def _no_name(what: str, name: object) -> InvalidInput:
    """The error for a value that is neither a name nor a path."""
    several = ", not several: use one deployment for each" if isinstance(name, list | tuple | set) else ""
    return InvalidInput(f"{what} must be a name or a path{several}: {reprlib.repr(name)}")


def _only(stems: list[str], name: str) -> str:
    """The single spec with a name.

    Raises
    ------
    UnknownName
        Several specs have the name.
    """
    if len(stems) > 1:
        raise UnknownName(f"{name!r} is ambiguous: {', '.join(stems[:-1])} or {stems[-1]}?")
    return stems[0]


def _index(kind: str) -> dict[str, Path]:
    """Name -> file.

    Raises
    ------
    SpecError
        Two files define the same name.
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
