"""How values lie in the lake: tables with their versions, rows in Arrow, and the records of runs, models, nights and checks."""
