"""Every question of the quiz solved again, from the numbers in its text alone, by other code than the package's.

Where there is a second way (a sum instead of a closed form, a search instead of an inversion) it is taken.
"""

# ruff: noqa: A002 (the names are those of the questions)

import math
from fractions import Fraction
from itertools import count

SOLUTIONS = {}


def solves(function):
    SOLUTIONS[function.__name__] = function
    return function


# --- counting --------------------------------------------------------------------------------------------------------


@solves
def flops_per_token(*, weights):
    return (weights + weights) / 1e9


@solves
def flops_of_a_product(*, m, k, n):
    outputs = m * n
    return outputs * (k + k) * 1e-9


@solves
def bytes_of_a_product(*, m, k, n, bytes):
    return sum(rows * columns for rows, columns in ((m, k), (k, n), (m, n))) * bytes * 1e-6


@solves
def weights_in_memory(*, parameters, bits):
    return parameters * bits / 8 / 1e9


@solves
def parameters_of_an_mlp(*, layers, hidden, intermediate):
    return layers * sum([hidden * intermediate, hidden * intermediate, intermediate * hidden]) / 1e9


@solves
def parameters_of_attention(*, hidden, heads, kv_heads, head_dim):
    projections = [heads, kv_heads, kv_heads, heads]
    return sum(number * head_dim * hidden for number in projections) / 1e6


@solves
def parameters_of_embeddings(*, vocab, hidden, tables):
    return vocab * hidden * tables / 1e6


@solves
def flops_of_a_prompt(*, weights, tokens):
    return 2 * tokens * weights / 1e12


@solves
def flops_of_attention(*, layers, heads, head_dim, tokens):
    pairs = sum(range(1, tokens + 1))
    return layers * heads * pairs * (2 * head_dim + 2 * head_dim) / 1e12


# --- roofline --------------------------------------------------------------------------------------------------------


@solves
def ridge_point(*, peak, rate):
    return peak / rate


@solves
def intensity_of_a_product(*, m, k, n, bytes):
    return 2 / (bytes * (1 / m + 1 / k + 1 / n))


@solves
def tokens_to_the_ridge(*, peak, rate, bytes):
    """Tokens at which 2 T / peak is bytes / rate."""
    return (bytes / rate) / (2 / peak)


def times_of(peak, rate, m, k, n):
    return 2 * m * k * n / peak, 2 * (m * k + k * n + m * n) / rate


@solves
def what_limits_a_product(*, peak, rate, m, k, n):
    compute, memory = times_of(peak, rate, m, k, n)
    return "compute" if compute > memory else "memory"


@solves
def time_of_a_product(*, peak, rate, m, k, n):
    return max(times_of(peak, rate, m, k, n)) * 1e6


@solves
def attained_under_the_roof(*, peak, rate, intensity):
    flops = 1e12
    return flops / max(flops / peak, flops / intensity / rate) / 1e12


@solves
def model_flops_utilization(*, peak, weights, tokens, seconds):
    ideal = 2 * weights * tokens / peak
    return ideal / seconds * 100


@solves
def model_bandwidth_utilization(*, rate, weights, cache, seconds):
    ideal = weights / rate + cache / rate
    return ideal / seconds * 100


@solves
def bandwidth_of_a_bus(*, bits, bits_per_s):
    return sum(bits_per_s for _ in range(bits)) / 8 / 1e9


@solves
def gain_of_a_part(*, share, times):
    before = 1000.0
    return before / ((1 - share) * before + share * before / times)


# --- phases ----------------------------------------------------------------------------------------------------------


@solves
def floor_of_a_step(*, weights, bits, rate):
    return weights * (bits / 8) / rate * 1000


@solves
def floor_of_a_step_with_cache(*, weights, bytes, rate, peak, batch, tokens, cache_bytes):
    reads = (weights * bytes + batch * tokens * cache_bytes) / rate
    computes = 2 * weights * batch / peak
    return max(reads, computes) * 1e3


