"""Number of kernels that the host launches one by one in a pass without a graph.

They are counted from the operators of the model.  A product that joins another one's kernel starts no kernel, and a
residual is part of the norm that follows it.  Kernels of an operator in addition to the one that does its work:

=============  =================================================================================
attention      rotary positions and the new entries of the cache
their norms    one each of queries and keys
with latents   these, and concatenating the keys and the values of all heads
experts        routing, sorting the tokens, a product to the hidden width, the activation, the
               product back, and the sum of what the experts return
an MLP         the activation between its products
scan           a convolution, gates, and five steps of a scan in chunks
=============  =================================================================================
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..model import Model
from ..model.rewriting import Rewritten
from ..operators.operator import Operator, Pass, Segment
from ..operators.parallel import Parallel
from ..operators.precision import Precision

KERNELS = {"attention": 2, "scan": 8}
"""Kind of operator -> number of kernels; 1 for other kinds."""

LATENT_KERNELS = 4
EXPERT_KERNELS = 6


@lru_cache(maxsize=256)
def launched_kernels(model: Model, *, communicates: bool) -> float:
    """Return the number of kernels in a pass over a prompt.

    Parameters
    ----------
    model : Model
        Model that runs.
    communicates : bool
        Whether several accelerators share its layers, which adds exchanges between them.

    Returns
    -------
    float
        Number of kernels in all layers.

    Examples
    --------
    >>> import roofline as rl
    >>> llama = rl.get_model("llama-3.1-70b")
    >>> round(launched_kernels(llama, communicates=False) / llama.layer_count, 1)
    9.0
    """
    layout = Parallel(tensor=2) if communicates else Parallel()
    run = Pass((Segment(1.0, 2.0, 1.0),), Precision(), parallel=layout)
    plain = model.plain if isinstance(model, Rewritten) else model  # adapters are counted separately
    operators = plain.operators(run)
    return sum(float(np.max(operator.launches)) * _kernels(operator) for operator in operators)


def _kernels(operator: Operator) -> float:
    """Return the number of kernels in one run of an operator."""
    if operator.joins or operator.name == "residual":
        return 0.0
    if operator.kind == "experts":
        return EXPERT_KERNELS if operator.name.endswith("down") else 0.0
    if operator.choice:
        return LATENT_KERNELS / 2.0  # only one of two ways runs
    if operator.name.endswith("down_proj") or operator.name == "qk_norm":
        return 2.0
    return float(KERNELS.get(operator.kind, 1))
