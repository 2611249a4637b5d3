"""Parallelism: division of a model over accelerators.

=========  ========================================================================================================
tensor     matrices and heads divide; a head does not, so past their number heads are replicated; norms, router and an
           MLA latent are whole on every accelerator; two all-reduces a layer
pipeline   layers divide into stages that follow each other; a step passes all of them
expert     routed experts divide over ``expert`` accelerators, which may span several data-parallel replicas, as may
           the ``moe_tensor`` accelerators that each expert's matrices divide over
data       replicas of attention and dense layers, each with its own sequences
context    the tokens of a sequence divide: new ones in prefill, cached ones in decode
dcp        the cached tokens divide within a group that tensor parallelism would give whole copies of the cache: no
           further accelerators; queries are gathered and results scattered in every layer of a decode step
=========  ========================================================================================================

Shoeybi et al., Megatron-LM (arXiv:1909.08053) for tensor; Huang et al., GPipe (arXiv:1811.06965) for pipeline;
DeepSeek-V3 (arXiv:2412.19437, section 3.4) for expert beside data; Liu et al., Ring Attention (arXiv:2310.01889) for
context; vLLM's and SGLang's decode context parallelism (Helix, arXiv:2507.07120) for ``dcp``, the field
``decode_context``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import ceil, larger, last_axis
from ..errors import InvalidInput, Number, number
from ..units import humanize
from ..values import Value, brief


@dataclass(frozen=True, eq=False, repr=False)
class Parallel(Value):
    """Degrees of parallelism, each an integer >= 1 or an array.

    Attributes
    ----------
    tensor : int or array
        Accelerators that each matrix is divided over (tensor parallelism, TP).
    pipeline : int or array
        Stages that the layers are divided into (pipeline parallelism, PP).
    expert : int or array
        Accelerators that the routed experts are divided over (expert parallelism, EP); with 1, experts are divided like
        any other matrix.
    data : int or array
        Replicas of attention and dense layers, each with its own sequences (data parallelism, DP).
    context : int or array
        Accelerators that the tokens of a sequence are divided over (context parallelism, CP).
    decode_context : int or array
        Accelerators of a tensor-parallel group that the cached tokens of a sequence are divided over (decode context
        parallelism, DCP).
    overlap : float or array
        Share of the communication time that overlaps with other work, 0 to 1.
    moe_tensor : int, optional
        Accelerators that the matrices of each routed expert are divided over, if that group spans data-parallel
        replicas. Engines that replicate attention (vLLM's ``--data-parallel-size``, SGLang's ``--enable-dp-attention``)
        divide experts over all replicas unless expert parallelism is on. If not given, the tensor-parallel group
        divided by ``expert``.
    expert_nodes : int, optional
        Nodes that the experts of a token are on at most, if a token crosses the network once per node and is forwarded
        inside it (DeepEP's normal kernels; DeepSeek-V3 routes to at most 4). If not given, a token is sent to each
        accelerator with one of its experts by itself (DeepEP's low-latency kernels, and plain collectives).

    Raises
    ------
    InvalidInput
        A degree is not an integer >= 1, the overlap is outside [0, 1], or ``expert`` exceeds tensor x data or does
        not divide evenly with ``tensor``. With ``moe_tensor``, the ``expert * moe_tensor`` accelerators that share a
        set of experts have to be whole replicas.

    Examples
    --------
    >>> import roofline as rl
    >>> rl.Parallel(tensor=8, pipeline=2).accelerators
    16
    >>> rl.Parallel(data=4, moe_tensor=4).expert_replicas  # four replicas share one set of experts
    4.0
    """

    tensor: Number = 1
    pipeline: Number = 1
    expert: Number = 1
    data: Number = 1
    context: Number = 1
    decode_context: Number = 1
    overlap: Number = 0.0
    moe_tensor: int | None = None
    expert_nodes: int | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if getattr(value, "dims", ()):
                degrees = ", ".join(map(str, np.asarray(value).ravel()[:4]))
                raise InvalidInput(
                    f"{item.name} has named dimensions {tuple(value.dims)}, which a layout does not keep; "
                    f"pass an array, {item.name}=[{degrees}], or label layouts with roofline.sweep(model, accelerator, "
                    f"parallels=[Parallel({item.name}=n) for n in ({degrees})])"
                )
        for item in fields(self)[:-3]:
            object.__setattr__(self, item.name, number(item.name, getattr(self, item.name), least=1, whole=True))
        overlap = number("overlap", self.overlap)
        object.__setattr__(self, "overlap", overlap)
        if np.any(np.asarray(overlap) > 1):
            raise InvalidInput(f"overlap must be at most 1: {self.overlap!r}")
        self._check_experts()
        if np.any(np.asarray(self.tensor) % np.asarray(self.decode_context)):
            raise InvalidInput(f"decode_context must divide tensor: {self.decode_context} of {self.tensor}")

    def _check_experts(self) -> None:
        tensor, expert, data = (np.asarray(value) for value in (self.tensor, self.expert, self.data))
        if np.any(expert > tensor * data):
            raise InvalidInput(f"expert must be at most tensor x data: {self.expert} > {self.tensor} x {self.data}")
        if np.any(np.maximum(tensor, expert) % np.minimum(tensor, expert)):
            raise InvalidInput(f"expert and tensor must divide evenly: {self.expert} and {self.tensor}")
        if self.moe_tensor is not None:
            self._check_moe_tensor()
        if self.expert_nodes is not None and np.ndim(number("expert_nodes", self.expert_nodes, least=1, whole=True)):
            raise InvalidInput("expert_nodes must be a single number, not an array")

    def _check_moe_tensor(self) -> None:
        ways = number("moe_tensor", self.moe_tensor, least=1, whole=True)
        if np.ndim(ways):
            raise InvalidInput("moe_tensor must be a single number, not an array")
        ranks = np.asarray(self.expert) * ways
        if np.any(ranks % np.asarray(self.tensor)) or np.any(ranks > np.asarray(self.tensor) * np.asarray(self.data)):
            raise InvalidInput(
                f"expert x moe_tensor must be a multiple of tensor, at most tensor x data: {self.expert} x "
                f"{self.moe_tensor} beside {self.tensor} x {self.data}"
            )

    @property
    def single(self) -> bool:
        """Whether nothing is divided."""
        return self._single

    @cached_property
    def _single(self) -> bool:
        return all(np.ndim(value) == 0 and value == 1 for value in self.degrees)

    @cached_property
    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Degrees that are arrays, by name."""
        figures = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in figures.items() if isinstance(value, np.ndarray)}

    @property
    def is_sweep(self) -> bool:
        """Whether any degree is an array."""
        return bool(self.arrays)

    def with_new_axis(self) -> Parallel:
        """Return a copy whose arrays have a trailing axis of length 1."""
        return replace(self, **{name: last_axis(value) for name, value in self.arrays.items()})

    @property
    def degrees(self) -> tuple[Number, ...]:
        """Degrees of tensor, pipeline, expert, data and context parallelism."""
        return (self.tensor, self.pipeline, self.expert, self.data, self.context)

    @property
    def ranks(self) -> Number:
        """Number of accelerators that hold a part of the same layer."""
        return self.tensor * self.data * self.context

    @property
    def accelerators(self) -> Number:
        """Total number of accelerators."""
        return self.ranks * self.pipeline

    @property
    def expert_tensor(self) -> Number:
        """Number of accelerators that each expert's matrices are divided over."""
        if self.moe_tensor is None:
            return larger(self.tensor / self.expert, 1.0)
        return float(self.moe_tensor)

    @property
    def expert_replicas(self) -> Number:
        """Number of data-parallel replicas that share one set of routed experts."""
        return larger(self.expert * self.expert_tensor / self.tensor, 1.0)

    def __repr__(self) -> str:
        return brief(self)

    def __str__(self) -> str:
        names = {"tensor": "TP", "pipeline": "PP", "expert": "EP", "data": "DP", "context": "CP"}
        names |= {"decode_context": "DCP"} | ({} if self.moe_tensor is None else {"moe_tensor": "MoE TP"})
        names |= {} if self.expert_nodes is None else {"expert_nodes": "expert nodes"}
        degrees = {short: getattr(self, name) for name, short in names.items()}
        used = [f"{short} {humanize('degree', ways)}" for short, ways in degrees.items() if np.any(ways != 1)]
        return ", ".join(used) or "one accelerator"


ONE = Parallel()
"""Layout on one accelerator."""


def share(pieces: Number, ways: Number) -> Number:
    """Return the share of ``pieces`` on the most loaded of ``ways`` accelerators: ``ceil(p / w) / p``.

    Pieces are indivisible, and padded if they do not divide evenly.  With more accelerators than pieces, each holds one
    whole piece, as KV heads are replicated under wide tensor parallelism.

    Examples
    --------
    >>> [float(share(pieces, ways)) for pieces, ways in ((8, 4), (8, 16), (40, 16))]
    [0.25, 0.125, 0.075]
    """
    return ceil(pieces / ways) / pieces
