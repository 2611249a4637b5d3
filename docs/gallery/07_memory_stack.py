"""What fits.

Weights, cache and the engine's reserve on one, two and four accelerators.
"""

import roofline as rl

load = rl.Workload(prompt_tokens=1500, output_tokens=300, batch=16)
one = rl.Deployment("llama-3.1-70b", "h100-sxm")
layouts = [one.replace(parallel=rl.Parallel(tensor=ways)) for ways in (1, 2, 4)]
ax = rl.plot.memory_stack(*(rl.memory(each, load) for each in layouts))
