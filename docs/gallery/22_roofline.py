"""On a dark page.

A plot takes its colors from what is behind it.
"""

import matplotlib.pyplot as plt

import roofline as rl

serve, load = rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(batch=16)
with plt.style.context("dark_background"):
    ax = rl.plot.roofline(serve.accelerator, rl.prefill(serve, load), rl.decode(serve, load))
