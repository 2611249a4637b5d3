"""Types of the names that load on first use; tests/test_types.py holds this list against the lazy table."""

from . import formats as formats
from . import measured as measured
from . import plot as plot
from . import techniques as techniques
from .advisor import Advice as Advice
from .advisor import advise as advise
from .analysis.comparison import Comparison as Comparison
from .analysis.comparison import compare as compare
from .analysis.crossover_points import Crossovers as Crossovers
from .analysis.crossover_points import crossovers as crossovers
from .analysis.ridges import RidgeTable as RidgeTable
from .analysis.ridges import ridge_table as ridge_table
from .analysis.sensitivities import Sensitivity as Sensitivity
from .analysis.sensitivities import sensitivity as sensitivity
from .analysis.solver import Solution as Solution
from .analysis.solver import solve as solve
from .capacity import Fleet as Fleet
from .capacity import Plan as Plan
from .capacity import fleet as fleet
from .capacity import plan as plan
from .efficiency.calibration import calibrate as calibrate
from .errors import InvalidInput as InvalidInput
from .errors import RooflineError as RooflineError
from .errors import SpecError as SpecError
from .errors import UnknownName as UnknownName
from .footprint.memory_use import Memory as Memory
from .footprint.memory_use import Paging as Paging
from .footprint.memory_use import memory as memory
from .hardware import Accelerator as Accelerator
from .hardware import Link as Link
from .measured import headroom as headroom
from .model import Layer as Layer
from .model import Model as Model
from .model import blocks as _blocks
from .operators.operator import Operator as Operator
from .operators.operator import Segment as Segment
from .operators.parallel import Parallel as Parallel
from .operators.precision import Precision as Precision
from .operators.products import matmul as matmul
from .operators.work import Work as Work
from .phases.bounds import Bound as Bound
from .phases.bounds import bound as bound
from .phases.deployment import Deployment as Deployment
from .phases.passes import Generation as Generation
from .phases.passes import Phase as Phase
from .phases.passes import decode as decode
from .phases.passes import generate as generate
from .phases.passes import mixed as mixed
from .phases.passes import prefill as prefill
from .phases.workload import Workload as Workload
from .report import Step as Step
from .serving.slo import SLO as SLO
from .serving.traffic import Traffic as Traffic
from .serving.traffic import read_traffic as read_traffic
from .specs.library import get_accelerator as get_accelerator
from .specs.library import get_model as get_model
from .specs.library import list_accelerators as list_accelerators
from .specs.library import list_models as list_models
from .specs.prices import Price as Price
from .specs.prices import get_price as get_price
from .specs.prices import list_prices as list_prices
from .specs.validation import check_specs as check_specs
from .teaching import napkin as napkin
from .techniques import Effect as Effect
from .techniques import TechniqueTable as TechniqueTable
from .techniques import apply as apply
from .techniques import quantize as quantize
from .techniques import technique_table as technique_table

layers = _blocks

__all__: list[str]
__version__: str
