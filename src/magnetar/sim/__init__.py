"""Whole clusters in one thread, without sockets, disks and clocks: the broker's code, from a seed or moved by hand.

Moved by hand (``cluster``, ``pipe``, ``store``, ``loop``, ``thread``): what unit tests use.

From a seed (``magnetar simulate``): ``scenario`` draws what the world contains, ``world`` builds it (``site``: a
broker; ``carrier``: the pipeline; ``producer`` and ``consumer``: clients; ``network``, ``disk``, ``scheduler``: what
they run on), ``workload`` lets one thing after another happen, and ``run`` ends with peace, in which everything must
converge.

How to add to it:

* **An action or a fault** is an ``Action`` of a ``Happening`` (``happenings/``, one module for each kind). The method
  returns False when there was nothing that it could be done to. What it breaks is repaired in ``heal``. A new kind is
  added to ``KINDS``; its ``share`` says in how many worlds it is enabled. All chance comes from ``world.chance``.
* **A setting** is a field of ``Scenario``: draw it in ``draw``, name it in ``features`` and ``FEATURES``, and apply it
  where it takes effect (``Scenario.policies``, the configuration in ``site``, a client).
* **A form of message** is a field of ``Draft`` (``content``). The model compares every byte with what was published.
* **An event or a state** of the coverage table is named in ``counted`` of its kind or invariant and counted with
  ``World.count``. Actions count themselves. One that never occurs in ``--seeds 0:300`` is an error of the simulation.
* **An invariant** that is seen from outside is an ``Invariant`` (``invariants/``, listed in ``INVARIANTS``): ``check``
  runs after every step, ``missing`` in peace, ``at_end`` when everything was consumed. One that is seen in the frames
  of brokers is a method of ``TopicReferee``, which has the ``Model`` of its topic; ``Checker`` compares logs and
  cursors with it.
* **A mutant** for each of them (``tests/sim/mutants``): the simulation must find it within 50 seeds.

Simulated code never asks the real clock and never iterates over a set: the same seed is the same run in any process.
"""
