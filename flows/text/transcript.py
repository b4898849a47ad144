"""Transcript of one episode: its messages, the verdicts of its tests and its ratings."""

from collections.abc import Iterator

from flows.text.comparison import decision_line
from schemas.audit import AuditOutcome, ForgeryAudit
from schemas.dialog import Dialog, Role
from schemas.episode import Episode, Step, StepKind
from schemas.errors import UsageError
from schemas.lake.records import RunEpisode, RunRecord
from schemas.night.decision import Decision
from schemas.outside.display import dialogue_name, plain_text
from schemas.verdict import JudgeVerdict, TestVerdict
from tasks.dialogue.reviewed_subject import draft_note
from tasks.storage.home import Home
from tasks.storage.parquet_store import Lake, run_keys
from tasks.storage.run_rows import read_episodes, read_verdicts
from tasks.storage.staged_rows import context_of

SHOWN_OF_AN_END = 1000
"""Number of characters that a transcript shows at each end of a long observation."""
SHOWN_OF_AN_ID = 80
"""Number of characters that a transcript shows of a call's id, which may hold a signature."""
SHOWN_OF_A_THOUGHT = 200
"""Number of characters that a transcript shows of the first line of a model's reasoning."""


def transcript_text(home: Home, prefix: str) -> str:
    """Return the transcript of an episode. Steps have the numbers of the table `steps`.

    The episode is read from the lake, because the warehouse does not contain withheld runs.

    Args:
        home: Parley's home.
        prefix: the episode's id, or its first characters.

    Raises:
        UsageError: no episode matches, or several do.
    """
    lake = Lake(home.lake)
    members = [m for m in lake.read("run_episodes", RunEpisode) if m.episode_id.startswith(prefix)]
    ids = {m.episode_id for m in members}
    if len(ids) != 1:
        problem = (
            f"several episodes begin with {prefix!r}. Type more characters of the id"
            if ids
            else f"no episode begins with {prefix!r}"
        )
        raise UsageError(f"{problem}. `parley list episodes` shows all ids")
    # Several runs can contain an episode. Prefer an audited and judged run.
    member = max(members, key=lambda m: bool(_audits(lake, m)) + bool(_ratings(lake, m)))
    episode = read_episodes(lake, member.benchmark, member.model, ids)[member.episode_id]
    parts = [*_head(lake, episode, member)]
    parts += [step_text(step, "context") for step in _before(lake, episode)]
    verdicts, audits = _verdicts(lake, member), _audits(lake, member)
    ratings = _ratings(lake, member)
    for position, step in enumerate(episode.steps):
        parts.append(
            step_text(step, f"step {position + 1}", note=draft_note(episode.steps, position))
        )
        if step.role is Role.ASSISTANT and step.kind is StepKind.MESSAGE:
            parts += [
                _verdict(v, audits.get((v.turn, v.instruction_id)))
                for v in verdicts
                if v.turn == step.turn
            ]
            parts += ratings.pop(step.turn, [])
    for turn, lines in ratings.items():
        parts += [f"\n── {f'turn {turn}' if turn else 'the whole dialogue'} ──", *lines]
    if episode.error:
        parts.append(f"Stopped ({episode.stop_reason}): {episode.error}")
    return plain_text("\n".join(parts))


def _before(lake: Lake, episode: Episode) -> tuple[Step, ...]:
    """Return the messages of the dialogue's context, which precede the episode's own messages."""
    keys = {"benchmark": episode.benchmark, "dataset_version": episode.dataset_version}
    if not lake.parts("contexts", **keys):
        return ()
    for dialog in lake.read("dialogs", Dialog, **keys):
        if (dialog.dialog_id, dialog.row_digest) == (episode.dialog_id, episode.row_digest):
            return tuple(
                Step(turn=turn.turn, role=turn.role, content=turn.content or "")
                for turn in context_of(lake, dialog)
            )
    return ()


def _verdicts(lake: Lake, member: RunEpisode) -> list[TestVerdict]:
    return [
        verdict
        for verdict in read_verdicts(lake, **run_keys(member))
        if verdict.episode_id == member.episode_id
    ]


def _ratings(lake: Lake, member: RunEpisode) -> dict[int, list[str]]:
    """Return a line for each rating, by turn. Turn 0 stands for the whole dialogue."""
    lines: dict[int, list[str]] = {}
    for row in lake.read("judge_verdicts", JudgeVerdict, **run_keys(member)):
        if row.episode_id == member.episode_id:
            value = row.label if row.value is None else f"{row.value:g}"
            shown = f"unscored: {row.unscored_reason}" if value is None else f"rated {value}"
            name = " · ".join(filter(None, (row.rubric, row.dimension)))
            lines.setdefault(row.turn, []).append(f"   [{shown}] {name} (judge {row.judge})")
    return lines


