"""Sources of encoder-decoders under load: what an encoder reads once, and each step of its decoder looks at.

A request computes its encoder's output once, over a whole source, and keeps the keys and values that the decoder
projects from it.  Each of its steps reads all of them and those of its own tokens.  There are two kinds:

- text (T5, BART): the prompt is the source, and the decoder begins with a start token.  A source token takes as much
  cache as a generated one, so the context of a sequence, source and own tokens, tells what it holds and reads.
- sound (Whisper): the source is a window of fixed length, whose keys and values are a constant state, and the prompt is
  the start of the decoder's tokens.

A source is never cut into chunks, since all of its tokens see each other; its encoder's tokens count toward the budget
of a step (vLLM: ``max_num_encoder_input_tokens`` is ``max_num_batched_tokens``).
"""

from __future__ import annotations

import numpy as np

from ..errors import InvalidInput, Number
from ..model import Model
from ..operators.operator import Segment
from ..phases.deployment import Deployment
from ..phases.encoder_rules import refuse_encoders
from ..phases.sequences import steps_of
from ..specs.engine_settings import release
from ..specs.engines import GENERIC

SOURCE_TOKENS = 512.0
"""Length of sources until a load tells their own."""

SERVED = {
    GENERIC: ("text", "sound"),
    "transformers": ("text", "sound"),
    "trtllm": ("text", "sound"),
    "trtllm-tensorrt": ("text", "sound"),
    "vllm": ("sound",),
    "tgi": ("text",),
}
"""Engine -> sources of the encoder-decoders that it serves: T5, BART and Whisper under TensorRT-LLM
(https://nvidia.github.io/TensorRT-LLM/latest/models/encoder-decoder.html), Whisper under vLLM, T5 under TGI."""

UNTIL_V1 = "0.11.0"
"""Release of vLLM that removed its first engine, which served BART (docs.vllm.ai, V1 guide)."""


def check_served(serve: Deployment) -> None:
    """Reject encoders, and encoder-decoders that the engine does not serve.

    Raises
    ------
    InvalidInput
        The model generates nothing, or the engine has no encoder-decoders of its kind.
    """
    model, engine = serve.model, serve.server
    if model.encoder is None:
        refuse_encoders(model, "requests under load")
        return
    kind = _kind(model)
    if not serves(model, engine.name, engine.version):
        others = ", ".join(name for name in SERVED if name != GENERIC and serves(model, name))
        raise InvalidInput(
            f"{engine} does not serve {model.name}, an encoder-decoder of {kind}; engines that do: {others}"
        )


def serves(model: Model, engine: str, version: str = "") -> bool:
    """Return whether an engine serves models with this encoder; by default its newest release."""
    if model.encoder is None:
        return True
    if engine == "vllm" and version and release(version) < release(UNTIL_V1):
        return True
    return _kind(model) in SERVED.get(engine, ())


def _kind(model: Model) -> str:
    """Return what an encoder-decoder reads."""
    return "sound" if encoded_beside(model) else "text"


def check_whole(model: Model, hit_rate: Number) -> None:
    """Reject cached prefixes of sources.

    Raises
    ------
    InvalidInput
        A share of the prompts is cached.
    """
    if model.encoder is not None and np.any(hit_rate):
        raise InvalidInput(f"hit_rate must be 0: {model.name} encodes whole sequences and caches no part of them")


def decoder_tokens(model: Model, new_tokens: Number) -> Number:
    """Return the tokens of a prompt that pass through the decoder."""
    text = model.encoder is not None and model.encoder.positions is None
    return 1.0 if text else new_tokens


def encoded_beside(model: Model) -> float:
    """Return the encoder's tokens of a request that are not those of its prompt."""
    return float(model.encoder.positions or 0.0) if model.encoder is not None else 0.0


def sorted_segment(model: Model, segment: Segment) -> Segment:
    """Return a segment of which the operators of decoding are found, with a source if there is one."""
    if model.encoder is None:
        return segment
    return Segment(
        segment.sequences,
        segment.new_tokens,
        segment.past_tokens,
        segment.emitted_tokens,
        source_tokens=encoded_beside(model) or SOURCE_TOKENS,
    )


def prompts_segment(model: Model, prompts: Number, new_tokens: Number, past_tokens: Number) -> Segment:
    """Return ``prompts`` prompts of ``new_tokens`` after ``past_tokens``."""
    if model.encoder is None:
        return Segment(prompts, np.maximum(new_tokens, 2.0), past_tokens)
    beside = encoded_beside(model)
    if beside:
        return Segment(prompts, new_tokens, past_tokens, source_tokens=beside, encoded_tokens=beside)
    source = new_tokens + 0.0 * past_tokens  # never cut, so that nothing comes before
    return Segment(prompts, 1.0, 0.0, source_tokens=source, encoded_tokens=source)


def steps_segment(model: Model, batch: Number, context_tokens: Number, source_tokens: Number) -> Segment:
    """Return sequences that decode, with sources of a given length if the prompt is the source."""
    return steps_of(model, batch, context_tokens, prompt_tokens=source_tokens)
