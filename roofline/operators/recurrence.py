"""Recurrence, the operator of recurrent mixers: a state of constant size, updated and read at each token."""

from __future__ import annotations

from collections.abc import Iterator

from ..arrays import FrozenMapping, smaller
from .operator import Operator, Pass
from .parallel import share
from .work import Work

FORMULAS = FrozenMapping(
    {
        "flops": "sequences * new_tokens * flops_per_token",
        "weight_bytes": "parameters * weight_bits / 8",
        "activation_bytes": "sequences * new_tokens * values_per_token * activation_bits / 8",
        "cache_bytes": "sequences * (had_state + 1) * state_bytes",
    }
)
SOURCE = "recurrence: the state is read once if the sequence has a past, kept on the chip, and written once a pass"


def scan(
    name: str,
    run: Pass,
    *,
    flops_per_token: float,
    values_per_token: float,
    state_bytes: float,
    heads: int,
    parameters: float = 0.0,
) -> Iterator[Operator]:
    """Yield the recurrence of each segment; its state is read and written once per pass.

    A prompt starts from an empty state, which is not read.  The parameters (convolution, decays, norm) are read with
    the first segment.  Tensor parallelism divides state and work by ``heads``.
    """
    precision, part = run.precision, share(heads, run.parallel.tensor)
    weight_bits = precision.part("norm").weight_bits
    for at, segment in enumerate(run.segments):
        sequences, tokens = segment.sequences, segment.tokens
        had_state = smaller(segment.past_tokens, 1.0)
        small = parameters * part if at == 0 else 0.0
        flops = tokens * flops_per_token * part
        moved = sequences * (had_state + 1) * state_bytes * part
        weight_bytes = small * (weight_bits / 8)
        yield Operator(
            name,
            "scan",
            Work(
                flops,
                weight_bytes,
                tokens * values_per_token * part * (precision.wide_bits / 8),
                moved,
                precision.attention,
            ),
            Work(flops, weight_bytes, 0.0, moved, precision.attention),
            inputs={
                "sequences": sequences,
                "new_tokens": segment.new_tokens,
                "had_state": had_state,
                "flops_per_token": flops_per_token * part,
                "values_per_token": values_per_token * part,
                "state_bytes": state_bytes * part,
                "parameters": small,
                "weight_bits": weight_bits,
                "activation_bits": precision.wide_bits,
            },
            formulas=FORMULAS,
            source=SOURCE,
        )
