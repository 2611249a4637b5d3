"""The advisor: shares by hand, the rule, promises, ranking, crossovers; traffic from files; the phase map."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

import roofline as rl
from roofline import techniques as t
from roofline.advisor import phase_map, verdict_of
from roofline.advisor.verdict import LARGEST, prefill_share

MIX = [(150, 400, 6), (3000, 200, 3), (8000, 100, 1)]


@pytest.fixture
def small(h100):
    return rl.Deployment(rl.get_model("llama-3.1-8b"), h100)


@pytest.fixture
def advice(small):
    return rl.advise(small, rl.Traffic.of(MIX), rl.SLO(ttft_s=0.2, tpot_s=0.02), usd_per_hour=2.5, time="roofline_s")


@pytest.mark.parametrize(
    ("share", "verdict"),
    [(0.60, "prefill"), (0.599, "both"), (0.301, "both"), (0.30, "decode"), (0.0, "decode"), (800 / 950, "prefill")],
)
def test_rule(share, verdict):
    assert verdict_of(share) == verdict


@pytest.mark.parametrize(
    ("name", "bucket", "batches", "verdict"),
    [
        ("interactive chat", (150, 300), (1, 8, 64), "decode"),
        ("long-context summaries", (32_000, 200), (8, 32, 64), "prefill"),
        ("retrieval", (8000, 100), (8, 32, 64), "prefill"),
    ],
)
def test_decision_matrix(serve, name, bucket, batches, verdict):
    assert rl.advise(serve, rl.Traffic.of([bucket]), batches=batches, time="roofline_s").verdict == verdict, name


def test_a_lone_request_is_a_generation(small):
    advice = rl.advise(small, rl.Traffic.of([(2000, 256)]), batches=(1,), time="roofline_s")
    whole = rl.generate(small, rl.Workload(2000, 256), time="roofline_s")
    assert advice.prefill_share == pytest.approx(whole.prefill_share)
    for metric in ("ttft_s", "tpot_s", "total_s", "tokens_per_s"):
        assert advice.mean(metric)[0] == pytest.approx(getattr(whole, metric))


def test_shares_by_hand(small):
    advice = rl.advise(small, rl.Traffic.of([(2000, 101), (500, 11)]), batches=(8,), time="roofline_s")
    busy, prompts = [], []
    for prompt, output in ((2000, 101), (500, 11)):
        step = np.mean(
            [rl.decode(small, rl.Workload(batch=8), context_tokens=prompt + i).roofline_s for i in range(output - 1)]
        )
        prompts.append(rl.prefill(small, rl.Workload(prompt)).roofline_s)
        busy.append(prompts[-1] + (output - 1) * step / 8)
    # A pass with more than one prompt reads the weights once, which is little beside the FLOPs of a prompt.
    assert advice.bucket_shares[0] == pytest.approx(np.divide(prompts, busy), rel=0.01)
    assert advice.load_shares[0] == pytest.approx(sum(prompts) / sum(busy), rel=0.01)
    assert advice.mean("tokens_per_s")[0] == pytest.approx((101 + 11) / sum(busy), rel=0.01)


def test_requests_wait_for_prompts_that_share_their_pass_and_are_held_up_by_others(small):
    """Each of the seven others ends in the same step with a chance of 1 in 100, and its prompt shares the pass."""
    advice = rl.advise(small, rl.Traffic.of([(2000, 101)]), batches=(8,), time="roofline_s")
    one_s, two_s = (rl.prefill(small, rl.Workload(2000, batch=prompts)).roofline_s for prompts in (1, 2))
    step_s = np.mean([rl.decode(small, rl.Workload(batch=8), context_tokens=2000 + i).roofline_s for i in range(100)])
    ttft_s = one_s + 0.07 * (two_s - one_s)
    assert advice.mean("ttft_s")[0] == pytest.approx(ttft_s)
    tpot_s = (8 * one_s + 100 * step_s - ttft_s) / 100
    assert advice.mean("tpot_s")[0] == pytest.approx(tpot_s, rel=2e-3)
    assert advice.governs["tpot_s"][0] == pytest.approx(1 - step_s / tpot_s, rel=0.01)
    assert advice.governs["ttft_s"][0] == 1


def test_promise_that_breaks_first_comes_first(advice):
    first, second = advice.lines
    assert (first.metric, first.phase, advice.breaks_first) == ("tpot_s", "decode", "tpot_s")
    assert second.breaks_at_batch > first.breaks_at_batch
    assert second.phase == "prefill"
    assert max(first.strain) > 1 > first.strain[0]
    assert advice.metric == "tpot_s"


def test_promise_breaks_where_the_metric_passes_it(small):
    traffic = rl.Traffic.of([(2000, 256)])
    (line,) = rl.advise(small, traffic, rl.SLO(tpot_s=0.01), time="roofline_s").lines
    at, before = (
        rl.advise(small, traffic, batches=(int(batch),), time="roofline_s")
        for batch in (line.breaks_at_batch, line.breaks_at_batch / 1.2)
    )
    assert before.mean("tpot_s")[0] < 0.01 < at.mean("tpot_s")[0]


def test_throughput_is_promised_from_below(small):
    (line,) = rl.advise(small, rl.Traffic.of([(100, 100)]), rl.SLO(tokens_per_s=1000), time="roofline_s").lines
    assert line.breaks_at_batch == 1
    assert line.strain[0] > 1 > line.strain[-1]


def test_techniques_are_ranked_by_gain_on_the_metric(advice):
    bought = [option.technique.effort == "more accelerators" for option in advice.options]
    assert bought == sorted(bought)
    for kind in (False, True):
        gains = [option.gain for option, more in zip(advice.options, bought, strict=True) if more is kind]
        assert gains
        assert gains == sorted(gains, reverse=True)
    assert advice.first == advice.options[0].name
    assert "KV cache" in advice.had
    assert "FlashAttention" in advice.had


def test_gain_is_the_ratio_of_means(small):
    advice = rl.advise(small, rl.Traffic.of([(2000, 256)]), batches=(4,), metric="total_s", time="roofline_s")
    option = next(option for option in advice.options if option.name == "weight quantization (fp8)")
    faster = rl.advise(rl.quantize(small, weights="fp8"), rl.Traffic.of([(2000, 256)]), batches=(4,), time="roofline_s")
    assert option.gain == pytest.approx(advice.mean("total_s")[0] / faster.mean("total_s")[0])
    assert option.memory_freed_bytes == pytest.approx(6.979e9, rel=1e-3)


def test_flash_attention_is_advised_where_it_is_missing(small):
    unfused = small.replace(attention="unfused")
    advice = rl.advise(
        unfused, rl.Traffic.of([(32_000, 50)]), metric="ttft_s", considered=[t.FlashAttention()], time="roofline_s"
    )
    assert advice.first == "FlashAttention"
    assert advice.gain > 3


def test_prefill_techniques_lead_on_ttft_and_decode_techniques_on_tpot(small):
    def first(metric):
        chosen = (t.PrefixCaching(), t.Speculation())
        return rl.advise(
            small, rl.Traffic.of([(2000, 256)]), batches=(1,), metric=metric, considered=chosen, time="roofline_s"
        ).first

    assert (first("ttft_s"), first("tpot_s")) == ("prefix caching", "speculative decoding")


def test_a_workload_is_traffic_of_one_length(small):
    bucket = rl.advise(small, [(2000, 256)], time="roofline_s")
    assert rl.advise(small, rl.Workload(2000, 256), time="roofline_s").to_dict() == bucket.to_dict()
    with pytest.raises(rl.InvalidInput, match="traffic of several lengths needs shares"):
        rl.advise(small, rl.Workload(np.array([100, 200]), 256), time="roofline_s")


def test_a_list_of_buckets_will_do(small):
    assert (
        rl.advise(small, MIX, time="roofline_s").to_dict()
        == rl.advise(small, rl.Traffic.of(MIX), time="roofline_s").to_dict()
    )


def test_nothing_gains_without_techniques(small):
    advice = rl.advise(small, rl.Traffic.of([(100, 100)]), considered=(), time="roofline_s")
    assert (advice.first, advice.gain) == ("nothing", 1.0)
    assert "No technique considered improves" in advice.reason


def test_flips_are_where_the_verdict_changes(small, advice):
    load = rl.Workload(round(advice.traffic.mean_prompt_tokens), round(advice.traffic.mean_output_tokens), 8)
    assert {flip.variable for flip in advice.flips} <= set(LARGEST)
    assert advice.flips
    fields = {"prompt_tokens": load.prompt_tokens, "output_tokens": load.output_tokens, "batch": load.batch}
    for flip in advice.flips:
        at, below = (
            verdict_of(prefill_share(small, rl.Workload(**(fields | {flip.variable: value})), time="roofline_s"))
            for value in (flip.at, flip.at - 1)
        )
        assert (below, at) == (flip.before, flip.after)


def test_derivation_gives_its_values(advice):
    for step in advice.explain():
        assert eval(step.formula, {"__builtins__": {}}, dict(step.inputs)) == pytest.approx(step.value)
    assert advice.explain()[-1].value == advice.prefill_share


def test_more_accelerators_are_no_throughput_for_nothing(small):
    def option(metric):
        chosen = (t.TensorParallelism(tensor=4),)
        return rl.advise(
            small, rl.Traffic.of([(2000, 256)]), metric=metric, considered=chosen, time="roofline_s"
        ).options[0]

    assert option("total_s").gain > 2
    assert option("tokens_per_s").gain < 1


def test_lengths_end_at_the_models_context(h100):
    small = rl.Deployment(rl.get_model("gpt-2"), h100)
    found = phase_map(small, time="roofline_s")
    assert (found.prompt_tokens.max(), found.output_tokens.max()) == (1024, 1024)
    advice = rl.advise(small, [(200, 50)], time="roofline_s")
    assert all(flip.at <= 1024 for flip in advice.flips if flip.variable != "batch")


def test_cost_is_price_over_throughput(advice):
    expected = 2.5 / 3600 * 1e6 / advice.mean("tokens_per_s")
    assert advice.usd_per_million_tokens == pytest.approx(expected)


def test_a_target_is_compared_with_the_most_demanding_kind_of_request(small):
    """In a mixture, the kind that misses the target first is the one that does so at the smallest batch alone."""
    target = rl.SLO(tpot_s=0.02)
    alone = [rl.advise(small, [(prompt, output)], target).lines[0].breaks_at_batch for prompt, output, _ in MIX]
    line = rl.advise(small, rl.Traffic.of(MIX), target).lines[0]
    assert (line.breaks_at_batch, line.bucket) == (min(alone), alone.index(min(alone)))
    prompt, output, _ = MIX[line.bucket]
    mixed = repr(rl.advise(small, rl.Traffic.of(MIX), target))
    assert f"at batch {min(alone):.0f} of {prompt:,} + {output:,} tokens" in mixed
    assert "most demanding kind of request" not in repr(rl.advise(small, [(prompt, output)], target))


def test_text_says_what_a_manager_asks(advice):
    text = repr(advice)
    for words in (
        "Decode first",
        "first SLO target to be missed is time per output token 20 ms",
        "a config flag",
        "USD per million",
        "from",
    ):
        assert words in text
    assert max(map(len, text.splitlines())) < 200


def test_dict_is_json_and_frame_is_the_ranking(advice):
    assert json.loads(json.dumps(advice.to_dict(), allow_nan=False))["verdict"] == advice.verdict
    frame = advice.to_frame()
    assert list(frame["technique"]) == [option.name for option in advice.options]


def test_what_does_not_fit_is_said(small):
    notes = " ".join(rl.advise(small, rl.Traffic.of([(8000, 100)]), time="roofline_s").assumptions)
    assert "only 57 of the longest sequences fit at once, not a batch of 64" in notes


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batches": ()}, "batches is empty"),
        ({"batches": (0,)}, "batches must be an integer >= 1: 0"),
        ({"metric": "speed"}, "no metric named 'speed'"),
        ({"time": "now"}, "no time named 'now'"),
        ({"usd_per_hour": -1}, "usd_per_hour must be a finite number >= 0: -1"),
    ],
)
def test_bad_questions_get_one_line(small, given, words):
    with pytest.raises(rl.RooflineError, match=words):
        rl.advise(small, rl.Traffic.of([(100, 100)]), **given)


def test_a_promise_must_be_a_number():
    with pytest.raises(rl.InvalidInput, match="ttft_s must be a finite number"):
        rl.SLO(ttft_s=0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "prompt_tokens,output_tokens,share\n150,400,6\n3000,200,3\n8000,100,1\n"),
        ("b.csv", "input_len,completion_tokens,count\n150,400,6\n3000,200,3\n8000,100,1\n"),
        ("c.json", json.dumps([{"prompt_tokens": p, "output_tokens": o, "share": s} for p, o, s in MIX])),
        ("d.jsonl", "\n".join(json.dumps({"input_tokens": p, "output_len": o, "weight": s}) for p, o, s in MIX)),
    ],
)
def test_traffic_is_the_same_from_every_kind_of_file(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    found, given = rl.read_traffic(path), rl.Traffic.of(MIX)
    for column in ("prompt_tokens", "output_tokens", "share"):
        assert np.sort(getattr(found, column)) == pytest.approx(np.sort(getattr(given, column)))


def test_traffic_from_a_benchmarks_result(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"input_lens": [100, 101, 4000], "output_lens": [50, 60, 10], "duration": 3}))
    found = rl.read_traffic(path)
    assert sorted(found.share) == pytest.approx([1 / 3, 2 / 3])
    assert found.mean_prompt_tokens == pytest.approx(1400.3, abs=0.4)


def test_traffic_from_usage_objects(tmp_path):
    path = tmp_path / "log.jsonl"
    line = json.dumps({"id": "x", "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}})
    path.write_text(f"{line}\n{line}\n")
    found = rl.read_traffic(path)
    assert (found.prompt_tokens, found.output_tokens) == (10, 20)


def test_traffic_from_conversations_counts_earlier_turns(tmp_path):
    path = tmp_path / "share.json"
    turns = [("human", 40), ("gpt", 80), ("human", 40), ("gpt", 400)]
    talk = [{"id": "1", "conversations": [{"from": who, "value": "x" * size} for who, size in turns]}]
    path.write_text(json.dumps(talk))
    found = rl.read_traffic(path)
    assert sorted(zip(found.prompt_tokens, found.output_tokens, strict=True)) == [(10, 20), (40, 100)]
    assert "assuming 4 characters per token" in " ".join(found.assumptions)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("[]", "contains no requests with prompt and output tokens"),
        ("[1]", "a request must be an object, not int"),
        ("prompt_tokens,note\n1,2\n", "has no column output_tokens; it has prompt_tokens, note"),
        ("prompt_tokens,output_tokens\n1,many\n", "output_tokens must be a number >= 0: 'many'"),
        ("prompt_tokens,output_tokens\n-5,1\n", "prompt_tokens must be a number >= 0: '-5'"),
        ('{"prompt_tokens": 1e999, "output_tokens": 1}', "prompt_tokens must be a number >= 0: inf"),
        ('{"prompt_tokens": true, "output_tokens": 1}', "prompt_tokens must be a number >= 0: True"),
        ("{broken", "is not JSON"),
        ("[" * 100_000, "is (nested too deeply|not JSON)"),
        ('[{"conversations": [{"from": "gpt"}]}]', "a turn of a conversation must have a text 'value'"),
        ("prompt_tokens,output_tokens,share\n1,1,0\n", "shares of the traffic must add up to more than 0"),
    ],
)
def test_bad_logs_get_one_line(tmp_path, text, words):
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(rl.SpecError, match=words) as error:
        rl.read_traffic(path)
    assert "\n" not in str(error.value)


def test_a_large_log_is_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("prompt_tokens,output_tokens\n" + "1,1\n" * 100)
    with pytest.raises(rl.SpecError, match="at most 100"):
        rl.read_traffic(path, max_bytes=100)


@pytest.mark.parametrize("buckets", [[], [(1,)], [(0, 1)], [(1, 1, 0)], [("a", 1)]])
def test_bad_buckets_are_refused(buckets):
    with pytest.raises(rl.InvalidInput):
        rl.Traffic.of(buckets)


def test_phase_map_is_the_share_at_every_point(small):
    found = phase_map(small, batch=4, time="roofline_s")
    at = (20, 30)
    load = rl.Workload(found.prompt_tokens[20], found.output_tokens[30], 4)
    assert found.prefill_share[at] == pytest.approx(prefill_share(small, load, time="roofline_s"))
    assert np.all(np.diff(found.prefill_share, axis=1) <= 1e-12)


def test_plot_shows_the_traffic_on_the_map(advice):
    ax = plt.subplots(figsize=(6, 4))[1]
    assert rl.plot.phase_map(advice.phase_map, ax=ax) is ax
    (dots,) = (item for item in ax.collections if item.get_label() == "traffic")
    assert dots.get_offsets().tolist() == [[p, o] for p, o, _ in MIX]
    assert {"decode first", "prefill first"} <= {text.get_text() for text in ax.texts}
    plt.close("all")
