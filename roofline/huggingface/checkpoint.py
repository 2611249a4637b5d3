"""Checkpoints on disk or on the hub: ``config.json`` and the files beside it.  No code of a checkpoint is executed."""

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
"""Time limit for the hub to accept a connection. Without it, the hub's client retries for half a minute if offline."""


def is_checkpoint(path: Path) -> bool:
    """Whether ``path`` is a JSON or GGUF file, or a directory with a ``config.json``."""
    return path.suffix.lower() in (".json", ".gguf") or (path / CONFIG).is_file()


def is_hub_id(name: str) -> bool:
    """Whether ``name`` looks like a hub id: ``owner/repository``."""
    return re.fullmatch(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", name) is not None


def read_checkpoint(path: Path) -> Model:
    """Read the model from a ``config.json``, a directory with one, or a GGUF file.

    Raises
    ------
    SpecError
        The file cannot be read or is not a decoder language model (see `from_config`).
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
    """Read the model from the three files of a checkpoint; the last two are optional."""
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
    if path is not None and path.is_file():
        return read_json(path, max_bytes=most)
    return None


def _total_size(index: Mapping[str, Any] | None) -> int | None:
    """``metadata.total_size``: bytes of all tensors; None if the index does not state it."""
    metadata = index.get("metadata") if index else None
    size = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(size, bool) or not isinstance(size, int | float) or not 0 < size < 1e16:
        return None
    return int(size)


def read_hub(name: str) -> Model:
    """Read the model of a Hugging Face repository; only its configuration and index are fetched.

    Cache, token and offline mode are those of ``huggingface_hub``.

    Raises
    ------
    SpecError
        ``huggingface_hub`` is not installed, or the file cannot be fetched. The message states the remedy.
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
    """Whether the hub accepts connections; assumed behind a proxy, which only the hub's client can use."""
    address = urlsplit(os.environ.get("HF_ENDPOINT") or HUB)
    if getproxies():
        return True
    try:
        with socket.create_connection((address.hostname or "", address.port or 443), timeout=CONNECT_S):
            return True
    except OSError:
        return False


def _fetch(hub: Any, name: str, file: str, options: Mapping[str, bool]) -> Path | None:
    """Fetch a file of a repository, only from the local cache if ``options`` require it; None if there is no such file.

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
    """Silence the hub client's message per retry; one line at the end is enough."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