@solves
def tokens_of_a_batch(*, batch, seconds):
    return batch * (1 / seconds)


@solves
def time_of_a_prompt(*, weights, tokens, peak, rate):
    return 1e3 * tokens * (2 * weights / peak)


@solves
def share_of_prefill(*, prefill, step, output):
    total = prefill
    for _ in range(output - 1):
        total += step
    return 100 * prefill / total


@solves
def tpot_of_a_request(*, total, ttft, output):
    return (total - ttft) * 1e3 / len(range(1, output))


@solves
def total_of_a_request(*, ttft, tpot, output):
    return (ttft + sum(tpot for _ in range(1, output))) * 1e3


@solves
def steps_of_a_prefill(*, peak, rate, tokens):
    weights = 7e9
    return (2 * weights * tokens / peak) / (2 * weights / rate)


@solves
def what_limits_a_phase(*, peak, rate, tokens):
    """Tokens in a pass, each 1 FLOP a byte of 16-bit weights, against the ridge."""
    return "compute" if tokens > peak / rate else "memory"


@solves
def batch_where_a_step_computes(*, peak, rate, bits):
    weights = 1e9
    reads, computes_one = weights * bits / 8 / rate, 2 * weights / peak
    return reads / computes_one


@solves
def speed_of_a_stream(*, weights, rate):
    return rate / (2 * weights)


# --- KV --------------------------------------------------------------------------------------------------------------


@solves
def cache_of_a_token(*, layers, kv_heads, head_dim, bits):
    keys = values = kv_heads * head_dim
    return layers * (keys + values) * bits / 8 / 1000


@solves
def cache_of_a_sequence(*, bytes, tokens):
    return bytes * tokens / 1e9


@solves
def sequences_that_fit(*, memory, fraction, weights, tokens, bytes):
    room = Fraction(memory) * Fraction(str(fraction)) - Fraction(weights)
    each = tokens * Fraction(bytes)
    return next(n for n in count() if (n + 1) * each > room)


@solves
def cache_as_large_as_the_weights(*, weights, weight_bytes, bytes):
    return weights * weight_bytes / bytes


@solves
def grouped_query_saving(*, heads, kv_heads):
    return 100 * (heads - kv_heads) / heads


@solves
def time_to_read_the_cache(*, batch, tokens, bytes, rate):
    return sum(tokens * bytes for _ in range(batch)) / rate * 1e3


@solves
def cache_of_a_latent(*, layers, rank, rope, bytes):
    return sum((rank + rope) * bytes for _ in range(layers)) / 1e3


@solves
def cache_with_windows(*, layers, every, window, tokens, bytes):
    kept = [tokens if layer % every == 0 else min(tokens, window) for layer in range(1, layers + 1)]
    return sum(kept) * bytes / 1e6


@solves
def gain_of_a_narrow_cache(*, weights, cache):
    return 1 / (1 - (cache / 2) / (weights + cache))


@solves
def waste_of_pages(*, page, tokens):
    empty = -tokens % page
    return 100 * empty / (tokens + empty)


# --- quantization ----------------------------------------------------------------------------------------------------


@solves
def bits_with_scales(*, bits, scale, block):
    return (bits * block + scale) / block


@solves
def bits_of_a_named_format(*, weights, bits, scale, zero, block):
    blocks = weights / block
    return blocks * (block * bits + scale + zero) / 8 / 1e9


@solves
def weights_quantized_in_part(*, layers, bits, vocab, hidden):
    return (layers * bits + 16 * vocab * hidden + 16 * vocab * hidden) / 8e9


@solves
def gain_of_narrow_weights(*, weights, cache, bits):
    return (weights + cache) / (weights * (bits / 16) + cache)


@solves
def prefill_with_narrow_weights(*, bits, activations, tokens):
    return 16 / max(bits, activations)


