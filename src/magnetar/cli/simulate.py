"""``magnetar simulate``: whole clusters on a virtual clock, network and disk, from seeds."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.base.errors import ConfigurationError
from magnetar.cli.output import Output, say, show_fields, show_json, show_lines
from magnetar.cli.progress import progress
from magnetar.sim.run import STEPS, judge
from magnetar.sim.run import simulate as run_seed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.sim.run import Verdict


def simulate(
    *,
    seed: Annotated[int | None, typer.Option(min=0, help="One seed.")] = None,
    seeds: Annotated[str, typer.Option(help="A range of seeds, FROM:TO, without TO.")] = "0:100",
    clusters: Annotated[
        int | None, typer.Option(min=2, max=5, help="Clusters; by default 3 to 5, as the seed has it.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Things that happen before the world is left in peace.")] = STEPS,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that share the seeds.")] = 1,
    story: Annotated[bool, typer.Option("--story", help="With --seed: tell everything that happened.")] = False,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="With --seed: tell it as a sequence diagram (Mermaid).")
    ] = False,
    output: Annotated[Output, typer.Option(help="The form of what is printed.")] = Output.TEXT,
) -> int:
    """Run clusters, pipeline and clients on a virtual clock, network and disk, from a seed.

    Anything may happen to them: partitions, lost connections, crashes, torn writes, slow peers, clocks that jump. After
    every step what the brokers promise is checked; in the end all clusters must agree, and what nobody acknowledged
    must be delivered. A seed that breaks a promise is printed with the command that runs it again. The same seed is
    always the same run. Exits with 1 when a promise was broken.
    """
    if seed is not None:
        return _tell(seed, clusters, steps, output, _Form(lines=story, diagram=diagram))
    chosen = _range(seeds)
    judged, broken, last = 0, [], chosen.start - 1
    try:
        for verdict in _watched(_judge_all(chosen, clusters, steps, jobs), len(chosen)):
            judged, last = judged + 1, verdict.seed
            if verdict.violation:
                broken.append(verdict)
                say(f"seed {verdict.seed}: {verdict.violation}\n  again: {verdict.command}")
    except KeyboardInterrupt:
        say(f"stopped; go on with --seeds {last + 1}:{chosen.stop}")
    if output is Output.JSON:
        show_json({"seeds": judged, "broken": [{**asdict(each), "command": each.command} for each in broken]})
    else:
        show_fields({"seeds": judged, "broken": len(broken)})
    return int(bool(broken) or judged < len(chosen))


class _Form:
    """How a story is told."""

    def __init__(self, *, lines: bool, diagram: bool) -> None:
        self.lines = lines
        self.diagram = diagram


def _tell(seed: int, clusters: int | None, steps: int, output: Output, form: _Form) -> int:
    verdict, story = run_seed(seed, clusters, steps)
    if form.lines:
        show_lines(story.lines())
    if form.diagram:
        show_lines(story.diagram())
    if output is Output.JSON:
        show_json({**asdict(verdict), "command": verdict.command})
    elif not form.diagram:
        show_fields(asdict(verdict))
    return int(bool(verdict.violation))


def _range(seeds: str) -> range:
    match = re.fullmatch(r"(\d+):(\d+)", seeds)
    if match is None or int(match[1]) >= int(match[2]):
        message = f"--seeds {seeds}: give a range FROM:TO, such as 0:100"
        raise ConfigurationError(message)
    return range(int(match[1]), int(match[2]))


def _judge_all(seeds: range, clusters: int | None, steps: int, jobs: int) -> Iterator[Verdict]:
    one = partial(judge, clusters=clusters, steps=steps)
    if jobs == 1:
        yield from map(one, seeds)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(one, seeds, chunksize=10)


def _watched(verdicts: Iterable[Verdict], total: int) -> Iterator[Verdict]:
    """Show how far it is."""
    with progress("simulating", ("seeds",)) as told:
        for done, verdict in enumerate(verdicts, 1):
            told("seeds", done, total)
            yield verdict
