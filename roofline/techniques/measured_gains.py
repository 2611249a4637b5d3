"""Measured gains by technique: the range over all rows of ``tests/data/measurements/technique_gains.csv``.

A gain above 1 is an improvement.  A range covers all conditions under which a technique was measured.  It shows the
best and the worst case; the prediction for one deployment need not be in its middle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..arrays import FrozenMapping


class MeasuredGains(NamedTuple):
    """Published measurements of the gain of a technique.

    Attributes
    ----------
    low, high : float
        Smallest and largest gain.
    rows : int
        Number of measurements in the range.
    sources : tuple of str
        Titles of pages, papers and threads.
    bound : bool
        Whether the sources state only an upper or a lower bound.
    """

    low: float
    high: float
    rows: int
    sources: tuple[str, ...]
    bound: bool = False

    @property
    def words(self) -> str:
        """The range as text: ``0.84x to 1.9x (25)``."""
        shown = "" if self.low == self.high else f"{self.low:.3g}x to "
        return f"{shown}{self.high:.3g}x ({'bound, ' if self.bound else ''}{self.rows})"


MEASURED: Mapping[str, MeasuredGains] = FrozenMapping(
    {
        "speculative": MeasuredGains(
            0.71,
            2.154,
            32,
            (
                "vllm-project/vllm issue 20780",
                "SafeAILab/EAGLE PR 173",
                "EAGLE-3 paper arXiv 2503.01840",
                "SafeAILab/EAGLE README",
                "sgl-project/sglang issue 6995",
                "sgl-project/sglang issue 6949",
                "vLLM blog, speculative decoding",
                "vLLM blog, EAGLE-3.1",
                "AMD/vLLM blog, EAGLE-3 on MI355X",
                "gpustack/gpustack docs/performance-lab",
                "meta-pytorch/gpt-fast README",
            ),
        ),
        "mtp": MeasuredGains(
            0.326,
            2.33,
            15,
            (
                "TensorRT-LLM tech blog 1, min-latency DeepSeek-R1 on B200",
                "TensorRT-LLM tech blog 2, DeepSeek-R1 MTP",
                "vllm-project/vllm PR 12755",
                "vllm-project/vllm issue/PR 48892",
                "gpustack/gpustack docs/performance-lab",
            ),
        ),
        "ngram-drafting": MeasuredGains(
            0.56,
            2.8,
            5,
            (
                "TensorRT-LLM tech blog 7, n-gram speculative decoding",
                "vLLM blog, speculative decoding",
            ),
        ),
        "tree-drafting": MeasuredGains(1.507, 1.507, 1, ("gpustack/gpustack docs/performance-lab",)),
        "parallel-drafting": MeasuredGains(1.05, 1.55, 7, ("vLLM blog, P-EAGLE",)),
        "quantization": MeasuredGains(
            0.572,
            1.876,
            37,
            (
                "gpustack/gpustack docs/performance-lab",
                "TensorRT-LLM blog, quantization on H100",
                "meta-pytorch/gpt-fast README",
                "lmsys.org blog, GB200 part 2",
            ),
        ),
        "kv-quantization": MeasuredGains(
            0.73,
            2.9,
            20,
            (
                "TensorRT-LLM tech blog 3, max-throughput DeepSeek-R1 on B200",
                "gpustack/gpustack docs/performance-lab",
                "vLLM blog, FP8 KV cache",
                "vLLM blog, TurboQuant",
                "KIVI paper arXiv 2402.02750",
            ),
        ),
        "tensor-parallelism": MeasuredGains(
            1.462,
            5.227,
            19,
            (
                "gpustack/gpustack docs/performance-lab",
                "meta-pytorch/gpt-fast README",
                "TensorRT-LLM perf-overview v0.17",
            ),
        ),
        "expert-parallelism": MeasuredGains(
            0.93,
            5.2,
            9,
            (
                "TensorRT-LLM tech blog 1, min-latency DeepSeek-R1 on B200",
                "TensorRT-LLM tech blog 3, max-throughput DeepSeek-R1 on B200",
                "gpustack/gpustack docs/performance-lab",
                "lmsys.org blog, large-scale EP on 96 H100",
            ),
        ),
        "eplb": MeasuredGains(1.18, 2.54, 3, ("lmsys.org blog, large-scale EP on 96 H100",)),
        "attention-dp": MeasuredGains(
            1.076,
            7.7,
            6,
            (
                "TensorRT-LLM tech blog 3, max-throughput DeepSeek-R1 on B200",
                "gpustack/gpustack docs/performance-lab",
                "vllm-project/vllm issue 51454",
            ),
        ),
        "dcp": MeasuredGains(
            0.783,
            3.269,
            5,
            (
                "vLLM blog, context parallel Kimi K2.6",
                "sgl-project/sglang PR 14194",
                "ROCm/ATOM PR 847",
            ),
        ),
        "two-batch-overlap": MeasuredGains(
            0.73,
            1.358,
            5,
            (
                "lmsys.org blog, large-scale EP on 96 H100",
                "vllm-project/vllm issue 56126",
            ),
        ),
        "quantized-collectives": MeasuredGains(
            1.001,
            1.268,
            14,
            (
                "TensorRT-LLM tech blog 3, max-throughput DeepSeek-R1 on B200",
                "vllm-project/vllm PR 39783",
                "sgl-project/sglang PR 6619",
                "SemiAnalysisAI/InferenceX PR 2333",
            ),
        ),
        "cuda-graphs": MeasuredGains(
            1.22,
            7.22,
            3,
            (
                "TensorRT-LLM tech blog 2, DeepSeek-R1 MTP",
                "TensorRT-LLM tech blog 3, max-throughput DeepSeek-R1 on B200",
                "vllm-omni issue",
            ),
        ),
        "async-scheduling": MeasuredGains(
            1.014,
            1.16,
            6,
            (
                "TensorRT-LLM tech blog 2, DeepSeek-R1 MTP",
                "TensorRT-LLM tech blog 3, max-throughput DeepSeek-R1 on B200",
                "gpustack/gpustack docs/performance-lab",
            ),
        ),
        "fusion": MeasuredGains(
            1.024,
            1.182,
            3,
            (
                "TensorRT-LLM tech blog 1, min-latency DeepSeek-R1 on B200",
                "TensorRT-LLM tech blog 3, max-throughput DeepSeek-R1 on B200",
            ),
        ),
        "sparse-attention": MeasuredGains(1.002, 1.325, 7, ("TensorRT-LLM tech blog 16, skip-softmax attention",)),
        "chunked-prefill": MeasuredGains(
            1.07,
            1.33,
            3,
            (
                "gpustack/gpustack docs/performance-lab",
                "Sarathi paper arXiv 2308.16369",
            ),
        ),
        "prefix-caching": MeasuredGains(
            1.06,
            2.359,
            3,
            (
                "ROCm/ATOM PR 1759",
                "vllm-project/vllm PR 53395 (docs)",
            ),
        ),
        "kv-tiers": MeasuredGains(
            0.968,
            46.0,
            13,
            (
                "gpustack/gpustack docs/performance-lab",
                "vLLM/Mooncake blog, GB200 KV store",
                "lmsys.org blog, HiCache",
                "ROCm/ATOM PR 2223",
            ),
        ),
        "weight-offload": MeasuredGains(1.578, 1.689, 2, ("ik_llama.cpp discussion, tensor overrides",)),
        "multi-lora": MeasuredGains(
            0.507,
            0.664,
            3,
            (
                "predibase/lorax issue",
                "vllm-project/vllm issue 10898",
                "vllm-project/vllm PR 11267",
            ),
        ),
        "shared-prefix-attention": MeasuredGains(0.52, 31.95, 5, ("NVIDIA/TensorRT-LLM PR 14396",)),
        "encoder-disaggregation": MeasuredGains(2.25, 2.25, 1, ("vLLM blog, encoder disaggregation",)),
        "continuous-batching": MeasuredGains(8.0, 23.0, 2, ("Anyscale blog, continuous batching",)),
        "flash-attention": MeasuredGains(1.746, 2.662, 2, ("FlashAttention-3 paper/README",)),
        "mla": MeasuredGains(5.76, 5.76, 1, ("DeepSeek-V2 paper arXiv 2405.04434",)),
        "kv-eviction": MeasuredGains(3.7, 3.7, 1, ("RocketKV paper arXiv 2502.14051",), bound=True),
        "attention-ffn-disaggregation": MeasuredGains(0.9, 1.113, 4, ("vLLM blog, AFD plugin",)),
        "indexed-sparse-attention": MeasuredGains(0.027, 9.857, 13, ("microsoft/MInference experiments/README",)),
        "disaggregation": MeasuredGains(4.48, 4.48, 1, ("DistServe paper arXiv 2401.09670",), bound=True),
    }
)
"""Slug -> its measured gains."""
