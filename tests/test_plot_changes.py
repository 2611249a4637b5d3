"""Waterfalls, techniques and simulated servers: bars and areas are the API's values."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from plot_examples import CHOSEN, FP8, LLAMA8, LOAD, both, example, served, techniques

import roofline as rl
from roofline.plot.server import in_system
from roofline.serving.journal import journal
from roofline.techniques.stages import stages


@pytest.fixture(autouse=True)
def _agg_and_no_figure_left():
    mpl.use("Agg")
    yield
    plt.close("all")


def rows(ax):
    """Name of a row -> its bar: where it starts, and how long it is."""
    names = [text.get_text() for text in ax.get_yticklabels()]
    bars = sorted(ax.patches, key=lambda bar: bar.get_y())
    return {name: (bar.get_x(), bar.get_width()) for name, bar in zip(names, bars, strict=True)}


@pytest.mark.parametrize("column", ["estimate_s", "roofline_s"])
def test_a_waterfall_of_passes_leads_from_one_time_to_the_other_by_operator(column):
    before, after = both()[1], both(FP8)[1]
    bars = rows(rl.plot.waterfall(rl.compare(before, after), column=column))
    assert bars["before"] == pytest.approx((0, 1e3 * getattr(before, column)))
    assert bars["after"] == pytest.approx((0, 1e3 * getattr(after, column)))
    start = bars["before"][1]
    for name, (left, width) in list(bars.items())[1:-1]:
        assert left == pytest.approx(start), name
        start += width
    assert start == pytest.approx(bars["after"][1])
    gates = [
        sum(getattr(item, column) for item in each.operators if item.name == "gate_proj") for each in (before, after)
    ]
    assert bars["gate"][1] == pytest.approx(1e3 * (gates[1] - gates[0]))


def test_fp8_halves_the_time_of_weights_in_a_waterfall():
    """By hand: 14336 x 4096 weights of 32 layers, 2 bytes and 1 byte each, at 3.35 TB/s."""
    step, faster = (rl.decode(serve, rl.Workload()) for serve in (LLAMA8, FP8))
    bars = rows(rl.plot.waterfall(rl.compare(step, faster), column="roofline_s"))
    assert bars["gate"][1] == pytest.approx(-1e3 * 32 * 14336 * 4096 / 3.35e12, rel=2e-3)


def test_a_waterfall_of_memory_is_its_parts():
    before, after = rl.memory(LLAMA8, LOAD), rl.memory(FP8, LOAD)
    bars = rows(rl.plot.waterfall(rl.compare(before, after)))
    used = [sum(value for name, value in side.parts.items() if name != "free") / 1e9 for side in (before, after)]
    assert [bars[name][1] for name in ("before", "after")] == pytest.approx(used)
    # Half of 16 sequences x 1,800 tokens x 131,072 bytes.
    assert bars["KV cache"][1] == pytest.approx(-16 * 1800 * 131072 / 2 / 1e9)


def test_techniques_are_added_one_after_the_other():
    effect = rl.apply(LLAMA8, LOAD, CHOSEN, time="roofline_s")
    alone = rl.apply(LLAMA8, LOAD, CHOSEN[:1], time="roofline_s")
    assert [stage.tpot_s for stage in stages(effect)] == [effect.before.tpot_s, alone.after.tpot_s, effect.after.tpot_s]
    bars = rows(rl.plot.waterfall(effect, column="tpot_s"))
    assert list(bars) == ["before", "weight quantization (fp8)", "speculative decoding", "after"]
    changes = 1e3 * np.diff([effect.before.tpot_s, alone.after.tpot_s, effect.after.tpot_s])
    assert [bars[name][1] for name in list(bars)[1:-1]] == pytest.approx(changes)


def test_waterfalls_refuse():
    sweep = rl.decode(LLAMA8, rl.Workload(batch=np.array([1, 2])))
    with pytest.raises(rl.InvalidInput, match="not Phase"):
        rl.plot.waterfall(both()[0])
    with pytest.raises(rl.InvalidInput, match="one point of the sweep"):
        rl.plot.waterfall(rl.compare(sweep, sweep))
    with pytest.raises(rl.UnknownName, match="named 'floor_s'"):
        rl.plot.waterfall(rl.compare(*both()), column="floor_s")
    with pytest.raises(rl.UnknownName, match="no time of a request named 'gap_s'"):
        rl.plot.waterfall(rl.apply(LLAMA8, LOAD, CHOSEN, time="roofline_s"), column="gap_s")


def test_technique_markers_are_the_gains_of_the_table():
    ax = example("techniques")()
    names = [text.get_text() for text in ax.get_yticklabels()]
    table = {row["technique"]: row for row in techniques().rows}
    assert sorted(names) == sorted(table)
    fp8, paged = table["weight quantization (fp8)"], table["PagedAttention"]
    drawn = {(line.get_label(), float(line.get_ydata()[0])): line for line in ax.lines if len(line.get_xdata()) == 1}
    place = float(names.index("weight quantization (fp8)"))
    assert drawn["_decode", place].get_xdata()[0] == pytest.approx(fp8["decode_speedup"])
    assert drawn["_prefill", place].get_xdata()[0] == pytest.approx(fp8["prefill_speedup"])
    place = float(names.index("PagedAttention"))
    assert drawn["_throughput", place].get_xdata()[0] == pytest.approx(paged["baseline_throughput_gain"])
    assert drawn["_throughput", place].get_markerfacecolor() != drawn["_throughput", place].get_color()


@pytest.mark.parametrize("scheduler", ["mixed", "prefill_first"])
def test_a_journal_is_what_the_run_did(scheduler):
    run = served(scheduler=scheduler)
    noted = journal(run, start_s=0.0, span_s=run.span_s + 1)
    (tally,) = run.tallies
    took = noted.end_s - noted.start_s
    assert took.sum() == pytest.approx(tally.busy_s)
    assert noted.steps.sum() == tally.steps
    assert noted.prompt_tokens.sum() == 150 * 1500
    assert noted.running.max() <= 8
    assert noted.waiting.max() <= tally.most_waiting
    # Each request gets its first token with its prompt, and the others one a step.
    assert (noted.steps * noted.running).sum() == 150 * 299
    assert noted.stalls.any() == (scheduler == "prefill_first")
    assert (noted.start_s[1:] >= noted.end_s[:-1] - 1e-9).all()


def test_a_timeline_shows_every_pass_of_its_second():
    run = served(scheduler="prefill_first")
    noted = journal(run, start_s=4.0, span_s=1.0)
    ax = example("timeline, stalls")()
    shapes = {item.get_label(): item.get_paths() for item in ax.collections}
    assert len(shapes["decode steps"]) == int(noted.steps.sum())
    assert len(shapes["prefill"]) == int((noted.prompt_tokens > 0).sum())
    assert len(shapes["stall"]) == int(noted.stalls.sum())
    stalled = [path.vertices[:, 0] for path in shapes["stall"]]
    assert [ends.min() for ends in stalled] == pytest.approx(noted.start_s[noted.stalls])
    assert [ends.max() for ends in stalled] == pytest.approx(noted.end_s[noted.stalls])
    longest = (noted.end_s - noted.start_s)[noted.stalls].max()
    assert f"{1e3 * longest:.3g} ms" in ax.get_yticklabels()[1].get_text()
    assert "no stalls" in [text.get_text() for text in example("timeline")().get_yticklabels()]


def test_requests_in_the_system_obey_littles_law():
    """Mean in each state = rate x mean time in it, exactly over a run that starts and ends empty."""
    run = served()
    times, counts = in_system(run)
    spans = np.diff(times)
    means = (counts[:, :-1] * spans).sum(axis=1) / spans.sum()
    record = run.requests
    arrival, admitted, first, finish = map(np.asarray, (record.arrival, record.admitted, record.first, record.finish))
    seconds = [(finish - first).sum(), (first - admitted).sum(), (admitted - arrival).sum()]
    assert means == pytest.approx(np.array(seconds) / spans.sum())
    assert counts[:2].sum(axis=0).max() <= 8
    assert (counts >= 0).all()
    assert counts[:, -1].tolist() == [0, 0, 0]


def test_a_queue_is_stacked_and_its_slots_are_a_line():
    ax = example("queue")()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["generating", "in prefill", "waiting", "limit of the engine, 8"]
    _, counts = in_system(served())
    top = max(path.vertices[:, 1].max() for item in ax.collections for path in item.get_paths())
    assert top == counts.sum(axis=0).max()
    assert ax.lines[0].get_ydata()[0] == 8


def test_servers_refuse_what_is_no_simulation():
    closed = rl.serve(LLAMA8, LOAD, concurrency=4)
    for draw in (rl.plot.timeline, rl.plot.queue):
        with pytest.raises(rl.InvalidInput, match="takes a single simulation"):
            draw(closed)
    with pytest.raises(rl.InvalidInput, match="nothing happens from 1000 s on"):
        rl.plot.timeline(served(), start_s=1000)
    with pytest.raises(rl.InvalidInput, match="span_s must be above 0"):
        rl.plot.timeline(served(), start_s=1, span_s=0)