@solves
def gain_of_fp8_products(*, peak, fp8, share):
    return 1 / ((1 - share) + share * peak / fp8)


@solves
def accelerators_for_the_weights(*, parameters, bits, memory, fraction):
    need = Fraction(parameters) * bits / 8
    return next(n for n in count(1) if n * Fraction(memory) * Fraction(str(fraction)) >= need)


@solves
def cache_that_pays_for_its_expansion(*, weights, bytes, slower):
    """By bisection on the number of tokens."""
    low, high = 0.0, 1e12
    for _ in range(200):
        tokens = (low + high) / 2
        plain, narrow = weights + tokens * bytes, (1 + slower) * (weights + tokens * bytes / 4)
        low, high = (low, tokens) if plain > narrow else (tokens, high)
    return low


@solves
def bits_of_a_file(*, bytes, parameters):
    return 8 * bytes / parameters


@solves
def floor_in_a_format(*, layers, bits, vocab, hidden, rate):
    return (layers * bits + 16 * vocab * hidden) / (8 * rate) * 1e3


# --- parallelism -----------------------------------------------------------------------------------------------------


@solves
def weights_on_each(*, parameters, tensor, pipeline, data):
    all_copies = data * 2 * parameters
    return all_copies / (tensor * pipeline * data) / 1e9


