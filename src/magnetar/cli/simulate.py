"""``magnetar simulate``: run whole clusters on a virtual clock, network and disk, from seeds."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from magnetar.base.errors import ConfigurationError
from magnetar.cli.global_options import OutputForm
from magnetar.cli.output import Output, note, show_fields, show_json, show_lines
from magnetar.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from magnetar.sim.coverage import Coverage
    from magnetar.sim.run import Verdict
    from magnetar.sim.trace import Trace

app = typer.Typer()

# The simulator is imported in the functions that need it. With its modules and pyarrow, every other command would need
# a third more time and memory to start, a broker as well.


@app.command()
def simulate(
    *,
    seed: Annotated[int | None, typer.Option(min=0, help="One seed.")] = None,
    seeds: Annotated[str, typer.Option(help="Range of seeds, FROM:TO; TO is exclusive.")] = "0:100",
    clusters: Annotated[
        int | None, typer.Option(min=2, max=5, help="Number of clusters; default: 2 to 5, drawn from the seed.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Number of events before faults stop; default: drawn from the seed."),
    ] = None,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Only changes of metadata, with the metadata synchronizer.")
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    story: Annotated[bool, typer.Option("--story", help="With --seed: print all events.")] = False,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="With --seed: print a sequence diagram (Mermaid).")
    ] = False,
    output: OutputForm = Output.TEXT,
) -> int:
    """Run clusters, pipeline and clients on a virtual clock, network and disk, from a seed.

    The seed determines the topics, subscriptions and settings, and the faults: partitions, lost connections, crashes,
    stopped processes, torn writes, flipped bits, replaced disks, slow peers, clocks that jump or drift, policy changes,
    deleted topics, clusters that leave. The promises of the brokers are checked after every step. At the end all
    clusters must agree, and every unacknowledged message must be delivered. A seed that breaks a promise is printed
    with its world and the command that repeats it. Equal seeds give equal runs. A table counts how often, and in how
    many worlds, each event and state occurred. The exit code is 1 if a promise was broken.

    With --metadata, the worlds contain only changes of tenants, namespaces, policies and partitions in all clusters,
    which the metadata synchronizer exchanges. Clusters also join, leave and return, the clocks are off by up to ten
    minutes, and hostile events are published. At the end all clusters must have the metadata of an oracle.
    """
    from magnetar.sim.coverage import Coverage  # noqa: PLC0415 - see the top

    if seed is not None:
        run_seed = partial(_runs(metadata=metadata).simulate, seed, clusters, steps)
        return _print_run(run_seed, output, _Form(lines=story, diagram=diagram))
    chosen, judge = _range(seeds), partial(_judge, clusters=clusters, steps=steps, metadata=metadata)
    coverage, broken, last = Coverage(), [], chosen.start - 1
    try:
        for verdict in _watched(_judge_all(chosen, judge, jobs), len(chosen)):
            last = verdict.seed
            coverage.add(dict(verdict.counts))
            if verdict.violation:
                broken.append(verdict)
                text = f"seed {verdict.seed}: {verdict.violation}\n  world: {verdict.world}\n  again: {verdict.command}"
                note(output, text)
    except KeyboardInterrupt:
        note(output, "stopped", f"continue with --seeds {last + 1}:{chosen.stop}")
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


class _Runs(Protocol):
    """A module that runs seeds."""

    def judge(self, seed: int, clusters: int | None, steps: int | None) -> Verdict: ...

    def simulate(self, seed: int, clusters: int | None, steps: int | None) -> tuple[Verdict, Trace]: ...


class _Form:
    """The formats in which a run is printed."""

    def __init__(self, *, lines: bool, diagram: bool) -> None:
        self.lines = lines
        self.diagram = diagram


def _runs(*, metadata: bool) -> _Runs:
    """Return the module that runs seeds."""
    from magnetar.sim import run  # noqa: PLC0415 - see the top
    from magnetar.sim.metasync import run as metadata_run  # noqa: PLC0415 - see the top

    return metadata_run if metadata else run


def _judge(seed: int, clusters: int | None, steps: int | None, *, metadata: bool) -> Verdict:
    return _runs(metadata=metadata).judge(seed, clusters, steps)


def _print_run(run_seed: Callable[[], tuple[Verdict, Trace]], output: Output, form: _Form) -> int:
    verdict, story = run_seed()
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
        message = f"--seeds {seeds} is not a range\nhint: pass FROM:TO, for example 0:100"
        raise ConfigurationError(message)
    return range(int(match[1]), int(match[2]))


def _judge_all(seeds: range, one: Callable[[int], Verdict], jobs: int) -> Iterator[Verdict]:
    if jobs == 1:
        yield from map(one, seeds)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(one, seeds, chunksize=10)


def _watched(verdicts: Iterable[Verdict], total: int) -> Iterator[Verdict]:
    """Yield the verdicts and show progress."""
    with progress("simulating", ("seeds",)) as told:
        for done, verdict in enumerate(verdicts, 1):
            told("seeds", done, total)
            yield verdict
