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
    "Precision": "precision",
    "Parallel": "parallel",
    "Workload": "workload",
    "Deployment": "deployment",
    "Work": "work",
    "Phase": "phases",
    "Bound": "bounds",
    "list_accelerators": "library",
    "list_models": "library",
    "get_accelerator": "library",
    "get_model": "library",
    "ridge_table": "ridges",
    "check_specs": "checking",
    "Price": "prices",
    "get_price": "prices",
    "list_prices": "prices",
    "matmul": "operators",
    "bound": "bounds",
    "prefill": "phases",
    "decode": "phases",
    "generate": "phases",
    "memory": "footprint",
    "quantize": "techniques",
    "compare": "techniques",
    "apply": "techniques",
    "technique_table": "techniques",
    "Traffic": "traffic",
    "read_traffic": "traffic",
    "SLO": "slo",
    "advise": "advisor",
    "crossovers": "balance",
    "Paging": "footprint",
    "plan": "capacity",
    "fleet": "capacity",
    "solve": "inverse",
    "sensitivity": "sensitivities",
}
_MODULES = ("plot", "layers", "formats", "techniques")

__all__ = [*_HOME, *_MODULES]  # noqa: PLE0604
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
