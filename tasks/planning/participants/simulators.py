"""Choice of the model that simulates the user, and its sampling."""

from schemas.errors import ConfigError
from schemas.run import RunSpec, Sampling
from tasks.benchmarks.contract import Benchmark
from tasks.language.model_spec import ModelChoice
from tasks.planning.participants.choice import choose
from tasks.planning.request import EvaluationRequest, ModelRequest
from tasks.storage.home import Home


def choose_simulator(
    request: EvaluationRequest,
    benchmark: Benchmark,
    setting: str,
    resumed: RunSpec | None,
    home: Home,
) -> ModelChoice | None:
    """Return the simulator, or None if the setting needs none.

    A request may name a simulator that its setting does not need, because a night may have settings
    of both kinds.

    Raises:
        ConfigError: the setting needs a simulator, and the request names none.
    """
    if not benchmark.setting(setting).needs_simulator:
        return None
    if request.simulator is None:
        knows_answers = request.model.agent is None and not request.model.converses
        if knows_answers and benchmark.setting(setting).plays_known_answers_alone:
            return None
        raise ConfigError(
            f"{benchmark.name}.{setting} needs a model that simulates the user. Name it with "
            "--simulator PROVIDER:MODEL (`simulator` in a night's configuration), for example "
            f"--simulator {request.model.spec}"
        )
    return choose(request.simulator, resumed.simulator if resumed else None, home)


def own_sampling(simulator: ModelRequest | None) -> Sampling | None:
    """Return the simulator's sampling if the request sets one; None if the setting decides."""
    sampling = simulator.sampling if simulator else Sampling()
    return None if sampling == Sampling() else sampling
