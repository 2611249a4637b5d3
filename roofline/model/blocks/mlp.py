"""Feed-forward blocks: plain and gated MLP, mixture of experts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ... import operators
from ...errors import InvalidInput
from ...operators.operator import Operator, Pass
from ...operators.weights import Linear, Vector, Weight
from .block import Block, whole


@dataclass(frozen=True, eq=False, kw_only=True)
class MLP(Block):
    """``down(f(up(x)))``, or gated: ``down(f(gate(x)) * up(x))`` (SwiGLU and its kin, arXiv:2002.05202).

    A gated MLP has three matrices of ``hidden x intermediate``, a plain one two; 2 FLOPs per parameter and token.
    The activation function is assumed to be fused into the products, as in engines.

    Attributes
    ----------
    intermediate : int
        Inner width.
    gated : bool
        Whether there are three matrices rather than two.
    bias : bool
        Whether the matrices have biases.
    part : str
        Part of the model to which it is counted (``shared_experts`` inside a mixture of experts).
    vectors : int
        Parameters that are not matrices: a norm inside (BitNet), a learned activation (Apertus).
    """

    intermediate: int
    gated: bool = True
    bias: bool = False
    part: str = "mlp"
    vectors: int = 0

    def __post_init__(self) -> None:
        whole(self, "hidden", "intermediate")

    @property
    def kind(self) -> str:
        """Gated or plain, with the inner width."""
        return f"{'gated' if self.gated else 'plain'} MLP {self.intermediate:,}"

    def weights(self) -> tuple[Weight, ...]:
        """Gate if there is one, up, down; vectors if there are any."""
        return (*self.matrices, *((Vector("mlp_vectors", self.vectors),) if self.vectors else ()))

    @cached_property
    def matrices(self) -> tuple[Linear, ...]:
        """Gate if there is one, up, down."""
        prefix = "shared_" if self.part == "shared_experts" else ""
        up = Linear(f"{prefix}up_proj", self.hidden, self.intermediate, self.part, self.bias, split="columns")
        gate = Linear(
            f"{prefix}gate_proj",
            self.hidden,
            self.intermediate,
            self.part,
            self.bias,
            split="columns",
            joins=up.name,
        )
        down = Linear(f"{prefix}down_proj", self.intermediate, self.hidden, self.part, self.bias, split="rows")
        return (gate, up, down) if self.gated else (up, down)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """One product per matrix."""
        for weight in self.matrices:
            yield operators.linear(weight, run.tokens, run)


@dataclass(frozen=True, eq=False, kw_only=True)
class MoE(Block):
    """Mixture of experts: a router sends every token to ``top_k`` of ``experts`` MLPs, and to the shared one if any.

    Parameters count all experts; a token is multiplied with ``top_k`` of them (arXiv:2401.04088, section 2.1).  How
    many are *read* in a pass lies between ``top_k`` (all tokens agree) and the expected number of distinct ones (see
    `distinct_experts`).  Softmax and sigmoid routers cost the same: one product with the router.

    Attributes
    ----------
    experts, top_k : int
        Number of routed experts, and of those used per token.
    intermediate : int
        Inner width of one expert.
    gated, bias : bool
        Shape of each expert.
    shared_bias : bool
        Whether shared experts, or the dense MLP parallel to the routed ones, have biases.
    router_bias : bool
        Whether the router has a bias or a correction term for each expert.
    shared_intermediate : int, optional
        Inner width of the shared expert, which processes every token; None if there is none.
    shared_gate : bool
        Whether the shared expert's output is gated by a learned vector (Qwen).
    dense_intermediate : int, optional
        Inner width of a dense MLP that runs parallel to the experts (Gemma 4); None if there is none.
    latent : int, optional
        Width that the routed experts work on, between two projections (Nemotron 3); ``hidden`` if None.
    router_hidden : int, optional
        Inner width of a router that is an MLP of three layers (ZAYA1); a single product if None.
    zero_experts : int
        Additional experts that do nothing (LongCat). The router scores them too, and a random share of a token's
        ``top_k`` are such experts.
    vectors : int
        Parameters that are not matrices: scales of the router, norms inside.

    Raises
    ------
    InvalidInput
        A size is not an integer >= 1, or ``top_k`` exceeds ``experts``.
    """

    experts: int
    top_k: int
    intermediate: int
    gated: bool = True
    bias: bool = False
    router_bias: bool = False
    shared_intermediate: int | None = None
    shared_gate: bool = False
    dense_intermediate: int | None = None
    latent: int | None = None
    shared_bias: bool = False
    router_hidden: int | None = None
    zero_experts: int = 0
    vectors: int = 0

    def __post_init__(self) -> None:
        whole(self, "hidden", "experts", "top_k", "intermediate")
        for name in ("shared_intermediate", "dense_intermediate", "latent"):
            if getattr(self, name) is not None:
                whole(self, name)
        if self.top_k > self.experts:
            raise InvalidInput(f"top_k must be at most the number of experts: {self.top_k} of {self.experts}")

    @property
    def kind(self) -> str:
        """Active and total experts, with the inner width."""
        shared = f" + shared {self.shared_intermediate:,}" if self.shared_intermediate else ""
        dense = f" + dense {self.dense_intermediate:,}" if self.dense_intermediate else ""
        return f"MoE {self.top_k} of {self.experts} x {self.intermediate:,}{shared}{dense}"

    @property
    def router(self) -> Linear:
        """Product that scores the experts."""
        return Linear("router", self.hidden, self.experts + self.zero_experts, "router", self.router_bias)

    @cached_property
    def routers(self) -> tuple[Linear, ...]:
        """All products of the router."""
        width = self.router_hidden
        if width is None:
            return (self.router,)
        inner = (Linear(f"router_fc{at}", width, width, "router", True) for at in (1, 2))
        scores = Linear("router", width, self.experts + self.zero_experts, "router", self.router_bias)
        return (Linear("router_down_proj", self.hidden, width, "router", True), *inner, scores)

    @property
    def used(self) -> int:
        """Experts that compute for a token: ``top_k`` minus the expected empty ones."""
        return max(round(self.top_k * self.experts / (self.experts + self.zero_experts)), 1)

    @cached_property
    def routed(self) -> tuple[Linear, ...]:
        """Matrices of the routed experts."""
        width = self.latent or self.hidden

        def of_all(name: str, d_in: int, d_out: int) -> Linear:
            split = "rows" if name == "down" else "columns"
            return Linear(f"experts_{name}", d_in, d_out, "experts", self.bias, self.experts, self.used, split)

        up, gate = of_all("up", width, self.intermediate), of_all("gate", width, self.intermediate)
        down = of_all("down", self.intermediate, width)
        return (gate, up, down) if self.gated else (up, down)

    @cached_property
    def beside(self) -> tuple[Linear, ...]:
        """Matrices used by every token: shared expert, dense MLP, projections of the latent."""
        found: list[Linear] = []
        if self.latent:
            found.append(Linear("latent_down_proj", self.hidden, self.latent, "mlp"))
            found.append(Linear("latent_up_proj", self.latent, self.hidden, "mlp"))
        if self.shared_intermediate:
            found.extend(self._mlp(self.shared_intermediate, "shared_experts"))
        if self.shared_gate:
            found.append(Linear("shared_gate", self.hidden, 1, "shared_experts"))
        if self.dense_intermediate:
            found.extend(self._mlp(self.dense_intermediate, "mlp"))
        return tuple(found)

    def _mlp(self, intermediate: int, part: str) -> tuple[Linear, ...]:
        return MLP(
            hidden=self.hidden,
            intermediate=intermediate,
            gated=self.gated,
            bias=self.bias or self.shared_bias,
            part=part,
        ).matrices

    def weights(self) -> tuple[Weight, ...]:
        """Router, routed experts, and matrices used by every token."""
        vectors = (Vector("router_vectors", self.vectors, "router"),) if self.vectors else ()
        return (*self.routers, *self.routed, *self.beside, *vectors)

    def operators(self, run: Pass) -> Iterator[Operator]:
        """Yield router, grouped products of the routed experts, and products used by every token."""
        for weight in self.routers:
            yield operators.linear(weight, run.tokens, run)
        for weight in self.routed:
            yield operators.experts(weight, run.tokens, run)
        for weight in self.beside:
            yield operators.linear(weight, run.tokens, run)
