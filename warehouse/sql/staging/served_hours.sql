-- One row per night x run x role x model.
select
    night_id,
    run_id,
    benchmark,
    model,
    role,
    role_model,
    hours,
    gpus
from incoming
