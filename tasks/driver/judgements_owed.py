"""Which judgements on the kept dialogues of a run are owed, before anything is started."""

from schemas.episode import Episode
from schemas.lake.rows import from_arrow
from tasks.driver.judging import Judgements, by_episode
from tasks.planning.plan import RunPlan
from tasks.storage.audited import read_verdicts
from tasks.worker.jobs import JudgeJob


def owed_judgements(plan: RunPlan) -> list[JudgeJob]:
    """Judgements that must still be asked for, each once; dialogues that are owed themselves have none yet.

    A rubric that reads verdicts is taken at the verdicts that are kept: where tests are still to run, another judgement follows.
    """
    if not plan.judges:
        return []
    judgements = Judgements(plan)
    episodes = from_arrow(plan.episodes.rows(wanted.episode_id for wanted in plan.members), Episode)
    verdicts = by_episode(read_verdicts(plan.lake, **plan.keys))
    wanted = judgements.wanted(episodes, verdicts, all_rubrics=True)
    return judgements.owed(wanted, judgements.known())
