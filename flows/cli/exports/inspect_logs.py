"""Export of runs as Inspect AI logs, for `inspect view` and Inspect's data frames.

Inspect's own writer writes the files.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flows.cli.exports.inspect_scores import sample_scores
from flows.cli.exports.stored_run import StoredRun
from flows.text.records import as_records
from schemas.dialog import Role
from schemas.episode import Episode, Score, Step, StepKind, StopReason, by_episode
from schemas.errors import UsageError
from schemas.lake.records import RunRecord
from schemas.verdict import JudgeVerdict, TestVerdict
from tasks.storage.home import Home
from tasks.storage.new_folder import new_folder
from tasks.storage.run_rows import read_verdicts
from warehouse.connect import Rows, query

_STOPS = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
}


def export_inspect(home: Home, run_ids: Sequence[str], out: Path) -> int:
    """Write a log for each run into a new folder, and return the total number of samples.

    Raises:
        UsageError: inspect_ai is not installed, a run does not exist or is unfinished, or `out`
            holds files.
    """
    if find_spec("inspect_ai") is None:
        raise UsageError(
            "inspect_ai is not installed. Run `make inspect`, or pip install 'parley-eval[inspect]'"
        )
    runs = [StoredRun.find(home, run_id) for run_id in run_ids]
    for run in runs:
        run.require_complete()
    n_samples = 0
    with new_folder(out) as folder:
        for run in runs:
            log = _Log(home, run).build()
            import_module("inspect_ai.log").write_eval_log(
                log, str(folder / _file_name(run.record)), format="eval"
            )
            n_samples += len(log.samples)
    return n_samples


def _file_name(record: RunRecord) -> str:
    """Return a file name in Inspect's form, by which Inspect's viewer sorts logs by time."""
    task = "".join(c if c.isalnum() else "-" for c in record.setting).strip("-")
    started = record.started_at.replace(":", "-").replace("Z", "+00-00")
    return f"{started}_{task}_{record.run_id[:22]}.eval"


class _Log:
    """Conversion of one run to Inspect's types."""

    def __init__(self, home: Home, run: StoredRun) -> None:
        self._home, self._run, self._record, self._spec = home, run, run.record, run.spec
        self._event, self._log, self._model, self._scorer, self._tool = (
            import_module(f"inspect_ai.{name}")
            for name in ("event", "log", "model", "scorer", "tool")
        )

    def build(self) -> Any:
        """Return the run as an `EvalLog`."""
        lake, keys, episodes = self._run.lake, self._run.keys, self._run.episodes()
        scores = by_episode(lake.read("scores", Score, **keys))
        tests = by_episode(read_verdicts(lake, **keys))
        ratings = by_episode(lake.read("judge_verdicts", JudgeVerdict, **keys))
        ids = [member.episode_id for member in self._run.members()]
        played = [episodes[episode_id] for episode_id in ids if episode_id in episodes]
        samples = [
            self._sample(
                episode,
                scores.get(episode.episode_id, ()),
                tests.get(episode.episode_id, ()),
                ratings.get(episode.episode_id, ()),
            )
            for episode in sorted(
                played, key=lambda episode: (episode.problem_id, episode.dialog_id, episode.sample)
            )
        ]
        record, log = self._record, self._log
        usage = self._usage_of(played, (rating for rows in ratings.values() for rating in rows))
        return log.EvalLog(
            status="success",
            eval=self._eval(sorted({episode.dialog_id for episode in played})),
            results=self._results(len(samples), sum(episode.is_final for episode in played)),
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
        """Return the rows of the table `leaderboard` about this run. A withheld run has no rows."""
        log = self._log
        rows: Rows = ((), [])
        if self._home.warehouse.exists():
            rows = query(self._home.path, _LEADERBOARD, {"run": self._record.run_id})
        scores: list[Any] = []
        for row in as_records(*rows):
            metric = row.pop("metric")
            metrics = {
                name: log.EvalMetric(name=name, value=value)
                for name, value in row.items()
                if value is not None
            }
            scores.append(log.EvalScore(name=metric, scorer=metric, metrics=metrics))
        return log.EvalResults(total_samples=n_samples, completed_samples=n_final, scores=scores)

    def _sample(
        self,
        episode: Episode,
        scores: Sequence[Score],
        tests: Sequence[TestVerdict],
        ratings: Sequence[JudgeVerdict],
    ) -> Any:
        timeline = list(self._messages(episode))
        messages = [message for _, message in timeline]
        answers = [step for step in episode.messages if step.role is Role.ASSISTANT]
        stop = _STOPS.get(answers[-1].finish_reason or "", "unknown") if answers else "unknown"
        output = self._model.ModelOutput.from_content(
            model=_inspect_name(episode.model),
            content=answers[-1].content if answers else "",
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
            events=list(self._events(episode, timeline)),
            output=output,
            scores=dict(sample_scores(self._scorer.Score, scores, tests, ratings)),
            metadata={
                **{name: getattr(episode, name) for name in facts},
                "stop_reason": episode.stop_reason.value,
                "paid_by_run_id": episode.run_id,
                "unscored": [
                    score.model_dump(mode="json", include=_UNSCORED)
                    for score in scores
                    if score.value is None
                ],
                "artifacts": hidden,
            },
            error=error,
            **self._usage_of([episode], ratings),
        )

    def _events(self, episode: Episode, timeline: Iterable[tuple[Step, Any]]) -> Iterator[Any]:
        """Yield a model call for each answer, with tokens and latency.

        A call's input is the messages since the previous answer.
        """
        new: list[Any] = []
        began, waited = datetime.fromisoformat(episode.started_at), 0.0
        for position, (step, message) in enumerate(timeline):
            new.append(message)
            if step.role is not Role.ASSISTANT or step.is_scripted:
                continue
            choice = self._model.ChatCompletionChoice(
                message=message, stop_reason=_STOPS.get(step.finish_reason or "", "unknown")
            )
            name = _inspect_name(episode.model)
            yield self._event.ModelEvent(
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
        """Return the token sums of the steps, or None if one step has no count."""
        counts = [(step.input_tokens, step.output_tokens) for step in steps]
        if not counts or any(a is None or b is None for a, b in counts):
            return None
        reasoning = [step.reasoning_tokens for step in steps]
        n_input, n_output = sum(a or 0 for a, _ in counts), sum(b or 0 for _, b in counts)
        n_reasoning = None if None in reasoning else sum(n or 0 for n in reasoning)
        return self._model.ModelUsage(
            input_tokens=n_input,
            output_tokens=n_output,
            total_tokens=n_input + n_output,
            reasoning_tokens=n_reasoning,
        )

    def _content(self, step: Step) -> Any:
        """Return an answer's text, preceded by the model's reasoning if there is any."""
        if not step.reasoning:
            return step.content
        return [
            self._model.ContentReasoning(reasoning=step.reasoning),
            self._model.ContentText(text=step.content),
        ]

    def _messages(self, episode: Episode) -> Iterator[tuple[Step, Any]]:
        """Yield a message for each step except artifacts.

        No participant saw an artifact, so artifacts are in the sample's metadata.
        """
        model = self._model
        for position, step in enumerate(episode.steps):
            ids = {"id": f"{episode.episode_id[:16]}-{position}"}
            if step.kind is StepKind.ARTIFACT:
                continue
            if step.kind is StepKind.OBSERVATION or step.role is Role.TOOL:
                yield (
                    step,
                    model.ChatMessageTool(content=step.content, tool_call_id=step.call_id, **ids),
                )
            elif step.role is Role.ASSISTANT:
                calls = [self._call(call.call_id, call.name, call.arguments) for call in step.calls]
                content = self._content(step)
                yield (
                    step,
                    model.ChatMessageAssistant(
                        content=content, tool_calls=calls or None, source="generate", **ids
                    ),
                )
            elif step.role is Role.SYSTEM:
                yield step, model.ChatMessageSystem(content=step.content, **ids)
            else:
                yield step, model.ChatMessageUser(content=step.content, **ids)

    def _call(self, call_id: str, name: str, arguments: str) -> Any:
        try:
            parsed, fault = json.loads(arguments), None
        except ValueError as error:
            parsed, fault = None, str(error)
        values = parsed if isinstance(parsed, dict) else {"arguments": arguments}
        return self._tool.ToolCall(
            id=call_id, function=name, arguments=values, type="function", parse_error=fault
        )

    def _usage_of(
        self, episodes: Sequence[Episode], ratings: Iterable[JudgeVerdict]
    ) -> dict[str, dict[str, Any]]:
        """Return token counts by role (`subject`, `simulator`, `judge RUBRIC`) and by model.

        A role or model is omitted if one of its answers has no token count.
        """
        judgements = {
            (rating.rubric, rating.judge, rating.judgement_id): rating
            for rating in ratings
            if rating.n_calls
        }
        steps = [step for episode in episodes for step in episode.steps if step.n_calls]
        simulator = self._spec.simulator.label if self._spec.simulator else ""
        by_role: defaultdict[str, list[Step | JudgeVerdict]] = defaultdict(list)
        by_model: defaultdict[str, list[Step | JudgeVerdict]] = defaultdict(list)

        def count(role: str, model: str, call: Step | JudgeVerdict) -> None:
            by_role[role].append(call)
            by_model[_inspect_name(model)].append(call)

        for step in steps:
            if step.role is Role.ASSISTANT:
                count("subject", self._record.model, step)
            elif step.role is Role.USER and simulator:
                count("simulator", simulator, step)
        for (rubric, judge, _), rating in judgements.items():
            count(f"judge {rubric}", judge, rating)
        return {
            name: {key: usage for key, calls in groups.items() if (usage := self._tokens(calls))}
            for name, groups in (("role_usage", by_role), ("model_usage", by_model))
        }


_UNSCORED = {"turn", "instruction_id", "metric", "unscored_reason"}
_LEADERBOARD = """
select metric, mean, ci_low, ci_high, n, n_unscored, n_not_applicable
from leaderboard
where run_id = $run
order by metric
"""


def _inspect_name(label: str) -> str:
    """Return the model's name in Inspect's form, `provider/name`."""
    return label.replace(":", "/", 1)
