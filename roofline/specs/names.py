"""Names as people write them: hub ids, suffixes of variants and formats, vendors, spaces and hyphens.

`spoken` removes case, vendors and separators. `plain_name` also removes parts that do not change the shapes of a model:
the owner of a repository, variants (``-Instruct``, ``-it``), release dates (``-2507``) and formats (``-FP8``).
`stored_precision` returns the precision that a name states.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..formats import FORMATS
from ..operators.precision import Precision

VENDORS = {"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon", "google", "intel", "aws", "apple"}
"""Parts of accelerator names that people omit."""

VARIANTS = {
    *("instruct", "inst", "it", "chat", "hf", "base", "pt", "thinking", "reasoning", "preview", "latest", "original"),
    *("gguf", "mlx", "onnx", "bnb", "unsloth", "quantized", "quantised", "dynamic", "static", "block", "ud", "meta"),
    *("qat", "kv"),
}
"""Parts of model names that do not change the shapes."""

MOVING = {"mistralsmall", "mistralmedium", "mistrallarge"}
"""Names that a vendor moves from one model to the next, so that the date behind one tells which model it is."""

_SIZE = re.compile(r"-?(?:\d+x)?(?:\d+(?:\.\d+)?[bmt])?(?:a\d+(?:\.\d+)?b)?")
"""What may be missing at the end of a name: the size, or the active size of a mixture."""

WEIGHTS_BY_WORD = {
    "nvfp4": ("nvfp4", "nvfp4"),
    "fp4": ("nvfp4", "nvfp4"),
    "mxfp4": ("mxfp4", "bf16"),
    "mxfp8": ("mxfp8", "mxfp8"),
    "fp8": ("fp8", "fp8"),
    "w8a8": ("int8", "int8"),
    "w8a16": ("int8", "bf16"),
    "int8": ("int8", "bf16"),
    "8bit": ("affine8_g64", "bf16"),
    "w4a16": ("int4_g128_sym", "bf16"),
    "awq": ("int4_g128", "bf16"),
    "gptq": ("int4_g128", "bf16"),
    "autoround": ("int4_g128_sym", "bf16"),
    "int4": ("int4_g128", "bf16"),
    "nf4": ("nf4", "bf16"),
    "4bit": ("affine4_g64", "bf16"),
    "bf16": ("bf16", "bf16"),
    "fp16": ("fp16", "fp16"),
}
"""Part of a name -> formats of weights and activations, the most specific part first.

