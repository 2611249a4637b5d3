"""Build the documentation site: ``python docs/build.py [folder]``; any warning is an error.

Afterwards every page is searched for scripts, styles, pictures and fonts of other hosts: the site has to work without a
network.  Needs ``roofline[docs]``.
"""

import re
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).parent
LOADED = re.compile(
    r"""<(?:script|img|source|iframe)\b[^>]*\bsrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?![^>]*rel=["']?canonical)[^>]*\bhref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:url\(|@import\s+)["']?((?:https?:)?//[^"')\s]+)"""
)


def other_hosts(site: Path) -> list[str]:
    """What pages and styles load from elsewhere, as ``page: address``; links that a reader follows do not count."""
    found = []
    for page in [*site.rglob("*.html"), *site.rglob("*.css")]:
        addresses = LOADED.findall(page.read_text(encoding="utf-8"))
        found.extend(f"{page.relative_to(site)}: {max(groups)}" for groups in addresses)
    return found


def main() -> int:
    """Build, then look for other hosts."""
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "site"
    shutil.rmtree(HERE / "reference" / "api", ignore_errors=True)  # autosummary keeps pages of names that are gone
    failed = build_main(["-b", "html", "-W", "-n", "--keep-going", "-q", "-j", "auto", str(HERE), str(site)])
    elsewhere = other_hosts(site)
    print("\n".join(elsewhere) or f"{len([*site.rglob('*.html')])} pages in {site}, nothing from other hosts")
    return failed or bool(elsewhere)


if __name__ == "__main__":
    sys.exit(main())
