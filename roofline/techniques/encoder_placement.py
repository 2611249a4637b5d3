"""Encoders of images and sound, on the language model's accelerators or on separate ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..arrays import scalar
from ..errors import Number, number
from ..model.decoder import PREDICTION
from ..operators.roofline import memory_s
from ..phases.media import media_tokens
from ..phases.sequences import prompts_of
from ..report import Step
from ..serving.pass_times import prompt_pass
from ..serving.scenario import Scenario
from .technique import HARDWARE, Technique


def prompt_s(case: Scenario) -> Number:
    """A prompt by itself."""
    return prompt_pass(case, replace(case.running, batch=1)).seconds("estimate_s")


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderDisaggregation(Technique):
    """Encode images on separate accelerators (vLLM blog of December 2025; arXiv:2501.05460).

    An encoder of ``N`` parameters takes ``2 N`` FLOPs per patch. If it shares the accelerators, no decode step runs
    meanwhile. On separate accelerators a prompt waits just as long, plus the time to transfer the embeddings, but
    decode steps of other requests continue.

    Attributes
    ----------
    patches : int or array
        Patches per request, from images or video frames, that the encoder processes, if the workload states no images.
    encoder_share : float or array
        Share of the peak FLOP/s that the encoder reaches; large 16-bit matrix products reach 0.5 to 0.6.
    link_bytes_per_s : float or array, optional
        Bandwidth of the link from the encoders, one direction, bytes/s; by default the accelerator's network.
    """

    slug: ClassVar[str] = "encoder-disaggregation"
    name: ClassVar[str] = "encoder disaggregation"
    helps: ClassVar[str] = "both"
    why: ClassVar[str] = "no decode step waits for an image to be encoded"
    costs: ClassVar[str] = "accelerators for the encoders; embeddings cross a link"
    effort: ClassVar[str] = HARDWARE

    patches: Number = 4096
    encoder_share: Number = 0.5
    link_bytes_per_s: Number | None = None

    def __post_init__(self) -> None:
        number("patches", self.patches, whole=True)
        number("encoder_share", self.encoder_share, least=0.01)
        if self.link_bytes_per_s is not None:
            number("link_bytes_per_s", self.link_bytes_per_s, least=1.0)

    @property
    def decides(self) -> tuple[str, ...]:
        """Decides where encoders run."""
        return ("where encoders run",)

    def refusal(self, case: Scenario) -> str:
        """Reject models without an encoder, and deployments without a link."""
        if not self._parameters(case):
            return f"{case.model.name} has no encoder of images or sound"
        name = case.serve.accelerator.name
        if self._rate(case) is not None:
            return ""
        return f"{name} has no nic_bytes_per_s: give link_bytes_per_s"

    def _parameters(self, case: Scenario) -> int:
        return sum(size for name, size in case.model.apart.items() if name != PREDICTION)

    def _rate(self, case: Scenario) -> Number | None:
        if self.link_bytes_per_s is None:
            return case.serve.accelerator.nic_bytes_per_s
        return self.link_bytes_per_s

    def _encode_s(self, case: Scenario) -> Number:
        """FLOPs at the share of the peak that is reached, or one read of the encoder's weights.

        For the images and the sound of a workload, what they add to a prompt.
        """
        if case.load.has_media:
            with_media_s, text_s = (prompt_s(each) for each in (case, case.without_media))
            return scalar(with_media_s - text_s)
        gpu, parameters = case.serve.accelerator, self._parameters(case)
        peak = gpu.peak_flops_per_s(gpu.math_on_chip("bf16"))
        computing_s = 2.0 * parameters * np.asarray(self.patches, dtype=float) / (peak * self.encoder_share)
        return scalar(np.maximum(computing_s, memory_s(2.0 * parameters, gpu)))

    def _transfer_s(self, case: Scenario) -> Number:
        patches: Number = self.patches
        if case.load.has_media:
            patches = media_tokens(case.serve, prompts_of(case.serve, case.load))
        embeddings = np.asarray(patches, dtype=float) * case.model.hidden * 2.0
        return scalar(embeddings / np.asarray(self._rate(case), dtype=float))

    def given(self, case: Scenario) -> Scenario:
        """Every prompt with its images, encoded where the model runs."""
        if case.load.has_media:
            return case
        return case.replace(encode_s=self._encode_s(case))

    def after(self, case: Scenario) -> Scenario:
        """Encoded elsewhere."""
        elsewhere_s = self._encode_s(case) + self._transfer_s(case)
        return case.without_media.replace(encode_s=0.0, encoded_elsewhere_s=elsewhere_s)

    def steps(self, case: Scenario) -> tuple[Step, ...]:
        """Time of the encoder."""
        if case.load.has_media:
            known = {"prompt_s": prompt_s(case), "text_s": prompt_s(case.without_media)}
            return (Step("encode_s", "prompt_s - text_s", known, self._encode_s(case), "the encoder's own operators"),)
        gpu = case.serve.accelerator
        known = {
            "parameters": self._parameters(case),
            "patches": np.asarray(self.patches, dtype=float),
            "peak": gpu.peak_flops_per_s(gpu.math_on_chip("bf16")),
            "reached": self.encoder_share,
            "bandwidth": gpu.memory_bytes_per_s,
        }
        formula = "max(2 * parameters * patches / (peak * reached), 2 * parameters / bandwidth)"
        return (Step("encode_s", formula, known, self._encode_s(case), "2 FLOPs per parameter and patch"),)