``4bit`` alone is an MLX conversion, which also quantizes the embedding and lm_head.
"""

_GGUF_TYPE = re.compile(r"(?:^|[-_.:])(i?q[1-8]_(?:k_[slm]|k|[01]|xxs|xs|nl|s|m))(?=$|[-_.:])")
_TOGETHER = {
    ("gptq", "int8"): "int8_g128",
    ("gptq", "8bit"): "int8_g128",
    ("bnb", "4bit"): "nf4",
    ("bnb", "8bit"): "int8",
    ("fp8", "w8a8"): "fp8",
}
"""Pairs of parts that together mean a different format than one of them alone."""


def spoken(name: str) -> str:
    """Normalize a name: remove case, vendor, and separators unless they separate two numbers.

    ``NVIDIA A100-SXM4-80GB`` and ``a100 sxm4 80gb`` are the same name; ``qwen3-8b`` and ``qwen-38b`` are not.

    Examples
    --------
    >>> spoken("NVIDIA A100-SXM4-80GB"), spoken("qwen3-8b"), spoken("qwen-38b")
    ('a100sxm4-80gb', 'qwen3-8b', 'qwen38b')
    """
    return _joined(word for word in _words(name) if word not in VENDORS)


def plain_name(name: str) -> str:
    """Normalize a model's name, without its owner and parts that do not change its shapes.

    Examples
    --------
    >>> plain_name("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"), plain_name("gemma-3-27b-it")
    ('qwen3-235ba22b', 'gemma3-27b')
    >>> plain_name("llama3.1:8b-instruct-q4_K_M")
    'llama3.1-8b'
    """
    bare = _GGUF_TYPE.sub("", without_owner(name).lower())
    words = [word for word in _words(bare) if word not in VENDORS and not _says_no_shape(word)]
    return _joined(words)


def without_owner(name: str) -> str:
    """The repository part of a hub id, or the name itself."""
    return name.rpartition("/")[2]


def stored_precision(name: str) -> Precision | None:
    """Precision stated by a name; None if it states none.

    Examples
    --------
    >>> stored_precision("Qwen/Qwen3-32B-AWQ").weights, stored_precision("Qwen/Qwen3-32B")
    ('int4_g128', None)
    """
    bare = without_owner(name).lower()
    gguf = _GGUF_TYPE.search(bare)
    if gguf and gguf[1] in FORMATS:
        return Precision(weights=gguf[1])
    words = _words(bare)
    for (first, second), weights in _TOGETHER.items():
        if first in words and second in words:
            return Precision(weights=weights, activations="fp8" if weights == "fp8" else "bf16")
    cache = "fp8" if "fp8" in words and "kv" in words else "bf16"
    for word, (weights, activations) in WEIGHTS_BY_WORD.items():
        if word in words:
            tables = {"embedding": weights, "lm_head": weights} if weights.startswith("affine") else {}
            return Precision(weights=weights, activations=activations, kv=cache, exceptions=tables)
    return None


def leaves_type_open(name: str) -> bool:
    """Whether a name says GGUF and not which of its types: a repository holds a file for each.

    Examples
    --------
    >>> leaves_type_open("Qwen/Qwen3-8B-GGUF"), leaves_type_open("Qwen3-8B-Q4_K_M-GGUF")
    (True, False)
    """
    return "gguf" in _words(without_owner(name)) and stored_precision(name) is None


def specs_called(name: str, called: Mapping[str, list[str]], loosely: Mapping[str, list[str]]) -> list[str]:
    """Specs that ``name`` may refer to: an exact match, or else a match that ignores parts without effect on shapes.

    Parameters
    ----------
    name : str
        Name as typed.
    called : mapping
        `spoken` form of a name -> the specs that have it.
    loosely : mapping
        `plain_name` form of a name -> the specs that have it.

    Returns
    -------
    list of str
        Zero, one, or several candidates.
    """
    for key in (spoken(name), spoken(without_owner(name))):
        if key in called:
            return called[key]
    plain = plain_name(name)
    if plain in MOVING and any(map(_is_date, _words(without_owner(name)))):
        return called.get(
            _joined(word for word in _words(without_owner(name)) if _is_date(word) or not _drops(word)), []
        )
    found = called.get(plain) or loosely.get(plain)
    return found or _of_one_size(plain, loosely)


def _of_one_size(plain: str, loosely: Mapping[str, list[str]]) -> list[str]:
    """The spec whose name is ``plain`` and a size, if there is just one: ``qwq`` is QwQ 32B, ``qwen3:30b`` 30B-A3B."""
    if not re.search("[a-z]", plain):
        return []
    found = {
        stem
        for key, stems in loosely.items()
        if key.startswith(plain) and _SIZE.fullmatch(key, len(plain))
        for stem in stems
    }
    return sorted(found) if len(found) == 1 else []


def _words(name: str) -> list[str]:
    """Split a name into words of letters and digits; a point between digits does not separate."""
    return [word for word in re.split(r"[^a-z0-9.]+|\.(?!\d)|(?<!\d)\.", name.lower()) if word]


def _joined(words: Iterable[str]) -> str:
    """Join words, with hyphens only between two numbers."""
    return re.sub(r"(?<!\d)-|-(?!\d)", "", "-".join(words))


def _says_no_shape(word: str) -> bool:
    return _drops(word) or _is_date(word)


def _drops(word: str) -> bool:
    """Whether a word other than a date tells nothing of a model's shapes."""
    return word in VARIANTS or word in WEIGHTS_BY_WORD or _LENGTH.fullmatch(word) is not None


_LENGTH = re.compile(r"\d{1,4}k|1m")
"""The longest context in a name, as in ``-128k``."""


def _is_date(word: str) -> bool:
    """Whether a word is a release date: year and month (``2507``) or month and day (``0528``)."""
    month, day = r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])"
    return re.fullmatch(rf"2[3-9]{month}|{month}{day}", word) is not None
