"""The cache over the context.

Different kinds of attention keep different amounts per token.
"""

import roofline as rl

ax = rl.plot.kv("llama-3.1-70b", "deepseek-v3", "qwen3-next-80b-a3b", "gemma-3-27b")
