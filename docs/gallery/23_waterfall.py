"""Techniques one after the other.

What each technique adds to those before it, in time per output token.
"""

import roofline as rl

serve = rl.Deployment("llama-3.1-70b", "h200-sxm")
chosen = [rl.techniques.Quantization(weights="fp8"), rl.techniques.Speculation(acceptance=0.7)]
ax = rl.plot.waterfall(rl.apply(serve, rl.Workload(batch=8), chosen, time="estimate_s"))
