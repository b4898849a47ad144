"""The standing Prefect server and worker of the command-line tests, here too."""

from tests.flows.conftest import dask_address as dask_address
from tests.flows.conftest import server_url as server_url
from tests.flows.conftest import standing_home as standing_home
