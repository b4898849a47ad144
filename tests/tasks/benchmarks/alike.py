"""A benchmark whose score is a likeness: the cosine of the answer's vector and the reference's.

In the setting `worded` a participant goes by likeness, too: the user asks with the wording that is closest
to the problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from schemas.dialog import Role
from schemas.episode import Score, Step, StopReason
from tasks.benchmarks.advanced import CastRequest, Play, fenced_reference, scripted_chat
from tasks.benchmarks.contract import About, ScoreRequest, Scores, Setting, Staged
from tasks.dialogue.engine import Cast, Stop, Transcript
from tasks.language.embedding import TextVectors
from tasks.metrics.registry import metric
from tests.tasks.benchmarks import smallest

NAME, METRIC = "alike", "cosine"
OTHERS = tuple(f"Sentence {n} of those that no answer is like." for n in range(300))
"""More than one part of kept vectors holds."""
WEATHER = "Tell me of the weather in spring, of wind and of rain."


def stage(source: Path, dataset_version: str) -> Staged:
    """The rows of the smallest benchmark."""
    rows = smallest.stage(source, dataset_version)
    own = {"benchmark": NAME}
    dialogs = tuple(dialog.model_copy(update=own) for dialog in rows.dialogs)
    return replace(
        rows,
        dialogs=dialogs,
        problems=tuple(problem.model_copy(update=own) for problem in rows.problems),
    )


@metric(METRIC, version=1)
def cosine(vectors: Sequence[Sequence[float]]) -> float:
    """Cosine of the first two vectors, or 0 where another one is closer to the first."""
    answer, *others = vectors
    first, *rest = (sum(a * b for a, b in zip(answer, other, strict=True)) for other in others)
    return float(first) if first > max(rest) else 0.0


def texts_to_embed(request: ScoreRequest) -> Sequence[str]:
    """Answer, reference, and sentences that are to be less like the answer."""
    answer = request.played[0].episode.answer(1) or ""
    return (answer, fenced_reference(request.problem, 1), *OTHERS) if answer.strip() else ()


def score(request: ScoreRequest) -> Sequence[Score]:
    """The likeness; 0 where nothing was said."""
    (row,) = smallest.score(request)
    texts = texts_to_embed(request)
    value = cosine([request.vectors[text] for text in texts]) if texts else 0.0
    return (row.model_copy(update={"metric": METRIC, "value": value, "unscored_reason": None}),)


@dataclass(frozen=True)
class Choosing:
    """Asks once, with the closest wording."""

    problem: str
    vectors: TextVectors
    role: Role = Role.USER

    async def speak(self, transcript: Transcript) -> Step | Stop:
        """The wording that is most like the problem."""
        if transcript.turn > 1:
            return Stop(StopReason.FINISHED)
        wordings = (WEATHER, f"Please. {self.problem}")
        found = await self.vectors.find((self.problem, *wordings))
        return Step(
            turn=1,
            role=self.role,
            content=max(wordings, key=lambda text: found[text] @ found[self.problem]),
        )


def cast(request: CastRequest) -> Cast:
    """The user has vectors in `worded` alone."""
    participants = scripted_chat(request)
    return (
        participants
        if request.embedder is None
        else replace(participants, counterpart=Choosing(request.problem.prompt, request.embedder))
    )


BENCHMARK = replace(
    smallest.BENCHMARK,
    data=replace(smallest.BENCHMARK.data, stage=stage),
    about=About(name=NAME, version="1", title="Alike", paper="none"),
    settings={
        "ask": Setting(name="ask", help="one question", needs_embedder=True),
        "worded": Setting(name="worded", help="a user who chooses words", embedder_in_play=True),
        "plain": Setting(name="plain", help="one question, no vectors"),
    },
    play=Play(cast=cast),
    scores=Scores(metrics=(METRIC,), score=score, texts_to_embed=texts_to_embed),
)
