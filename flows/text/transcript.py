"""One episode as text to read: its messages and the tests' verdicts."""

from schemas.dialog import Role
from schemas.display import plain_text
from schemas.episode import Episode, Step
from schemas.errors import UsageError
from schemas.rows import from_arrow
from schemas.run import RunEpisode
from schemas.verdict import TestVerdict
from tasks.storage.home import Home
from tasks.storage.owed import read_episodes
from tasks.storage.parquet_store import Lake


def transcript_text(home: Home, beginning: str) -> str:
    """The episode whose id begins like this. Reads the lake, so that withheld runs can be looked at too.

    Raises:
        UsageError: no episode or several begin like this.
    """
    lake = Lake(home.lake)
    members = [m for m in lake.read("run_episodes", RunEpisode) if m.episode_id.startswith(beginning)]
    ids = {m.episode_id for m in members}
    if len(ids) != 1:
        problem = f"several episodes begin with {beginning!r}: give more of the id" if ids else f"no episode {beginning!r}"
        raise UsageError(f"{problem}. See `parley list episodes`")
    member = members[0]
    episode = read_episodes(lake, member.benchmark, member.model, ids)[member.episode_id]
    parts = [_head(episode)]
    verdicts = _verdicts(lake, member)
    for step in episode.steps:
        parts.append(_said(step))
        if step.role is Role.ASSISTANT:
            parts += [_verdict(v) for v in verdicts if v.turn == step.turn]
    if episode.error:
        parts.append(f"Stopped ({episode.stop_reason}): {episode.error}")
    return plain_text("\n".join(parts))


def _verdicts(lake: Lake, member: RunEpisode) -> list[TestVerdict]:
    parts = lake.parts("test_verdicts", benchmark=member.benchmark, model=member.model, run_id=member.run_id)
    return [v for v in from_arrow(lake.read_arrow("test_verdicts", parts), TestVerdict) if v.episode_id == member.episode_id]


def _head(episode: Episode) -> str:
    return (
        f"episode {episode.episode_id}\n"
        f"{episode.benchmark}.{episode.setting} · {episode.dataset_version} · {episode.problem_id} · sample {episode.sample}\n"
        f"model {episode.model} · {episode.stop_reason} · attempt {episode.attempt} · {episode.started_at}"
    )


def _said(step: Step) -> str:
    facts = [f"turn {step.turn}", step.role.value]
    if step.latency_s is not None:
        facts.append(f"{step.latency_s:.2f} s")
    if step.output_tokens is not None:
        facts.append(f"{step.input_tokens} + {step.output_tokens} tokens")
    if step.finish_reason:
        facts.append(step.finish_reason)
    return f"\n── {' · '.join(facts)} ──\n{step.content}"


def _verdict(verdict: TestVerdict) -> str:
    detail = "" if verdict.outcome.value == "passed" or not verdict.detail else "\n" + _indented(verdict.detail)
    return f"   [{verdict.outcome.value}] {verdict.instruction_id} (sandbox {verdict.sandbox}){detail}"


def _indented(text: str) -> str:
    return "\n".join(f"      {line}" for line in text.strip().splitlines())
