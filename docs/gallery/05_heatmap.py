"""Time of a step over batch and context.

What does not fit stays blank; the line is a target for the time per output token.
"""

import roofline as rl

ax = rl.plot.heatmap(rl.Deployment("llama-3.1-8b", "h100-sxm"), tpot_s=0.02)
