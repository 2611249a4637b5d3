"""The command line as tests call it: what it prints, and that it went well."""

import contextlib
import io
import json
import os
from dataclasses import dataclass
from unittest import mock

from roofline.cli import app


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    exit_code: int
    stdout: str
    stderr: str


def run(*args, columns=80):
    stdout, stderr = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, COLUMNS=str(columns)),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        code = app.run([str(arg) for arg in args])
    return Done(code, stdout.getvalue(), stderr.getvalue())


def text(*args, columns=80):
    done = run(*args, columns=columns)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def answer(*args):
    return json.loads(text(*args, "--json"))
