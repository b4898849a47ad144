"""Models, tables and errors that all other packages use.

Every process of Parley imports it first.
"""

import os

# pyarrow reads this variable when it is imported. Its default allocator keeps memory that threads
# have freed: 80 of the 240 MB of a worker after 1,500 dialogues.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
