"""The command, run in this process."""

from typer.testing import CliRunner

from momentmix.cli import app


def run(*arguments, code=0, **options):
    """In this process; standard output and standard error."""
    done = CliRunner().invoke(app, list(map(str, arguments)), **options)
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr
