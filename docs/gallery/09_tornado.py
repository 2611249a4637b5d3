"""What a time depends on.

Each input doubled and halved, the one that matters most at the top.
"""

import roofline as rl

step = rl.decode(rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(batch=16))
ax = rl.plot.tornado(rl.sensitivity(step, time="estimate_s"))
