"""Throughput against speed.

Tokens/s per GPU against tokens/s per user as the batch grows; the gray line is the frontier.
"""

import numpy as np

import roofline as rl

bf16 = rl.Deployment("llama-3.1-8b", "h100-sxm")
fp8 = rl.quantize(bf16, weights="fp8", activations="fp8")
load = rl.Workload(batch=2.0 ** np.arange(9))
ax = rl.plot.throughput(rl.decode(bf16, load), rl.decode(fp8, load))
