"""What users typically write, checked with ``mypy --strict`` as they would check it.

The code also runs (tests/test_types.py), so that neither the types nor the examples can be wrong alone.  Every
``type: ignore`` marks a mistake that mypy has to find: one that is found no longer is reported as unused.
"""

import numpy as np
import numpy.typing as npt

import roofline as rl
from roofline.techniques import Quantization, Speculation


def step_ms(serve: rl.Deployment, batch: int) -> float:
    step: rl.Phase = rl.decode(serve, rl.Workload(batch=batch), context_tokens=2048)
    return float(step.roofline_s) * 1e3


def fastest(names: list[str], batch: int) -> str:
    times = {name: step_ms(rl.Deployment("llama-3.1-8b", name), batch) for name in names}
    return min(times, key=lambda name: times[name])


def first_limits() -> dict[str, str]:
    gpu: rl.Accelerator = rl.get_accelerator("h100-sxm")
    model: rl.Model = rl.get_model("llama-3.1-8b")
    serve = rl.Deployment(model, gpu, rl.Precision(weights="fp8"), parallel=rl.Parallel(tensor=2))
    load = rl.Workload(prompt_tokens=2000, output_tokens=256, batch=8)
    phases: dict[str, rl.Phase] = {"prefill": rl.prefill(serve, load), "decode": rl.decode(serve, load)}
    return {name: str(phase.limit) for name, phase in phases.items()}


def sweep() -> npt.NDArray[np.float64]:
    load = rl.Workload(batch=np.arange(1, 33))
    step = rl.decode(rl.Deployment("llama-3.1-8b", "h100-sxm"), load)
    per_floor: npt.NDArray[np.float64] = np.asarray(step.tokens_per_s) * np.asarray(step.floor_s)
    return per_floor


def what_if(serve: rl.Deployment, load: rl.Workload) -> float:
    narrow = rl.quantize(serve, weights="fp8", activations="fp8")
    compared: rl.Comparison = rl.compare(rl.decode(serve, load), rl.decode(narrow, load))
    effect: rl.Effect = rl.apply(serve, load, [Quantization(weights="fp8"), Speculation(acceptance=0.7)])
    return float(compared.ratio["roofline_s"]) * float(effect.decode_speedup)


def room(serve: rl.Deployment, load: rl.Workload) -> str:
    need: rl.Memory = rl.memory(serve, load)
    batch: rl.Generation = rl.generate(serve, load, time="estimate_s")
    joined: rl.Phase = rl.mixed(serve, decode=load, prefill=rl.Workload(512, batch=1))
    steps: tuple[rl.Step, ...] = joined.explain()
    return f"{np.max(need.max_batch)} fit, {float(batch.ttft_s):.3f} s, {steps[-1].name}"


def capacity(load: rl.Workload) -> str:
    found: rl.Plan = rl.plan("llama-3.1-8b", ["h100-sxm", "l4"], load, slo=rl.SLO(tpot_s=0.05))
    need: rl.Fleet = rl.fleet(found, requests_per_s=10)
    serve: rl.Deployment = found.deployment(0)
    advice: rl.Advice = rl.advise(serve, [(1500.0, 300.0, 1.0)], rl.SLO(ttft_s=0.5))
    return f"{need.gpus[0]} {advice.verdict}"


def inverse(serve: rl.Deployment) -> float:
    found: rl.Solution = rl.solve(serve, find="memory_bytes_per_s", target=0.02, time="floor_s")
    how: rl.Sensitivity = rl.sensitivity(rl.decode(serve, rl.Workload()))
    return found.value * float(how.ratio("bandwidth", 2.0))


def one_product() -> float:
    work: rl.Work = rl.matmul(8, 4096, 4096, weights="fp8", activations="fp8")
    bound: rl.Bound = rl.bound(work, "h100-sxm")
    attention = rl.layers.Attention(hidden=4096, query_heads=32, kv_heads=8, head_dim=128)
    layer: rl.Layer = rl.Layer(2, (attention,))
    return float(bound.roofline_s) * layer.count


def mistakes(serve: rl.Deployment, load: rl.Workload) -> None:
    """Each line has one that mypy finds (and Python, when it runs it)."""
    rl.decode(serve, 3, nonsense=4)  # type: ignore[call-arg, arg-type]
    rl.decode(serve)  # type: ignore[call-arg]
    rl.prefill("llama-3.1-8b", load)  # type: ignore[arg-type]
    rl.Deployment("llama-3.1-8b", ["h100-sxm"])  # type: ignore[arg-type]
    rl.Deployment("llama-3.1-8b", "h100-sxm", precision="fp8")  # type: ignore[arg-type]
    rl.Workload(batches=3)  # type: ignore[call-arg]
    rl.matmul(1, 2, "three")  # type: ignore[arg-type]
    print(rl.get_model("llama-3.1-8b").paramters)  # type: ignore[attr-defined]
    print(rl.decode(serve, load).rooflines_s)  # type: ignore[attr-defined]
    rl.dekode(serve, load)  # type: ignore[attr-defined]
    load.batch = 3  # type: ignore[misc]


def main() -> None:
    serve, load = rl.Deployment("llama-3.1-8b", "h100-sxm"), rl.Workload(1500, 300)
    assert fastest(["l4", "h100-sxm"], 1) == "h100-sxm"
    assert first_limits() == {"prefill": "compute", "decode": "memory"}
    assert sweep().shape == (32,)
    assert what_if(serve, load) > 0
    assert "fit" in room(serve, load)
    assert "decode" in capacity(load) or "prefill" in capacity(load) or "both" in capacity(load)
    assert inverse(serve) > 0
    assert one_product() > 0
