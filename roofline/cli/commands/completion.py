"""The command ``--install-completion``, in a module of its own: it loads what writes the scripts of every shell."""

from __future__ import annotations

from cyclopts.completion.install import create_install_completion_command

from ..app import build

install = create_install_completion_command(build().install_completion, add_to_startup=True)