@solves
def cache_beyond_the_heads(*, bytes, kv_heads, tensor):
    per_head = bytes / kv_heads
    held = max(1, -(-kv_heads // tensor))
    return held * per_head / 1e3


@solves
def bytes_of_a_ring(*, n, bytes):
    part = bytes / n
    sent = sum(part for _ in range(n - 1)) + sum(part for _ in range(n - 1))
    return sent / 1e6


@solves
def time_of_a_ring(*, n, bytes, both_ways):
    return bytes_of_a_ring(n=n, bytes=bytes) * 1e6 / (both_ways / 2) * 1e6


@solves
def bytes_reduced_in_a_pass(*, layers, hidden, tokens, bytes):
    return sum(tokens * hidden * bytes for _ in range(layers) for _ in ("attention", "mlp")) / 1e6


@solves
def step_on_several(*, weights, rate, n, layers, latency):
    return (2 * weights / n / rate + layers * (latency + latency)) * 1e3


@solves
def bubble_of_a_pipeline(*, stages, microbatches):
    """By a table of which slots of a stage are taken."""
    slots = stages + microbatches - 1
    taken = {stage: [t for t in range(slots) if 0 <= t - stage < microbatches] for stage in range(stages)}
    idle = sum(slots - len(each) for each in taken.values())
    return 100 * idle / (slots * stages)


@solves
def token_through_a_pipeline(*, weights, rate, stages):
    return sum(2 * weights / stages / rate for _ in range(stages)) * 1e3


@solves
def accelerators_of_a_layout(*, tensor, pipeline, data, expert):
    assert expert == tensor * data
    return expert * pipeline


@solves
def cache_over_the_network(*, tokens, bytes, bits_per_s):
    return tokens * bytes * 8 / bits_per_s * 1e3


# --- mixtures --------------------------------------------------------------------------------------------------------


def chance_of_use(experts, top_k, tokens):
    missed = 1.0
    for _ in range(tokens):
        missed *= (experts - top_k) / experts
    return 1 - missed


@solves
def parameters_of_a_token(*, total, layers, experts, top_k, expert):
    rest = total - layers * experts * expert
    return (rest + layers * top_k * expert) / 1e9


@solves
def experts_of_a_batch(*, experts, top_k, tokens):
    return experts * chance_of_use(experts, top_k, tokens)


@solves
def bytes_of_experts_in_a_step(*, layers, experts, top_k, expert, batch, bits):
    return layers * experts * chance_of_use(experts, top_k, batch) * expert * bits / 8e9


@solves
def floor_of_a_mixture(*, total, active, bits, rate):
    return active * bits / 8 / rate * 1e3


@solves
def memory_of_a_mixture(*, total, active, bits):
    return (active + (total - active)) * bits / 8 / 1e9


@solves
def flops_of_a_mixture(*, total, active, tokens):
    return (active + active) * tokens / 1e12


@solves
def experts_on_each(*, layers, experts, expert, ways, bits):
    return layers * (experts // ways) * expert * bits / 8e9


@solves
def bytes_dispatched(*, tokens, top_k, hidden, there, back):
    return sum(tokens * top_k * hidden * each for each in (there, back)) / 1e6


@solves
def batch_that_reads_most_experts(*, experts, top_k, share):
    low, high = 0.0, 1e5
    for _ in range(200):
        middle = (low + high) / 2
        read = 1 - math.exp(middle * math.log1p(-top_k / experts))
        low, high = (middle, high) if read < share else (low, middle)
    return low


@solves
def tokens_of_an_expert(*, tokens, experts, top_k):
    return tokens / (experts / top_k)


# --- serving ---------------------------------------------------------------------------------------------------------


@solves
def tokens_of_a_verification(*, acceptance, drafts):
    """By the distribution of how many drafts are accepted before the first refusal."""
    chances = [acceptance**n * (1 - acceptance) for n in range(drafts)] + [acceptance**drafts]
    return sum(chance * (accepted + 1) for accepted, chance in enumerate(chances))


@solves
def gain_of_speculation(*, acceptance, drafts, share):
    return tokens_of_a_verification(acceptance=acceptance, drafts=drafts) / (1 + sum(share for _ in range(drafts)))


@solves
def prompt_after_a_cache_hit(*, tokens, hit, seconds):
    return (tokens - hit * tokens) * seconds * 1e3


@solves
def passes_of_a_chunked_prompt(*, tokens, chunk):
    passes = 0
    while tokens > 0:
        tokens, passes = tokens - chunk, passes + 1
    return passes


@solves
def rate_of_good_requests(*, rate, late, slow, both):
    only_late, only_slow = late - both, slow - both
    return rate * (1 - only_late - only_slow - both)


@solves
def requests_of_a_throughput(*, rate, prompt, output):
    return rate / output


@solves
def longest_gap(*, step, tokens, seconds):
    return (step + tokens * seconds) * 1e3


@solves
def prompts_a_pool_can_take(*, tokens, seconds, accelerators):
    return sum(1 / (tokens * seconds) for _ in range(accelerators))


@solves
def waste_of_padding(*, lengths):
    padding = [max(lengths) - length for length in lengths]
    return 100 * sum(padding) / (max(lengths) * len(lengths))


@solves
def prefill_for_each_decode(*, prefill, step, steps, batch):
    decode_rate = batch / (steps * step)
    return decode_rate * prefill


@solves
def steps_stretched_by_prompts(*, rate, prefill, step):
    """A step's worth of work, the stalls in it, the stalls of the prompts that come meanwhile, and so on."""
    total, more = 0.0, step
    while more > 1e-15:
        total, more = total + more, more * rate * prefill
    return total * 1e3


# --- queueing --------------------------------------------------------------------------------------------------------


@solves
def requests_in_flight(*, rate, seconds):
    return rate * seconds


@solves
def utilization_of_servers(*, rate, seconds, servers):
    return 100 * (rate / servers) * seconds


def waiting_of_one(rate, service):
    """By the stationary distribution of the number in the system: (1 - b) b^n, each of whom takes a service."""
    busy = rate * service
    weights = [(1 - busy) * busy**n for n in range(20_000)]
    return sum(n * weight for n, weight in enumerate(weights)) * service


@solves
def wait_for_one_server(*, rate, service):
    return waiting_of_one(rate, service) * 1e3


@solves
def time_in_the_system(*, rate, service):
    return (waiting_of_one(rate, service) + service) * 1e3


@solves
def wait_with_any_service(*, rate, service, variation):
    """Residual service of the one in progress over the idle share."""
    second_moment = service**2 + (variation * service) ** 2
    return rate * second_moment / 2 / (1 - rate * service) * 1e3


@solves
def tail_of_a_response(*, rate, service):
    left = 1 / service - rate
    return -math.log(0.01) / left * 1e3


@solves
def rate_for_a_wait(*, service, wait):
    low, high = 0.0, 1 / service
    for _ in range(200):
        middle = (low + high) / 2
        too_long = middle * service**2 > wait * (1 - middle * service)
        low, high = (low, middle) if too_long else (middle, high)
    return low


@solves
def wait_for_one_of_several(*, rate, service, servers):
    """By the stationary distribution of the birth-death chain."""
    load = rate * service
    few = [load**n / math.factorial(n) for n in range(servers)]
    all_busy = load**servers / math.factorial(servers) / (1 - load / servers)
    chance = all_busy / (sum(few) + all_busy)
    return chance / (servers / service - rate) * 1e3


@solves
def wait_in_a_burst(*, burst, rate):
    return burst * (1 / rate)


@solves
def throughput_of_a_closed_loop(*, users, response, thinking):
    return users * (1 / (thinking + response))


# --- cost ------------------------------------------------------------------------------------------------------------


@solves
def price_of_a_million_tokens(*, price, accelerators, rate):
    hours = 1e6 / rate / 3600
    return hours * price * accelerators


@solves
def price_of_a_request(*, price, accelerators, rate):
    hours = 1000 / rate / 3600
    return hours * price * accelerators


@solves
def accelerators_for_a_load(*, rate, output, each, utilization):
    wanted = rate * output
    return next(n for n in count(1) if n * each * Fraction(str(utilization)) >= wanted)


@solves
def bill_of_a_month(*, price, accelerators, hours):
    return accelerators * hours * price


@solves
def utilization_that_beats_an_api(*, price, rate, api):
    own = price / 3600 / rate * 1e6
    return 100 * own / api


@solves
def energy_of_a_token(*, watts, accelerators, rate):
    return watts * accelerators / rate


@solves
def electricity_of_a_million_tokens(*, joules, price, overhead):
    kilowatt_hours = 1e6 * joules * overhead / (1000 * 3600)
    return kilowatt_hours * price


@solves
def price_of_a_peak(*, peak, mean):
    return 100 * (peak - mean) / peak


@solves
def saving_of_a_speedup(*, times):
    return 100 * (times - 1) / times


@solves
def prompt_and_answer_together(*, prefill, step, steps, batch, price):
    seconds = prefill + sum(step / batch for _ in range(steps))
    return 1000 * seconds * price / 3600


# --- interview -------------------------------------------------------------------------------------------------------


@solves
def why_decode_is_memory_bound(*, peak, rate, batch):
    weights = 1e9
    return (2 * weights / rate) / (2 * weights * batch / peak)


@solves
def floor_on_decode(*, layers, bits, vocab, hidden, rate):
    return (layers * bits / 8 + vocab * hidden * 2) / rate * 1e3


@solves
def when_disaggregation_pays(*, tokens, bytes, link, prefill, steps, step):
    """By bisection on the rate."""
    transfer, decode = tokens * bytes / link, steps * step
    low, high = 0.0, 1 / prefill
    for _ in range(200):
        middle = (low + high) / 2
        stalls = decode / (1 - middle * prefill) - decode if middle * prefill < 1 else math.inf
        low, high = (low, middle) if stalls > transfer else (middle, high)
    return low


@solves
def why_weights_alone_help(*, layers, vocab, hidden, cache, batch, tokens, bytes):
    assert cache == batch * tokens * bytes
    tables = 2 * vocab * hidden
    return (2 * layers + tables + cache) / (layers + tables + cache)
