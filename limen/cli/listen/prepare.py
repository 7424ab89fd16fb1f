"""`limen listen new`, `check` and `simulate`: everything before the first listener."""

from pathlib import Path
from typing import Annotated

import typer

from limen.cli.listen.study_arguments import PASTE, Database, StudyPath, out, say, study_file
from limen.listening.statistics.assumptions import ICC, ITEM_SD


def new(
    study: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY", help="Folder to write: study.yaml, items.csv, sources.csv and audio/."
        ),
    ],
    template: Annotated[str, typer.Option(help="Kind of study; `--template help` lists them.")] = "abx",
    run: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Run folder that the clips are taken from, for example runs/demo-... Default: synthetic "
            "speech that comes with Limen.",
        ),
    ] = None,
    attack: Annotated[
        str | None, typer.Option(help="With --from: use only clips of this attack, as labelled in the run.")
    ] = None,
    value: Annotated[
        str | None,
        typer.Option(help='With --from and a sweep: use only clips at this value, for example "eps 0.05".'),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the choice of clips and of the study. Default: a random number, because anyone who "
            "knows it can compute the correct answers."
        ),
    ] = None,
) -> None:
    """Write a new study that can be served at once: a commented study file and its audio.

    \b
    limen listen new my_study --template mushra
    limen listen new my_study --template abx --from runs/demo-...
    """
    from limen.listening.new import new_study, templates
    from limen.listening.study import read_study

    if template == "help":
        for name, about in templates().items():
            out.print(f"  {name:<20} {about}", markup=False)
        return
    path = new_study(study, template, run, attack, seed, value)
    say(f"written: {path}")
    if code := read_study(path).recruitment.code:
        say(f"completion code: {code}  ({PASTE})")
    say(f"next: limen listen check {study} | limen listen serve {study}")


def check(
    study: StudyPath,
    icc: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=0.9,
            help="Assumption for the number of listeners: correlation of two answers of one listener.",
        ),
    ] = ICC,
    item_sd: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=3.0,
            help="Assumption for the number of listeners: standard deviation between items, in log odds of a "
            "correct answer or in standard deviations of a single rating.",
        ),
    ] = ITEM_SD,
) -> None:
    """Find problems of a study before it is served.

    Checks files, sample rates, loudness, clipping and balance; whether a condition can be guessed from the
    word, speaker, loudness, length, order or a single clip; repeated pairs; the duration; and how many
    listeners the hypotheses need. Prints errors, warnings and notes. The exit code is 2 if there are errors:
    such a study cannot be served.
    """
    from limen.listening.checks.check import check_study

    findings = check_study(study_file(study), icc, item_sd)
    colours = {"error": "red", "warning": "yellow", "note": ""}
    for finding in findings:
        say(f"{finding.level:<8}{finding.text}", style=colours[finding.level])
    if any(f.level == "error" for f in findings):
        raise typer.Exit(2)


def simulate(
    study: StudyPath,
    listeners: Annotated[
        int | None,
        typer.Option(min=1, help="Number of simulated listeners. Default: as many as the study needs."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulated listeners.")] = 0,
    database: Database = None,
) -> None:
    """Let simulated listeners take the study, to try its screens, rules and results.

    Their answers are stored in simulated.db in the folder of the study and replace earlier simulated answers.
    `analyze`, `export` and `monitor` use them with --simulated.
    """
    from limen.listening.simulation.simulate import remove_simulated
    from limen.listening.simulation.simulate import simulate as run
    from limen.listening.study import read_study

    file = study_file(study)
    count = listeners or read_study(file).listeners
    if database is None:
        remove_simulated(file)
    finished = run(file, count, seed=seed, database_url=database)
    where = f"--database {database}" if database else "--simulated"
    say(f"{len(finished)} simulated listeners finished. Results: limen listen analyze {study} {where}")
