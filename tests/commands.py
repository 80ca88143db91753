"""The command, run in this process."""

from typer.testing import CliRunner

from momentmix.cli import app
from momentmix.files.opening import choose_from, open_table


def run(*arguments, code=0, **options):
    """In this process; standard output and standard error."""
    done = CliRunner().invoke(app, list(map(str, arguments)), **options)
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def open_tables(paths):
    """The tables in files, with the same columns chosen of each."""
    tables = [open_table(path) for path in paths]
    choose_from(tables)
    return tables
