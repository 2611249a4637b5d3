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
    *("f16", "exl2", "exl3", "qat", "kv", "dwq", "q2", "q3", "q4", "q5", "q6", "q8", "imatrix", "i1", "free", "turbo"),
}
"""Parts of model names that do not change the shapes."""

MOVING = {"mistralsmall", "mistralmedium", "mistrallarge"}
"""Names that a vendor moves from one model to the next, so that the date behind one tells which model it is."""

_SIZE = re.compile(r"-?(?:\d+x)?(?:\d+(?:\.\d+)?[bmt])?(?:a\d+(?:\.\d+)?b)?")
"""What may be missing at the end of a name: the size, or the active size of a mixture."""

WEIGHTS_BY_WORD = {
    "nvfp4a16": ("nvfp4", "bf16"),
    "nvfp4": ("nvfp4", "nvfp4"),
    "fp4": ("nvfp4", "nvfp4"),
    "mxfp4": ("mxfp4", "bf16"),
    "mxfp8": ("mxfp8", "mxfp8"),
    "fp8": ("fp8", "fp8"),
    "w4afp8": ("int4_g128_sym", "fp8"),
    "8da4w": ("affine4_g32", "int8"),
    "w8a8": ("int8", "int8"),
    "smoothquant": ("int8", "int8"),
    "w8a16": ("int8", "bf16"),
    "int8": ("int8", "bf16"),
    "8bit": ("affine8_g64", "bf16"),
    "w4a16": ("int4_g128_sym", "bf16"),
    "awq": ("int4_g128", "bf16"),
    "gptq": ("int4_g128", "bf16"),
    "autoround": ("int4_g128_sym", "bf16"),
    "int4": ("int4_g128", "bf16"),
    "nf4": ("nf4", "bf16"),
    **{f"{bits}bit": (f"affine{bits}_g64", "bf16") for bits in (2, 3, 4, 5, 6)},
    "bf16": ("bf16", "bf16"),
    "fp16": ("fp16", "fp16"),
}
"""Part of a name -> formats of weights and activations, the most specific part first.

``4bit`` alone is an MLX conversion, which also quantizes the embedding and lm_head.
"""

