"""What is meant by options of other tools, for the message about an unknown option."""

from __future__ import annotations

MEANT_BY: dict[str, tuple[str, ...]] = {
    "--accelerator": ("--hardware",),
    "--gpu": ("--hardware",),
    "--device": ("--hardware",),
    "--num-gpus": ("--gpus", "--tp"),
    "--gpus": ("--tp",),
    "--weights": ("--precisions",),
    "--precision": ("--precisions", "--weights"),
    "--precisions": ("--weights",),
    "--dtype": ("--weights", "--precisions"),
    "--quantization": ("--weights", "--precisions"),
    "--kv-cache-dtype": ("--kv",),
    "--tensor-parallel-size": ("--tp",),
    "--pipeline-parallel-size": ("--pp",),
    "--data-parallel-size": ("--dp",),
    "--expert-parallel-size": ("--ep",),
    "--gpu-memory-utilization": ("--memory-fraction",),
    "--isl": ("--prompt", "--length"),
    "--input": ("--prompt", "--length"),
    "--input-len": ("--prompt", "--length"),
    "--prompt-tokens": ("--prompt", "--length"),
    "--osl": ("--output", "--length"),
    "--output-len": ("--output", "--length"),
    "--output-tokens": ("--output", "--length"),
    "--max-model-len": ("--length", "--context"),
    "--context-tokens": ("--context", "--length"),
    "--context-length": ("--context", "--length"),
    "--batch-size": ("--batch", "--loads"),
    "--batches": ("--batch", "--loads"),
    "--max-num-seqs": ("--batch",),
    "--batch": ("--concurrency", "--loads"),
    "--users": ("--concurrency",),
    "--qps": ("--rate",),
    "--rps": ("--rate",),
    "--request-rate": ("--rate",),
    "--requests-per-s": ("--rate",),
    "--price": ("--prices", "--usd-per-hour"),
    "--trace": ("--traffic",),
    "--traffic": ("--trace",),
    "--techniques": ("--technique",),
    "--format": ("--json",),
}
"""Options of engines and benchmark tools, and near misses -> the options that are meant, in order of preference."""

ELSEWHERE: dict[str, str] = {
    "--technique": (
        "this command takes the deployment as given; `roofline what-if --technique` compares requests with and without"
        " a technique, and `roofline plan --technique` and `roofline fleet --technique` queue requests with one"
    ),
}
"""Options that only other commands have, and what to use instead."""
