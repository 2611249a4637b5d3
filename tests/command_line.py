"""The command line as tests call it: what it prints, and that it went well."""

import json

from typer.testing import CliRunner

from roofline.cli import commands


def run(*args, columns=80):
    return CliRunner().invoke(commands.app, [str(arg) for arg in args], env={"COLUMNS": str(columns)})


def text(*args, columns=80):
    done = run(*args, columns=columns)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def answer(*args):
    return json.loads(text(*args, "--json"))
