"""What shards ask of workers, where the workers of a named cluster say what they have: `dask worker … --resources "sandbox=4"`.

A resource that no worker declares is asked for by no shard, so that a cluster that declares none works as one without them.
"""

import pickle
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from tasks.planning.plan import NO_SANDBOX
from tasks.worker.jobs import AuditShard, ConverseShard, ExecuteShard, JudgeShard, run_packed

MODEL_CALLS = "model_calls"
"""Dialogues or judgements under way at once: each has at most one request in flight."""
SANDBOX = "sandbox"
"""Shards of programs at once. Dialogues of a run with programs go to workers that have it, and use none of it up."""
Resources = Mapping[str, float]


class ClusterResources:
    """What the workers of a cluster declare, as its scheduler knows it now."""

    def __init__(self, client: Any) -> None:
        self._client = client
        told = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
        self._of: dict[str, Resources] = {
            address: dict(worker.get("resources") or {}) for address, worker in told.items()
        }
        self._most: dict[str, float] = {}
        for has in self._of.values():
            for name, amount in has.items():
                self._most[name] = max(amount, self._most.get(name, 0.0))

    def place(self, shard: object) -> dict[str, Any]:
        """How Dask is told what a shard asks for: never more than the largest worker has, since that would wait for ever."""
        asked = {
            name: min(amount, self._most[name])
            for name, amount in needs(shard).items()
            if name in self._most
        }
        return {"resources": asked} if asked else {}

    def submit(self, function: Callable[[Any], Any], shard: object, **where: Any) -> Any:
        """A future of the function's result on the shard, on a worker that has what the shard asks for.

        Args:
            where: what else Dask is told: workers, priority.
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
        """Those of the workers that have what a shard asks for."""
        asked: Resources = self.place(shard).get("resources", {})
        return tuple(
            worker
            for worker in workers
            if all(self._of.get(worker, {}).get(name, -1.0) >= asked[name] for name in asked)
        )


def needs(shard: object) -> Resources:
    """What a shard asks for."""
    if isinstance(shard, ConverseShard):
        has_programs = shard.context.spec.sandbox != NO_SANDBOX
        return {MODEL_CALLS: len(shard.episodes), **({SANDBOX: 0} if has_programs else {})}
    if isinstance(shard, ExecuteShard | AuditShard):
        return {SANDBOX: 1}
    if isinstance(shard, JudgeShard):
        return {MODEL_CALLS: len(shard.jobs)}
    return {}
