"""`parley export inspect`: a run as a log of Inspect AI, written by its own writer, for `inspect view` and its data frames."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from schemas.dialog import Role
from schemas.episode import Episode, Step, StepKind, StopReason
from schemas.errors import UsageError
from schemas.lake.records import RunEpisode, RunRecord
from schemas.run import RunSpec
from schemas.score import Score
from schemas.verdict import JudgeVerdict, Outcome, TestVerdict
from tasks.planning.known_runs import find_run
from tasks.storage.audited import read_verdicts
from tasks.storage.home import Home
from tasks.storage.new_folder import new_folder
from tasks.storage.owed import read_episodes
from tasks.storage.parquet_store import Lake
from warehouse.connect import query

NAME = "inspect"
_STOPS = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
}
TESTS = "tests"
"""Name of the score that holds the tests of a sample: how many ended in each way, with their output."""


def export_inspect(home: Home, run_ids: Sequence[str], out: Path) -> int:
    """Write a log for each run into a new folder; returns how many samples they hold.

    Raises:
        UsageError: inspect_ai is not installed, no such run, an unfinished one, or a folder that holds files.
    """
    if find_spec("inspect_ai") is None:
        raise UsageError(
            "inspect_ai is not installed: make inspect, or pip install 'parley-eval[inspect]'"
        )
    lake = Lake(home.lake)
    records = [find_run(lake, run_id) for run_id in run_ids]
    for record in records:
        if record.status == "incomplete":
            raise UsageError(
                f"run {record.run_id} is not finished: type its command again, then export it"
            )
    n_samples = 0
    with new_folder(out, lambda path: False, replace=False) as folder:
        for record in records:
            log = _Log(home, lake, record).made()
            import_module("inspect_ai.log").write_eval_log(
                log, str(folder / _file_name(record)), format="eval"
            )
            n_samples += len(log.samples)
    return n_samples


def _file_name(record: RunRecord) -> str:
    """As Inspect names its logs, so that its viewer sorts them by time."""
    task = "".join(c if c.isalnum() else "-" for c in record.setting).strip("-")
    return f"{record.started_at.replace(':', '-').replace('Z', '+00-00')}_{task}_{record.run_id[:22]}.eval"


class _Log:
    """One run in Inspect's types."""

    def __init__(self, home: Home, lake: Lake, record: RunRecord) -> None:
        self._home, self._lake, self._record = home, lake, record
        self._spec = RunSpec.model_validate_json(record.spec_json)
        self._log, self._model = import_module("inspect_ai.log"), import_module("inspect_ai.model")
        self._scorer, self._tool = (
            import_module("inspect_ai.scorer"),
            import_module("inspect_ai.tool"),
        )

    def made(self) -> Any:
        keys = {
            "benchmark": self._record.benchmark,
            "model": self._record.model,
            "run_id": self._record.run_id,
        }
        members = self._lake.read("run_episodes", RunEpisode, **keys)
        ids = [member.episode_id for member in members]
        episodes = read_episodes(self._lake, self._record.benchmark, self._record.model, ids)
        scores = _by_episode(self._lake.read("scores", Score, **keys))
        tests = _by_episode(read_verdicts(self._lake, **keys))
        ratings = _by_episode(self._lake.read("judge_verdicts", JudgeVerdict, **keys))
        found = [episodes[one] for one in ids if one in episodes]
        samples = [
            self._sample(
                one,
                scores.get(one.episode_id, ()),
                tests.get(one.episode_id, ()),
                ratings.get(one.episode_id, ()),
            )
            for one in sorted(
                found, key=lambda episode: (episode.problem_id, episode.dialog_id, episode.sample)
            )
        ]
        record, log = self._record, self._log
        usage = self._usage_of(found, (one for rows in ratings.values() for one in rows))
        return log.EvalLog(
            status="success",
            eval=self._eval(sorted({episode.dialog_id for episode in found})),
            results=self._results(len(samples), sum(episode.is_final for episode in found)),
            stats=log.EvalStats(
                started_at=record.started_at, completed_at=record.finished_at, **usage
            ),
            samples=samples,
        )

    def _eval(self, dialogs: list[str]) -> Any:
        record, log = self._record, self._log
        facts = (
            "night_id",
            "revision",
            "sandbox",
            "isolated",
            "withheld_reason",
            "n_infra",
            "n_unscored",
            "task_share",
        )
        return log.EvalSpec(
            run_id=record.run_id,
            created=record.started_at,
            task=record.setting,
            task_id=record.run_id,
            task_args=dict(self._spec.episode_options + self._spec.scoring_options),
            dataset=log.EvalDataset(
                name=record.dataset_version, samples=len(dialogs), sample_ids=list(dialogs)
            ),
            model=_inspect_name(record.model),
            config=log.EvalConfig(epochs=record.samples),
            packages={"parley-eval": record.parley_version},
            metadata={name: getattr(record, name) for name in facts}
            | {"spec": json.loads(record.spec_json)},
        )

    def _results(self, n_samples: int, n_final: int) -> Any:
        """The leaderboard's rows of a published run; a withheld run has none."""
        log = self._log
        published = self._home.warehouse.exists()
        columns, rows = (
            query(self._home.path, _LEADERBOARD, {"run": self._record.run_id})
            if published
            else ((), [])
        )
        scores: list[Any] = []
        for row in (dict(zip(columns, values, strict=True)) for values in rows):
            known = {
                name: value for name, value in row.items() if name != "metric" and value is not None
            }
            metrics = {
                name: log.EvalMetric(name=name, value=value) for name, value in known.items()
            }
            scores.append(log.EvalScore(name=row["metric"], scorer=row["metric"], metrics=metrics))
        return log.EvalResults(total_samples=n_samples, completed_samples=n_final, scores=scores)

    def _sample(
        self,
        episode: Episode,
        scores: Sequence[Score],
        tests: Sequence[TestVerdict],
        ratings: Sequence[JudgeVerdict],
    ) -> Any:
        said = list(self._messages(episode))
        messages = [message for _, message in said]
        spoken = [step for step in episode.messages if step.role is Role.ASSISTANT]
        stop = _STOPS.get(spoken[-1].finish_reason or "", "unknown") if spoken else "unknown"
        output = self._model.ModelOutput.from_content(
            model=_inspect_name(episode.model),
            content=spoken[-1].content if spoken else "",
            stop_reason=stop,
            error=episode.error,
        )
        faulty = episode.stop_reason is StopReason.INFRA and episode.error is not None
        error = (
            {"message": episode.error, "traceback": "", "traceback_ansi": ""} if faulty else None
        )
        hidden = [
            {"turn": s.turn, "content": s.content}
            for s in episode.steps
            if s.kind is StepKind.ARTIFACT
        ]
        facts = (
            "episode_id",
            "problem_id",
            "dialog_id",
            "attempt",
            "seed",
            "started_at",
            "finished_at",
            "row_digest",
        )
        return self._log.EvalSample(
            id=episode.dialog_id,
            epoch=episode.sample + 1,
            input=[message for message in messages if message.role in ("system", "user")][:1],
            target="",
            messages=messages,
            events=list(self._events(episode, said)),
            output=output,
            scores=dict(self._scores(scores, tests, ratings)),
            metadata={
                **{name: getattr(episode, name) for name in facts},
                "stop_reason": episode.stop_reason.value,
                "paid_by_run_id": episode.run_id,
                "unscored": [
                    one.model_dump(mode="json", include=_UNSCORED)
                    for one in scores
                    if one.value is None
                ],
                "artifacts": hidden,
            },
            error=error,
            **self._usage_of([episode], ratings),
        )

    def _events(self, episode: Episode, said: Iterable[tuple[Step, Any]]) -> Iterator[Any]:
        """A call of the model for each answer, with tokens and latency; its input is what was said since the answer before."""
        new: list[Any] = []
        began, waited = datetime.fromisoformat(episode.started_at), 0.0
        for position, (step, message) in enumerate(said):
            new.append(message)
            if step.role is not Role.ASSISTANT or step.is_scripted:
                continue
            choice = self._model.ChatCompletionChoice(
                message=message, stop_reason=_STOPS.get(step.finish_reason or "", "unknown")
            )
            name = _inspect_name(episode.model)
            yield self._log.ModelEvent(
                timestamp=began + timedelta(seconds=waited),
                working_start=waited,
                uuid=f"{episode.episode_id[:16]}-call-{position}",
                model=name,
                input=new[:-1],
                tools=[],
                tool_choice="auto",
                config=self._model.GenerateConfig(),
                output=self._model.ModelOutput(
                    model=name, choices=[choice], usage=self._tokens([step]), time=step.latency_s
                ),
            )
            new = []
            waited += step.latency_s or 0.0

    def _tokens(self, steps: Sequence[Step | JudgeVerdict]) -> Any:
        """Their sum; None where one was not counted: a part of a sum is no sum."""
        counts = [(step.input_tokens, step.output_tokens) for step in steps]
        if not counts or any(a is None or b is None for a, b in counts):
            return None
        thoughts = [step.reasoning_tokens for step in steps]
        told, said = sum(a or 0 for a, _ in counts), sum(b or 0 for _, b in counts)
        of_thoughts = None if None in thoughts else sum(one or 0 for one in thoughts)
        return self._model.ModelUsage(
            input_tokens=told,
            output_tokens=said,
            total_tokens=told + said,
            reasoning_tokens=of_thoughts,
        )

    def _content(self, step: Step) -> Any:
        """Return an answer's text; with the model's thoughts before it, as Inspect keeps them, where there are any."""
        if not step.reasoning:
            return step.content
        return [
            self._model.ContentReasoning(reasoning=step.reasoning),
            self._model.ContentText(text=step.content),
        ]

    def _messages(self, episode: Episode) -> Iterator[tuple[Step, Any]]:
        """All steps but artifacts, which nobody was shown: these are metadata."""
        model = self._model
        for position, step in enumerate(episode.steps):
            named = {"id": f"{episode.episode_id[:16]}-{position}"}
            if step.kind is StepKind.ARTIFACT:
                continue
            if step.kind is StepKind.OBSERVATION or step.role is Role.TOOL:
                yield (
                    step,
                    model.ChatMessageTool(content=step.content, tool_call_id=step.call_id, **named),
                )
            elif step.role is Role.ASSISTANT:
                calls = [self._call(one.call_id, one.name, one.arguments) for one in step.calls]
                content = self._content(step)
                yield (
                    step,
                    model.ChatMessageAssistant(
                        content=content, tool_calls=calls or None, source="generate", **named
                    ),
                )
            elif step.role is Role.SYSTEM:
                yield step, model.ChatMessageSystem(content=step.content, **named)
            else:
                yield step, model.ChatMessageUser(content=step.content, **named)

    def _call(self, call_id: str, name: str, arguments: str) -> Any:
        try:
            parsed, fault = json.loads(arguments), None
        except ValueError as error:
            parsed, fault = None, str(error)
        known = parsed if isinstance(parsed, dict) else {"arguments": arguments}
        return self._tool.ToolCall(
            id=call_id, function=name, arguments=known, type="function", parse_error=fault
        )

    def _scores(
        self, scores: Sequence[Score], tests: Sequence[TestVerdict], ratings: Sequence[JudgeVerdict]
    ) -> Iterator[tuple[str, Any]]:
        """Each metric by its mean over the dialogue; what has no value is in the sample's metadata, and is no score."""
        made = self._scorer.Score
        for metric in dict.fromkeys(one.metric for one in scores):
            rows = [one for one in scores if one.metric == metric]
            values = [one.value for one in rows if one.value is not None]
            if values:
                told = [
                    one.model_dump(
                        mode="json", include={"turn", "instruction_id", "value", "unscored_reason"}
                    )
                    for one in rows
                ]
                yield (
                    metric,
                    made(
                        value=sum(values) / len(values), metadata={"values": told, "n": len(values)}
                    ),
                )
        if tests:
            counted = {
                outcome.value: sum(one.outcome is outcome for one in tests) for outcome in Outcome
            }
            fields = {
                "turn",
                "instruction_id",
                "outcome",
                "reason",
                "detail",
                "duration_s",
                "n_cases",
                "n_passed",
            }
            output = "\n\n".join(
                f"turn {t.turn}, {t.instruction_id}: {t.outcome.value}\n{t.detail}".strip()
                for t in tests
            )
            rows = [one.model_dump(mode="json", include=fields) for one in tests]
            yield TESTS, made(value=counted, explanation=output, metadata={"tests": rows})
        for rubric in dict.fromkeys(one.rubric for one in ratings):
            rated = [one for one in ratings if one.rubric == rubric]
            told = [
                one.model_dump(mode="json", exclude={"run_id", "benchmark", "model", "episode_id"})
                for one in rated
            ]
            in_turns = len({one.turn for one in rated}) > 1
            names = [
                f"turn {one.turn}: {one.dimension}" if in_turns else one.dimension for one in rated
            ]
            values = {
                name: one.label if one.value is None else one.value
                for name, one in zip(names, rated, strict=True)
            }
            known = {name: value for name, value in values.items() if value is not None}
            if known:
                reasons = "\n\n".join(dict.fromkeys(one.raw for one in rated if one.raw))
                yield (
                    f"judge {rubric}".strip(),
                    made(value=known, explanation=reasons, metadata={"ratings": told}),
                )

    def _usage_of(
        self, episodes: Sequence[Episode], ratings: Iterable[JudgeVerdict]
    ) -> dict[str, dict[str, Any]]:
        """Tokens by model and by role (`subject`, `simulator`, `judge RUBRIC`), each under the name of its field.

        A role with an answer that nobody counted has none, and neither has its model: a part of a sum is no sum.
        """
        judgements = {
            (one.rubric, one.judge, one.judgement_id): one for one in ratings if one.n_calls
        }
        steps = [step for one in episodes for step in one.steps if step.n_calls]
        simulator = self._spec.simulator.label if self._spec.simulator else ""
        calls: dict[tuple[str, str], list[Step | JudgeVerdict]] = {}
        for step in steps:
            if step.role is Role.ASSISTANT:
                calls.setdefault(("subject", self._record.model), []).append(step)
            elif step.role is Role.USER and simulator:
                calls.setdefault(("simulator", simulator), []).append(step)
        for (rubric, judge, _), one in judgements.items():
            calls.setdefault((f"judge {rubric}", judge), []).append(one)
        by_role, by_model = _grouped(calls, 0), _grouped(calls, 1)
        return {
            "role_usage": {
                name: found for name, of in by_role.items() if (found := self._tokens(of))
            },
            "model_usage": {
                _inspect_name(name): found
                for name, of in by_model.items()
                if (found := self._tokens(of))
            },
        }


def _grouped(
    calls: Mapping[tuple[str, str], Sequence[Step | JudgeVerdict]], at: int
) -> dict[str, list[Step | JudgeVerdict]]:
    found: dict[str, list[Step | JudgeVerdict]] = {}
    for names, members in calls.items():
        found.setdefault(names[at], []).extend(members)
    return found


_UNSCORED = {"turn", "instruction_id", "metric", "unscored_reason"}
_LEADERBOARD = """
select metric, mean, ci_low, ci_high, n, n_unscored, n_not_applicable from leaderboard where run_id = $run order by metric
"""


def _by_episode(rows: Iterable[Any]) -> Mapping[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.episode_id, []).append(row)
    return found


def _inspect_name(label: str) -> str:
    """`provider/name`, as Inspect writes models."""
    return label.replace(":", "/", 1)