def _audits(lake: Lake, member: RunEpisode) -> dict[tuple[int, str], ForgeryAudit]:
    rows = lake.read("forgery_audit", ForgeryAudit, **run_keys(member))
    return {
        (row.turn, row.instruction_id): row for row in rows if row.episode_id == member.episode_id
    }


def _head(lake: Lake, episode: Episode, member: RunEpisode) -> Iterator[str]:
    """Yield the facts about an episode, its run's status unless finished, and early decisions.

    An unfinished run has no record.
    """
    record = next(iter(lake.read("runs", RunRecord, **run_keys(member))), None)
    share = record.task_share if record else None
    task_share = "" if share is None else f" · run with {share:.1%} of the tasks"
    setting = f"{episode.benchmark}.{episode.setting} · {episode.dataset_version}"
    dialogue = dialogue_name(episode.problem_id, episode.dialog_id)
    yield (
        f"episode {episode.episode_id}\n"
        f"{setting} · {dialogue} · sample {episode.sample}{task_share}\n"
        f"model {episode.model} · {episode.stop_reason} · attempt {episode.attempt} ·"
        f" {episode.started_at}"
    )
    if record is not None:
        if record.status != "finished":
            yield f"run {record.run_id[:12]}: {record.status}: {record.withheld_reason}"
        for row in lake.read("decisions", Decision, **run_keys(member)):
            yield decision_line({**row.model_dump(), "setting": record.setting})


def step_text(step: Step, *facts_before: str, note: str = "") -> str:
    """Return the text of a step after its facts. Messages are complete, other texts are clipped.

    Args:
        step: the step.
        facts_before: facts to print first.
        note: outcome of a draft.
    """
    facts = [
        *facts_before,
        f"turn {step.turn}",
        step.role.value,
        *([] if step.kind is StepKind.MESSAGE else [step.kind.replace("_", " ")]),
    ]
    facts += [note] * bool(note) + ["scripted"] * step.is_scripted
    if step.latency_s is not None:
        facts.append(f"{step.latency_s:.2f} s")
    if step.output_tokens is not None:
        facts.append(f"{step.input_tokens} + {step.output_tokens} tokens")
    if step.reasoning_tokens:
        facts.append(f"{step.reasoning_tokens} of them reasoning")
    if step.finish_reason:
        facts.append(step.finish_reason)
    if step.call_id is not None:
        facts.append(step.call_id[:SHOWN_OF_AN_ID])
    if step.tree is not None:
        facts.append(f"tree {step.tree[:12]}")
    content = step.content if step.kind is StepKind.MESSAGE else clipped(step.content)
    calls = [
        f"→ {call.name} ({call.call_id[:SHOWN_OF_AN_ID]}): {clipped(call.arguments)}"
        for call in step.calls
    ]
    reasoning = [f"[reasoning] {folded(step.reasoning)}"] if step.reasoning else []
    return "\n".join(
        (
            f"\n── {' · '.join(facts)} ──",
            *reasoning,
            *([content] if content or not calls else []),
            *calls,
        )
    )


def folded(reasoning: str) -> str:
    """Return the first line of a model's reasoning; `turns.reasoning` holds all lines."""
    first, *more = reasoning.strip().splitlines() or [""]
    head = first if len(first) <= SHOWN_OF_A_THOUGHT else f"{first[:SHOWN_OF_A_THOUGHT]} …"
    return f"{head} (and {len(more)} more lines, see turns.reasoning)" if more else head


def clipped(text: str) -> str:
    """Return a step's text. The middle of a long text is left out; `parley sql` shows all of it."""
    left_out = len(text) - 2 * SHOWN_OF_AN_END
    if left_out <= 0:
        return text
    return (
        f"{text[:SHOWN_OF_AN_END]}\n… {left_out} characters left out …\n{text[-SHOWN_OF_AN_END:]}"
    )


def _verdict(verdict: TestVerdict, audit: ForgeryAudit | None) -> str:
    detail = (
        ""
        if verdict.outcome.value == "passed" or not verdict.detail
        else "\n" + _indented(verdict.detail)
    )
    plain = (
        ""
        if verdict.plain_outcome is verdict.outcome
        else f", {verdict.plain_outcome.value} before the audit"
    )
    head = (
        f"   [{verdict.outcome.value}] {verdict.instruction_id} (sandbox"
        f" {verdict.sandbox}{plain}){detail}"
    )
    return head if audit is None else f"{head}\n{_indented(_audit_text(audit))}"


def _audit_text(audit: ForgeryAudit) -> str:
    ends = {
        AuditOutcome.EARNED: f"earned: the tests fail with {audit.decoy}",
        AuditOutcome.FORGED: f"forged: {audit.detail}",
        AuditOutcome.SUSPECTED: f"suspected: the tests also pass with {audit.decoy}",
        AuditOutcome.NO_DECOY: f"no decoy: {audit.detail}",
    }
    return f"audit: {ends[audit.outcome]}"


def _indented(text: str) -> str:
    return "\n".join(f"      {line}" for line in text.strip().splitlines())
