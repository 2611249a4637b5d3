"""LLM inference from first principles: floors, rooflines and estimates from a data sheet and a model's shapes.

Every numeric argument takes a float or an array; results have the broadcast shape.  Names load on first use, so that
``import roofline`` is quick.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "RooflineError": "errors",
    "InvalidInput": "errors",
    "SpecError": "errors",
    "UnknownName": "errors",
    "Accelerator": "hardware",
    "Link": "hardware",
    "Model": "model",
    "Layer": "model",
    "Precision": "operators.precision",
    "Parallel": "operators.parallel",
    "Workload": "phases.workload",
    "Deployment": "phases.deployment",
    "Engine": "specs.engines",
    "list_engines": "specs.engines",
    "list_formats": "formats",
    "Work": "operators.work",
    "Phase": "phases.passes",
    "Bound": "phases.bounds",
    "list_accelerators": "specs.library",
    "list_models": "specs.library",
    "get_accelerator": "specs.library",
    "get_hardware": "specs.library",
    "Hardware": "specs.library",
    "list_instances": "specs.instances",
    "get_model": "specs.library",
    "Segment": "operators.operator",
    "Operator": "operators.operator",
    "Generation": "phases.generation",
    "Memory": "footprint.memory_use",
    "Step": "report",
    "ridge_table": "analysis.ridges",
    "check_specs": "specs.validation",
    "Price": "specs.prices",
    "Power": "specs.electricity",
    "get_price": "specs.prices",
    "list_prices": "specs.prices",
    "Purchase": "specs.prices",
    "list_purchases": "specs.prices",
    "live_prices": "specs.price_catalog",
    "matmul": "operators.products",
    "bound": "phases.bounds",
    "prefill": "phases.passes",
    "encode": "phases.encoding",
    "decode": "phases.passes",
    "mixed": "phases.passes",
    "generate": "phases.generation",
    "memory": "footprint.memory_use",
    "quantize": "techniques",
    "compare": "analysis.comparison",
    "apply": "techniques",
    "technique_table": "techniques",
    "list_techniques": "techniques",
    "Traffic": "serving.traffic",
    "read_traffic": "serving.traffic",
    "Trace": "serving.trace",
    "read_trace": "serving.trace",
    "simulate": "serving.simulation",
    "serve": "serving.under_load",
    "serve_pools": "serving.pools",
    "calibrate_serving": "serving.own_runs",
    "ServerCalibration": "serving.own_runs",
    "Pools": "serving.pools",
    "SLO": "serving.slo",
    "advise": "advisor",
    "crossovers": "analysis.crossover_points",
    "Paging": "footprint.allocation",
    "plan": "capacity",
    "fleet": "capacity",
    "disaggregate": "capacity",
    "solve": "analysis.solver",
    "sweep": "analysis.sweeps",
    "sensitivity": "analysis.sensitivities",
    "calibrate": "efficiency.calibration",
    "memory_hierarchy": "analysis.memory_hierarchy",
    "MemoryHierarchy": "analysis.memory_hierarchy",
    "Tiling": "operators.tiling",
    "Comparison": "analysis.comparison",
    "Crossovers": "analysis.crossover_points",
    "RidgeTable": "analysis.ridges",
    "Solution": "analysis.solutions",
    "Sensitivity": "analysis.sensitivities",
    "Effect": "techniques",
    "TechniqueTable": "techniques",
    "Plan": "capacity",
    "Fleet": "capacity",
    "PoolPlan": "capacity",
    "Advice": "advisor",
    "Served": "serving.under_load",
    "Simulation": "serving.outcome",
    "Headroom": "measured",
    "Napkin": "teaching",
    "headroom": "measured",
    "napkin": "teaching",
    "quiz": "teaching",
}
_MODULES = {
    "plot": "plot",
    "layers": "model.blocks",
    "formats": "formats",
    "techniques": "techniques",
    "measured": "measured",
}

__all__ = [*_HOME, *_MODULES]  # noqa: PLE0604
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    if name in _HOME:
        found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    elif name in _MODULES:
        found = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found  # from the second time on Python finds it by itself
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
