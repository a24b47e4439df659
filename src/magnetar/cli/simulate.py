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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from magnetar.sim.coverage import Coverage
    from magnetar.sim.run import Verdict

# The simulator is imported in the functions that need it: its modules, and pyarrow, would take a third of the time and
# of the memory of every other command, a broker's among them.


def simulate(
    *,
    seed: Annotated[int | None, typer.Option(min=0, help="One seed.")] = None,
    seeds: Annotated[str, typer.Option(help="A range of seeds, FROM:TO, without TO.")] = "0:100",
    clusters: Annotated[
        int | None, typer.Option(min=2, max=5, help="Clusters; by default 2 to 5, as the seed has it.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Things that happen before the world is left in peace; by default as the seed has it."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that share the seeds.")] = 1,
    story: Annotated[bool, typer.Option("--story", help="With --seed: tell everything that happened.")] = False,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="With --seed: tell it as a sequence diagram (Mermaid).")
    ] = False,
    output: Annotated[Output, typer.Option(help="The form of what is printed.")] = Output.TEXT,
) -> int:
    """Run clusters, pipeline and clients on a virtual clock, network and disk, from a seed.

    The seed draws what the world contains (topics, subscriptions, settings) and what may happen to it: partitions,
    lost connections, crashes, stopped processes, torn writes, bits that flip, replaced disks, slow peers, clocks that
    jump or drift, policy changes, topics that are deleted, clusters that leave. After every step what the brokers
    promise is checked; in the end all clusters must agree, and what nobody acknowledged must be delivered. A seed that
    breaks a promise is printed with its world and the command that runs it again. The same seed is always the same
    run. A table counts in how many worlds, and how often, each event and state occurred. Exits with 1 when a promise
    was broken.
    """
    from magnetar.sim.coverage import Coverage  # noqa: PLC0415 - see the top

    if seed is not None:
        return _tell(seed, clusters, steps, output, _Form(lines=story, diagram=diagram))
    chosen = _range(seeds)
    coverage, broken, last = Coverage(), [], chosen.start - 1
    try:
        for verdict in _watched(_judge_all(chosen, clusters, steps, jobs), len(chosen)):
            last = verdict.seed
            coverage.add(dict(verdict.counts))
            if verdict.violation:
                broken.append(verdict)
                say(f"seed {verdict.seed}: {verdict.violation}\n  world: {verdict.world}\n  again: {verdict.command}")
    except KeyboardInterrupt:
        say(f"stopped; go on with --seeds {last + 1}:{chosen.stop}")
    if output is Output.JSON:
        table = {name: {"worlds": worlds, "times": times} for name, worlds, times in coverage.rows()}
        show_json({"seeds": coverage.worlds, "broken": list(map(_as_json, broken)), "coverage": table})
    else:
        show_fields({"seeds": coverage.worlds, "broken": len(broken)})
        show_lines(_table(coverage))
    return int(bool(broken) or coverage.worlds < len(chosen))


def _as_json(verdict: Verdict) -> dict[str, object]:
    return {**asdict(verdict), "counts": dict(verdict.counts), "command": verdict.command}


def _table(coverage: Coverage) -> Iterator[str]:
    rows = list(coverage.rows())
    width = max((len(name) for name, _, _ in rows), default=0)
    yield f"{'event or state':<{width}}  worlds    times"
    for name, worlds, times in rows:
        yield f"{name:<{width}}  {worlds:>6} {times:>8}{'' if times else '  never'}"


class _Form:
    """How a story is told."""

    def __init__(self, *, lines: bool, diagram: bool) -> None:
        self.lines = lines
        self.diagram = diagram


def _tell(seed: int, clusters: int | None, steps: int | None, output: Output, form: _Form) -> int:
    from magnetar.sim.run import simulate as run_seed  # noqa: PLC0415 - see the top

    verdict, story = run_seed(seed, clusters, steps)
    if form.lines:
        show_lines(story.lines())
    if form.diagram:
        show_lines(story.diagram())
    if output is Output.JSON:
        show_json(_as_json(verdict))
    elif not form.diagram:
        fields = asdict(verdict)
        counts = {name: times for name, times in fields.pop("counts") if times}
        show_fields({**fields, **counts})
    return int(bool(verdict.violation))


def _range(seeds: str) -> range:
    match = re.fullmatch(r"(\d+):(\d+)", seeds)
    if match is None or int(match[1]) >= int(match[2]):
        message = f"--seeds {seeds}: give a range FROM:TO, such as 0:100"
        raise ConfigurationError(message)
    return range(int(match[1]), int(match[2]))


def _judge_all(seeds: range, clusters: int | None, steps: int | None, jobs: int) -> Iterator[Verdict]:
    from magnetar.sim.run import judge  # noqa: PLC0415 - see the top

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
