"""Choice of the model that speaks as the user, and its sampling."""

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

    A request may name a simulator that its setting does not need: a night has settings of both kinds.

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
            f"{benchmark.name}.{setting} has a model speak in the user's place. Name it by --simulator PROVIDER:MODEL"
            f" (`simulator` in a night's configuration), for example --simulator {request.model.spec}"
        )
    return choose(request.simulator, resumed.simulator if resumed else None, home)


def own_sampling(simulator: ModelRequest | None) -> Sampling | None:
    """Return the request's sampling of the simulator. Without one, the setting decides: None."""
    stated = simulator.sampling if simulator else Sampling()
    return None if stated == Sampling() else stated
