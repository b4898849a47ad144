"""What everything else is made of: models, tables and errors. The first of Parley's packages that any process imports."""

import os

# pyarrow reads it when it is imported. Its usual allocator keeps what threads have freed: 80 of the 240 MB that a worker held
# after 1,500 dialogues.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
