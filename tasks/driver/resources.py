"""Dask resources of shards, for clusters whose workers declare what they have.

Example: `dask worker … --resources "sandbox=4"`. A shard never asks for a resource that no worker
declares, so a cluster without declarations works too.
"""

import pickle
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from tasks.planning.plan import NO_SANDBOX
from tasks.worker.jobs import AuditShard, ConverseShard, ExecuteShard, JudgeShard, run_packed

MODEL_CALLS = "model_calls"
"""Dask resource: number of parallel dialogues or judgements, each with one open request."""
SANDBOX = "sandbox"
"""Dask resource: number of parallel shards of programs.

Dialogues of a run with programs go to workers that declare this resource, but do not reserve it.
"""
Resources = Mapping[str, float]


class ClusterResources:
    """Resources that the workers of a cluster currently declare to its scheduler."""

    def __init__(self, client: Any) -> None:
        self._client = client
        workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
        self._of: dict[str, Resources] = {
            address: dict(worker.get("resources") or {}) for address, worker in workers.items()
        }
        self._most: dict[str, float] = {}
        for has in self._of.values():
            for name, amount in has.items():
                self._most[name] = max(amount, self._most.get(name, 0.0))

    def place(self, shard: object) -> dict[str, Any]:
        """Return Dask's arguments for the resources of a shard.

        A shard asks for at most what the largest worker has. A larger amount would wait for ever.
        """
        resources = {
            name: min(amount, self._most[name])
            for name, amount in needs(shard).items()
            if name in self._most
        }
        return {"resources": resources} if resources else {}

    def submit(self, function: Callable[[Any], Any], shard: object, **where: Any) -> Any:
        """Submit a shard to a worker with the resources that it needs, and return the future.

        Args:
            where: Further arguments of Dask's `submit`, such as `workers` and `priority`.
        """
        key = f"{function.__name__}-{uuid4()}"
        packed = pickle.dumps(shard, pickle.HIGHEST_PROTOCOL)
        return self._client.submit(
            run_packed,
            function,
            packed,
            key=key,
            pure=False,
            retries=0,
            **where,
            **self.place(shard),
        )

    def able(self, workers: tuple[str, ...], shard: object) -> tuple[str, ...]:
        """Return those of `workers` that declare the resources that a shard needs."""
        resources: Resources = self.place(shard).get("resources", {})
        return tuple(
            worker
            for worker in workers
            if all(
                self._of.get(worker, {}).get(name, -1.0) >= resources[name] for name in resources
            )
        )


def needs(shard: object) -> Resources:
    """Return the Dask resources that a shard needs."""
    if isinstance(shard, ConverseShard):
        has_programs = shard.context.spec.sandbox != NO_SANDBOX
        return {MODEL_CALLS: len(shard.episodes), **({SANDBOX: 0} if has_programs else {})}
    if isinstance(shard, ExecuteShard | AuditShard):
        return {SANDBOX: 1}
    if isinstance(shard, JudgeShard):
        return {MODEL_CALLS: len(shard.jobs)}
    return {}
