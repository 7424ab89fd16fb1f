"""The command `limen listen`: a listening study from its file to its results."""

import typer

from limen.cli.listen.prepare import check, new, simulate
from limen.cli.listen.results import analyze, export
from limen.cli.listen.running import backup, close, erase, monitor, serve

HELP = """Run a listening study on the web: write it, check it, serve it to listeners, analyse their answers.

A study is a folder with a file study.yaml and its audio. Answers are stored in a database next to it. A
typical sequence is:

\b
  limen listen new my_study --template abx    write a study with example clips
  limen listen check my_study                 find problems before the first listener does
  limen listen simulate my_study              try everything with simulated listeners
  limen listen analyze my_study --simulated   see what the results page will show
  limen listen serve my_study                 serve it at http://localhost:8000/
  limen listen monitor my_study               see how many listeners have finished
  limen listen analyze my_study               write the results page
  limen listen export my_study answers.csv    write the answers as a table

`limen listen COMMAND --help` explains each command; docs/listening.md describes the study file."""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=HELP)
for command in (new, check, simulate, serve, monitor, analyze, export, backup, close, erase):
    app.command()(command)