_GGUF_TYPE = re.compile(r"(?:^|[-_.:])((?:i|t)?q[1-8]_(?:k_(?:x{0,2}l|[sm])|k|[01]|x?xs|nl|[sml]|xl))(?=$|[-_.:])")
_LIKE_A_TYPE = re.compile(r"(?:^|[-_.:])i?q[1-8]_[a-z0-9_]+(?=$|[-.:])")
_ONLY_BITS = re.compile(r"i?q[1-8]")
_FILE_TYPES = {
    **{kind: f"{kind}_mix" for kind in ("q2_k", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s")},
    "q3_k": "q3_k_m",
    "q4_k": "q4_k_m",
    "q5_k": "q5_k_m",
}
"""Type of a GGUF file whose name is that of a type of tensor -> average over all of its tensors."""
_LARGER = re.compile(r"_(?:x{1,2}l|l)$")
"""Sizes that repositories made up, such as Unsloth's ``Q4_K_XL``; llama.cpp's nearest is the medium one."""
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


def spoken_hardware(name: str) -> tuple[str, float | None]:
    """Normalize an accelerator's name, without the machine around it, and its memory size in GB apart.

    Examples
    --------
    >>> spoken_hardware("GH200 144GB HBM3e"), spoken_hardware("Mac Studio M3 Ultra 512GB")
    (('gh200', 144.0), ('m3ultra', 512.0))
    >>> spoken_hardware("RTX 4090 GPUs"), spoken_hardware("H100s")
    (('rtx4090', None), ('h100', None))
    """
    bare = re.sub(r"^\s*(?:macbook (?:pro|air)|mac (?:studio|mini|pro)|imac)\b", "", name.lower())
    bare = re.sub(r"\b(?:hbm\d?e?|gddr\d?x?|lpddr\d?x?|gpus?)\b|(?<=\d)s$", "", bare)
    size = re.search(r"(?<![\d.])(\d{1,4})[ -]?gi?b\b", bare)
    left = bare.replace(size[0], " ") if size else bare
    return spoken(left), float(size[1]) if size else None


def plain_name(name: str) -> str:
    """Normalize a model's name, without its owner and parts that do not change its shapes.

    Examples
    --------
    >>> plain_name("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8"), plain_name("gemma-3-27b-it")
    ('qwen3-235ba22b', 'gemma3-27b')
    >>> plain_name("llama3.1:8b-instruct-q4_K_M")
    'llama3.1-8b'
    """
    bare = _LIKE_A_TYPE.sub("", _GGUF_TYPE.sub("", _plainly(name)))
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
    bare = _plainly(name)
    weights = _file_type(bare)
    if weights:
        return Precision(weights=weights)
    words = _words(bare)
    average = _PER_WEIGHT.search(bare)
    if average:
        return Precision(weights=f"exl3_{average[1]}", exceptions={"lm_head": f"exl3_{average[2] or 6}"})
    for (first, second), weights in _TOGETHER.items():
        if first in words and second in words:
            return Precision(weights=weights, activations="fp8" if weights == "fp8" else "bf16")
    cache = "fp8" if "fp8" in words and "kv" in words else "bf16"
    for word, (usual, fed) in WEIGHTS_BY_WORD.items():
        if word in words:
            weights = _grouped(usual, words)
            # Quark quantizes activations with the weights, gpt-oss does not.
            activations = "mxfp4" if word == "mxfp4" and name.lower().startswith("amd/") else fed
            tables = {"embedding": weights, "lm_head": weights} if word.endswith("bit") else {}
            return Precision(weights=weights, activations=activations, kv=cache, exceptions=tables)
    return None


_PER_WEIGHT = re.compile(r"(?<![\d.])(\d(?:\.\d{1,2})?)bpw(?:[-_]h(\d))?")
"""Average bits a weight of an ExLlama checkpoint, and those of lm_head: ``4.0bpw-h6``."""
_GROUP = re.compile(r"gs?(\d{2,4})")
"""Values that share a scale: ``g128``, ``gs32``."""


def _plainly(name: str) -> str:
    """The repository's name in lower case, with ``4-bit`` and ``MXFP4_MOE`` as one word."""
    bare = re.sub(r"(?<=\d)[- ]bits?\b", "bit", without_owner(name).lower())
    return bare.replace("mxfp4_moe", "mxfp4").replace("float16", "fp16").replace("bfp16", "bf16")


def _grouped(weights: str, words: list[str]) -> str:
    """The format with the size of groups that a name states."""
    stated = next((found[1] for found in map(_GROUP.fullmatch, words) if found), None)
    return re.sub(r"_g\d+", f"_g{stated}", weights) if stated else weights


def _file_type(bare: str) -> str | None:
    """Format of a GGUF file by the type in its name; None if there is none that is known."""
    found = _GGUF_TYPE.search(bare)
    if found is None:
        return None
    kind = _FILE_TYPES.get(found[1], found[1])
    medium = _LARGER.sub("_m", kind)
    for each in (kind, medium, medium.removesuffix("_m")):
        if each in FORMATS:
            return _FILE_TYPES.get(each, each)
    return None


def leaves_type_open(name: str) -> bool:
    """Whether a name says GGUF and not which of its types, since a repository holds a file for each, or an unknown one.

    Examples
    --------
    >>> leaves_type_open("Qwen/Qwen3-8B-GGUF"), leaves_type_open("Qwen3-8B-Q4_K_M-GGUF")
    (True, False)
    >>> leaves_type_open("Qwen3-8B-IQ4_KSS")
    True
    """
    bare = without_owner(name).lower()
    words = _words(bare)
    named = "gguf" in words or any(_ONLY_BITS.fullmatch(word) for word in words) or _LIKE_A_TYPE.search(bare)
    return bool(named) and stored_precision(name) is None


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
    found = _specs_called(name, called, loosely)
    other = respelled(name)
    if not found and other != name:
        found = called.get(spoken(without_owner(other))) or _specs_called(other, called, loosely)
    return found


def respelled(name: str) -> str:
    """Undo the spellings of catalogs that cannot write every character.

    Fireworks writes ``llama-v3p1-8b``, Bedrock ``meta.llama3-1-8b-instruct-v1:0``, and hub ids may name a revision.

    Examples
    --------
    >>> respelled("accounts/fireworks/models/llama-v3p1-405b-instruct")
    'llama-3.1-405b-instruct'
    >>> respelled("meta.llama3-1-70b-instruct-v1:0"), respelled("openai/gpt-oss-120b@main")
    ('llama3.1-70b-instruct', 'gpt-oss-120b')
    """
    bare = without_owner(re.sub(r"@[\w.-]+$", "", name)).lower().replace("+", " plus")
    bare = re.sub(r"^(?:[a-z]{2}\.)?(?:meta|mistral|qwen|openai|google|amazon|cohere)\.(?=[a-z])", "", bare)
    bare = bare.replace("deepseek.", "deepseek-")
    bare = re.sub(r"-v?\d+:\d+$", "", bare)
    bare = re.sub(r"(fp[48]|int[48])-v\d+$", r"\1", bare)
    bare = re.sub(r"(?<![a-z0-9])v?(\d)p(\d)(?![a-z0-9])", r"\1.\2", bare)
    return re.sub(r"(?<![\d.])(\d)[-_](\d)(?=[-_](?!\d+[-_]))", r"\1.\2", bare)


def _specs_called(name: str, called: Mapping[str, list[str]], loosely: Mapping[str, list[str]]) -> list[str]:
    """The match that ignores parts of a name without effect on shapes."""
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


def words_of(name: str) -> list[str]:
    """The words of a model's name, without its owner.

    Examples
    --------
    >>> words_of("Qwen/Qwen3-4B-Instruct-2507")
    ['qwen3', '4b', 'instruct', '2507']
    """
    return _words(_plainly(name))


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
    return word in VARIANTS or word in WEIGHTS_BY_WORD or _NO_SHAPE.fullmatch(word) is not None


_NO_SHAPE = re.compile(r"\d{1,4}k|1m|gs?(?:32|64|128)|h[68]|\d(?:\.\d{1,2})?bpw")
"""The longest context in a name (``128k``), the size of groups (``g128``), bits a weight (``4.0bpw-h6``)."""


def _is_date(word: str) -> bool:
    """Whether a word is a release date: year and month (``2507``) or month and day (``0528``)."""
    month, day = r"(0[1-9]|1[0-2])", r"(0[1-9]|[12]\d|3[01])"
    return re.fullmatch(rf"2[3-9]{month}|{month}{day}", word) is not None
