"""Whole clusters in one thread, without sockets, disks and clocks. The code of the broker is the real one.

Unit tests drive a cluster step by step with ``cluster``, ``pipe``, ``virtual.store``, ``virtual.loop`` and
``virtual.thread``.

``magnetar simulate`` runs clusters from a seed. ``scenario`` draws the configuration of a run. ``simulation`` builds
the run: ``site`` (a broker), ``pipeline`` (the tasks of the pipeline), ``clients``, and the virtual network, disks and
scheduler of ``virtual``. ``workload`` chooses random actions. ``run`` ends with a liveness phase, in which all
clusters must converge.

How to extend the simulator:

* **An action or a fault** is an ``Action`` of an ``ActionGroup`` (``actions/``, one module for each group). The method
  returns False if the action was not possible. ``heal`` repairs the faults of the group. A new group is added to
  ``ACTION_GROUPS``; ``share`` is the fraction of runs in which it is enabled. Randomness comes from
  ``simulation.chance`` only.
* **A setting** is a field of ``Scenario``. Draw it in ``draw``, name it in ``features`` and ``FEATURES``, and apply it
  where it takes effect (``Scenario.policies``, the configuration in ``site``, a client).
* **A form of message** is a field of ``Draft`` (``content``). The model compares every byte with the published bytes.
* **An event or a state** of the coverage table is named in ``counted`` of its group or invariant and counted with
  ``Simulation.count``. Actions are counted automatically. A name that never occurs in ``--seeds 0:300`` is a defect of
  the simulator.
* **An invariant** over the state of brokers is an ``Invariant`` (``invariants/``, listed in ``INVARIANTS``): ``check``
  runs after every step, ``missing`` in the liveness phase, ``at_end`` after everything was consumed. An invariant
  over the frames of brokers is a method of ``TopicChecks``, which has the ``Model`` of its topic; ``Checker`` compares
  logs and cursors with the model.
* **A mutant** proves each of them (``tests/sim/mutants``): the simulator must find the mutant within 50 seeds.

``magnetar simulate --metadata`` runs other worlds, which contain only changes of metadata: see ``metasync``. A separate
mode keeps these worlds cheap, and existing seeds as they were. Actions, invariants and mutants extend the same classes.

Simulated code never reads the real clock and never iterates over a set, so that a seed gives the same run in any
process.
"""
