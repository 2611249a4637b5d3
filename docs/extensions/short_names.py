"""Names in single backticks: `Phase` in a docstring links to the page of ``roofline.Phase``.

A name of a private module, a parameter or an attribute without a page is shown as code.  Links that a page asks for by
role (``{py:func}`` and the like) stay strict: a wrong one is a warning, and warnings are errors.
"""

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

ROOMS = ("roofline", "roofline.plot", "roofline.techniques", "roofline.layers", "roofline.formats", "roofline.measured")


def full_name(domain: PythonDomain, target: str, inside: str | None) -> str | None:
    """The documented object that a short name stands for, seen from the class ``inside``."""
    rooms = [inside, *ROOMS] if inside else [*ROOMS]
    names = [target, *(f"{room}.{target}" for room in rooms)]
    return next((name for name in names if name in domain.objects), None)


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.Element) -> nodes.Element | None:
    """A link to the object, or the bare name where there is none."""
    if node.get("refdomain") != "py" or node.get("reftype") not in {"obj", "class", "exc"}:
        return None
    domain = env.domains.python_domain
    name = full_name(domain, node["reftarget"], node.get("py:class"))
    if name is None:
        return shown if node["reftype"] == "obj" else None
    entry = domain.objects[name]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, shown, name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the resolver."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
