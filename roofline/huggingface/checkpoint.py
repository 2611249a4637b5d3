"""A checkpoint on disk or on the hub: its ``config.json`` and what stands beside it.  Nothing of it is executed."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from ..errors import SpecError
from ..files import read_json
from ..model import Model
from .reader import from_config

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
QUANTIZATION = "hf_quant_config.json"
INDEX_MAX_BYTES = 128 * 2**20
CONFIG_MAX_BYTES = 64 * 2**20
HUB = "https://huggingface.co"
CONNECT_S = 1.0
"""How long the hub may take to accept a connection; its client alone retries for half a minute without a network."""


def is_checkpoint(path: Path) -> bool:
    """Whether ``path`` is a JSON or GGUF file, or a folder that holds a ``config.json``."""
    return path.suffix.lower() in (".json", ".gguf") or (path / CONFIG).is_file()


def is_hub_id(name: str) -> bool:
    """Whether ``name`` looks like an id of the hub: an owner, a slash, a repository."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", name) is not None


def read_checkpoint(path: Path) -> Model:
    """The model of a ``config.json``, a folder with one, or a GGUF file.

    Raises
    ------
    SpecError
        It can't be read, or is no decoder language model (see `from_config`).
    """
    if path.suffix.lower() == ".gguf":
        from .gguf_file import read_gguf

        return read_gguf(path)
    config = path / CONFIG if path.is_dir() else path
    return model_of_checkpoint(
        config, config.parent / QUANTIZATION, config.parent / INDEX, name=_name(config), source=str(config)
    )


def model_of_checkpoint(
    config: Path, quantization: Path | None, index: Path | None, *, name: str, source: str
) -> Model:
    """The model from the three files of a checkpoint, the last two of which may be missing."""
    return from_config(
        read_json(config, max_bytes=CONFIG_MAX_BYTES),
        name=name,
        source=source,
        quantization=_if_there(quantization, CONFIG_MAX_BYTES),
        checkpoint_bytes=_total_size(_if_there(index, INDEX_MAX_BYTES)),
    )


def _name(config: Path) -> str:
    return config.resolve().parent.name if config.name == CONFIG else config.stem


def _if_there(path: Path | None, most: int) -> Mapping[str, Any] | None:
    return read_json(path, max_bytes=most) if path is not None and path.is_file() else None


def _total_size(index: Mapping[str, Any] | None) -> int | None:
    """``metadata.total_size``: the bytes of all tensors; None where the index has none."""
    metadata = index.get("metadata") if index else None
    size = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(size, bool) or not isinstance(size, int | float) or not 0 < size < 1e16:
        return None
    return int(size)


def read_hub(name: str) -> Model:
    """The model of a repository on the Hugging Face hub: its configuration and index are fetched, nothing else.

    The cache, the token and the offline switch are those of ``huggingface_hub``.

    Raises
    ------
    SpecError
        ``huggingface_hub`` is not installed, or the file can't be had; one line says what to do.
    """
    try:
        import huggingface_hub
    except ImportError:
        raise SpecError(
            f"{name!r} is not a file here; to read it from the Hugging Face hub, pip install 'roofline[hub]',"
            " or give the path of its config.json"
        ) from None
    options = {} if is_reachable() else {"local_files_only": True}
    config = _fetch(huggingface_hub, name, CONFIG, options)
    if config is None:
        raise SpecError(f"{name} has no config.json on the Hugging Face hub")
    quantization, index = (_fetch(huggingface_hub, name, file, options) for file in (QUANTIZATION, INDEX))
    short = name.partition("/")[2].lower()
    model = model_of_checkpoint(config, quantization, index, name=short, source=f"hugging face hub: {name}")
    return model.replace(title=name)


def is_reachable() -> bool:
    """Whether the hub accepts connections; taken for granted behind a proxy, which only its client knows to use."""
    address = urlsplit(os.environ.get("HF_ENDPOINT") or HUB)
    if getproxies():
        return True
    try:
        with socket.create_connection((address.hostname or "", address.port or 443), timeout=CONNECT_S):
            return True
    except OSError:
        return False


def _fetch(hub: Any, name: str, file: str, options: Mapping[str, bool]) -> Path | None:
    """A file of a repository, only from the local cache if ``options`` say so; None if there is no such file.

    Raises
    ------
    SpecError
        No network, no such repository, or no access to it.
    """
    download = hub.hf_hub_download  # loads the client, which sets its own level of logging
    try:
        with _without_warnings():
            return Path(download(name, file, **options))
    except Exception as error:
        kind = type(error).__name__
        optional = file != CONFIG and kind.startswith("LocalEntry")
        if optional or kind in ("EntryNotFoundError", "RemoteEntryNotFoundError"):
            return None
        reason = str(error).strip().splitlines()[0].partition(". ")[0][:160] if str(error).strip() else kind
        if options:
            kind, reason = "no connection", "the hub does not answer and the file is not in the local cache"
        raise SpecError(
            f"{name!r} is not a file here and can't be fetched from the Hugging Face hub ({kind}: {reason});"
            " check the name, the network and your token, or give the path of a config.json"
        ) from None


@contextmanager
def _without_warnings() -> Iterator[None]:
    """The hub's client says each of its retries; one line at the end is enough."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
