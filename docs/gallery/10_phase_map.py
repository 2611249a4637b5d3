"""Prefill first or decode first?

The verdict over prompt and output lengths, with the traffic as dots.
"""

import roofline as rl

serve = rl.Deployment("llama-3.1-8b", "h100-sxm")
traffic = rl.Traffic.of([(150, 400, 6), (3000, 200, 3), (8000, 100, 1)])
ax = rl.plot.phase_map(rl.advise(serve, traffic).phase_map)
