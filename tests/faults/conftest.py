"""The standing Prefect server of the command-line tests, here too."""

from tests.flows.conftest import served_home as served_home
from tests.flows.conftest import server_url as server_url
from tests.flows.conftest import standing_home as standing_home
