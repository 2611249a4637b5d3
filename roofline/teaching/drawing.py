"""`Draw`: accelerators, models and numbers of a question, drawn with a seed; and the registry of templates."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from ..arrays import FrozenMapping
from ..hardware import Accelerator
from ..model import Model
from ..model.blocks.grouped_query_attention import Attention
from ..model.blocks.mlp import MLP, MoE
from ..specs.library import get_accelerator, get_model
from ..units import humanize
from .question import Mistake, Question, close

T = TypeVar("T")

TOPICS = (
    "counting",
    "roofline",
    "phases",
    "kv",
    "quantization",
    "parallelism",
    "moe",
    "serving",
    "queueing",
    "cost",
    "interview",
)

LARGE = (
    "a100-sxm-40gb",
    "a100-sxm-80gb",
    "b200-sxm",
    "b300-sxm",
    "gb200",
    "gb300",
    "gh200-96gb",
    "h100-nvl",
    "h100-sxm",
    "h200-nvl",
    "h200-sxm",
    "mi300x",
    "mi325x",
    "mi355x",
)
"""Accelerators for large models on which a decode step of 64 sequences is memory-bound."""

SMALL = ("a10", "a10g", "a40", "h100-pcie", "l20", "l4", "l40", "l40s", "rtx-4090", "rtx-5090", "rtx-6000-ada")
ANY = (*LARGE, *SMALL)

WITH_FP8 = tuple(name for name in ANY if name not in ("a10", "a10g", "a40", "a100-sxm-40gb", "a100-sxm-80gb"))
"""Accelerators with FP8 units."""

LINKED = ("a100-sxm-40gb", "a100-sxm-80gb", "b200-sxm", "b300-sxm", "gb200", "h100-sxm", "h20-96gb", "h200-sxm")
"""Accelerators connected by a switch."""

DENSE = (
    "codellama-34b",
    "internlm-20b",
    "llama-2-13b",
    "llama-2-70b",
    "llama-2-7b",
    "llama-3.1-405b",
    "llama-3.1-70b",
    "llama-3.1-8b",
    "mistral-7b-v0.3",
    "mistral-small-3-24b-dolphin",
    "olmo-2-32b",
    "olmo-2-7b",
    "phi-4",
    "qwen2.5-14b",
    "qwen2.5-32b",
    "qwen2.5-72b",
    "qwen2.5-7b",
    "qwen3-14b",
    "qwen3-32b",
    "qwen3-8b",
    "yi-1.5-6b",
)
"""Models with identical layers, gated MLPs and an untied output layer."""

MIXTURES = ("mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b", "qwen3-235b-a22b")


@dataclass(frozen=True)
class UniformModel:
    """The shape of a model with identical layers, as quoted in questions."""

    name: str
    title: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    total: int
    active: int
    embedding: int
    experts: int
    top_k: int

    @property
    def model(self) -> Model:
        """The model itself."""
        return model_named(self.name)


@lru_cache(maxsize=64)
def accelerator_named(name: str) -> Accelerator:
    """An accelerator of the library, read once."""
    return get_accelerator(name)


@lru_cache(maxsize=64)
def model_named(name: str) -> Model:
    """A model of the library, read once."""
    return get_model(name)


@lru_cache(maxsize=64)
def uniform_model(name: str) -> UniformModel:
    """The shape of a model of the library, read once."""
    model = model_named(name)
    (group,) = model.layers
    attention = next(block for block in group.blocks if isinstance(block, Attention))
    mlp = next(block for block in group.blocks if isinstance(block, MLP | MoE))
    counts = model.parameters
    mixture = isinstance(mlp, MoE)
    return UniformModel(
        name=name,
        title=model.title or name,
        layers=group.count,
        hidden=model.hidden,
        heads=attention.query_heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        intermediate=mlp.intermediate,
        vocab=model.vocab,
        total=counts.total,
        active=counts.active,
        embedding=counts.embedding,
        experts=mlp.experts if isinstance(mlp, MoE) else 1,
        top_k=mlp.top_k if mixture and isinstance(mlp, MoE) else 1,
    )


class Draw:
    """Numbers for one question; the same seed draws the same ones.

    Parameters
    ----------
    template : Template
        The template of the question.
    seed : int
        The seed.
    """

    def __init__(self, template: Template, seed: int) -> None:
        self.template = template
        self.seed = seed
        self.random = random.Random(f"{template.name}:{seed}")

    def pick(self, values: Sequence[T]) -> T:
        """One of ``values``."""
        return self.random.choice(values)

    def whole(self, low: int, high: int, step: int = 1) -> int:
        """A multiple of ``step`` from ``low`` to ``high``."""
        return self.random.randrange(low, high + 1, step)

    def share(self, low: float, high: float, step: float = 0.05) -> float:
        """A share on a grid of ``step``."""
        return round(low + step * self.random.randrange(round((high - low) / step) + 1), 4)

    def accelerator(self, names: Sequence[str] = ANY) -> Accelerator:
        """One of the accelerators ``names``."""
        return accelerator_named(self.pick(names))

    def model(self, names: Sequence[str] = DENSE) -> UniformModel:
        """One of the models ``names``."""
        return uniform_model(self.pick(names))

    def ask(
        self,
        text: str,
        answer: float | str,
        unit: str = "",
        *,
        given: Mapping[str, Any],
        solution: Iterable[str],
        mistakes: Mapping[str, float | str] | None = None,
        options: tuple[str, ...] = (),
        tolerance: float = 0.05,
    ) -> Question:
        """The question, without wrong answers that happen to be right with these numbers."""
        right = answer if isinstance(answer, str) else float(np.asarray(answer))
        wrong = []
        for name, value in (mistakes or {}).items():
            mistake = Mistake(name, value if isinstance(value, str) else float(np.asarray(value)))
            if not _is_right(mistake.value, right, tolerance):
                wrong.append(mistake)
        return Question(
            name=self.template.name,
            topic=self.template.topic,
            difficulty=self.template.difficulty,
            seed=self.seed,
            text=text,
            answer=right,
            unit=unit,
            given=FrozenMapping(given),
            solution=tuple(solution),
            mistakes=tuple(wrong),
            options=options,
            tolerance=tolerance,
        )


def _is_right(value: float | str, right: float | str, tolerance: float) -> bool:
    if isinstance(value, str) or isinstance(right, str):
        return value == right
    return close(value, right, 1.5 * tolerance)  # a wrong answer has to be clearly apart from the right one


@dataclass(frozen=True)
class Template:
    """A kind of question.

    Attributes
    ----------
    name, topic : str
        Name and topic.
    difficulty : int
        1 to 3.
    make : callable
        Fills in the numbers.
    """

    name: str
    topic: str
    difficulty: int
    make: Callable[[Draw], Question]

    def question(self, seed: int) -> Question:
        """The question with the numbers that ``seed`` draws."""
        return self.make(Draw(self, seed))


TEMPLATES: dict[str, Template] = {}
"""Every template by name; filled when the modules of `roofline.teaching.templates` are imported."""


def template(topic: str, difficulty: int) -> Callable[[Callable[[Draw], Question]], Callable[[Draw], Question]]:
    """Register a function that fills numbers into a question, under its name."""

    def register(make: Callable[[Draw], Question]) -> Callable[[Draw], Question]:
        TEMPLATES[make.__name__] = Template(make.__name__, topic, difficulty, make)
        return make

    return register


# --- how numbers are written ------------------------------------------------------------------------------------------


def rate(value: Any) -> str:
    """Bytes per second in words."""
    return humanize("bytes_per_s", float(np.asarray(value)))


def peak(value: Any) -> str:
    """FLOP/s in words."""
    return humanize("flops_per_s", float(np.asarray(value)))


def bytes_words(value: Any) -> str:
    """Bytes in words."""
    return humanize("bytes", float(np.asarray(value)))


def time(value: Any) -> str:
    """Seconds in words."""
    return humanize("s", float(np.asarray(value)))


def billions(count: float) -> str:
    """Parameters in words: ``69.5 billion``."""
    return f"{count / 1e9:.4g} billion"


def as_said(count: float) -> float:
    """The number that `billions` writes."""
    return float(f"{count / 1e9:.4g}") * 1e9


def gpu_words(gpu: Accelerator) -> str:
    """An accelerator with the numbers that a question needs."""
    dense = float(np.asarray(gpu.dense_flops_per_s["bf16"]))
    sparse = gpu.sparse_flops_per_s.get("bf16")
    printed = f" ({peak(sparse)} with 2:4 sparsity)" if sparse else ""
    return f"{gpu.title}: {peak(dense)} dense in bf16{printed}, {rate(gpu.memory_bytes_per_s)}"


def bf16_peak(gpu: Accelerator) -> float:
    """Dense peak in bf16."""
    return float(np.asarray(gpu.dense_flops_per_s["bf16"]))


def bf16_sparse(gpu: Accelerator) -> float:
    """Peak with 2:4 sparsity in bf16; the dense peak if the data sheet prints none."""
    return float(np.asarray(gpu.sparse_flops_per_s.get("bf16", bf16_peak(gpu))))


def bandwidth(gpu: Accelerator) -> float:
    """Memory bandwidth."""
    return float(np.asarray(gpu.memory_bytes_per_s))
