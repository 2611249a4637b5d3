"""Print pip constraints that hold every dependency at the lowest version that pyproject.toml allows."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
asked = [*project["dependencies"], *(line for extra in ("test", *extras) for line in extras[extra])]
for line in sorted(set(asked)):
    found = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", line)
    if found:
        print(f"{found[1]}=={found[2]}")
